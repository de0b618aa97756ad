"""REST: the ledger as a file."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema

from costs.api.reports import PARAMETERS, asked_for
from costs.api.serializers import LedgerSerializer
from costs.models import LedgerEntry
from costs.reports.focus import COLUMNS, focus_rows
from foundation.http.csv_files import csv_file
from teams.api.base import AnyAccept, PortalView


class CostExportView(PortalView):
    """What teams are charged, line by line as a CSV file in the columns of FOCUS 1.2, oldest first.

    A line that the window cuts is told with the part that lies within: the files of windows that follow each other add
    up to the ledger.
    """

    queryset = LedgerEntry.objects.none()
    serializer_class = LedgerSerializer
    filter_backends = []
    pagination_class = None  # type: ignore[assignment] # not a list of pages
    content_negotiation_class = AnyAccept
    expensive = frozenset({"get"})

    @extend_schema(
        operation_id="costs_export",
        tags=["costs"],
        parameters=PARAMETERS,
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Any) -> StreamingHttpResponse:
        asked = asked_for(request)
        rows = focus_rows(teams=asked.teams, window=asked.window, filters=asked.filters)
        return csv_file(COLUMNS, rows, filename="costs.csv")
