"""REST: `costs/`, and the ledger as a file."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from costs.api.ledger import LEDGER_FILTERS
from costs.api.serializers import CostGroupSerializer, CostSummarySerializer, LedgerSerializer
from costs.models import LedgerEntry
from costs.reports.queries import GROUPS, summary
from foundation.http.csv_files import csv_file
from foundation.http.query import one, refuse
from teams.api.base import AnyAccept, PortalView
from teams.permissions import visible_teams

CSV_CHUNK = 500
GROUP_BY = OpenApiParameter("group_by", str, enum=list(GROUPS), description="`team` unless given.")


class CostSummaryView(PortalView):
    """What the caller's teams were charged, summed; what still runs counts up to its last settlement."""

    queryset = LedgerEntry.objects.none()
    serializer_class = CostGroupSerializer
    filters = LEDGER_FILTERS
    extra_parameters = ("group_by",)
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="costs_summary", tags=["costs"], parameters=[GROUP_BY], responses=CostSummarySerializer
    )
    def get(self, request: Any) -> Response:
        group_by = one(request, "group_by") or "team"
        if group_by not in GROUPS:
            raise refuse("group_by", f"must be one of {', '.join(GROUPS)}.")
        rows = LedgerEntry.objects.filter(team__in=visible_teams(request.user))
        groups = summary(self.filter_queryset(rows), group_by=group_by)
        return Response({"results": CostGroupSerializer(groups, many=True).data})


class CostExportView(PortalView):
    """What teams are charged, line by line as a CSV file, oldest first: `account=supply:…` has the other side of each."""

    queryset = LedgerEntry.objects.none()
    serializer_class = LedgerSerializer
    filters = LEDGER_FILTERS
    pagination_class = None  # type: ignore[assignment] # not a list of pages
    content_negotiation_class = AnyAccept
    expensive = frozenset({"get"})

    @extend_schema(
        operation_id="costs_export", tags=["costs"], responses={(200, "text/csv"): OpenApiTypes.STR}
    )
    def get(self, request: Any) -> StreamingHttpResponse:
        rows = self.filter_queryset(LedgerEntry.objects.filter(team__in=visible_teams(request.user)))
        if "account" not in request.query_params:
            rows = rows.filter(account__startswith="team:")
        entries = rows.select_related("team", "workload", "price").order_by("id")
        rows_of_csv = map(_csv_row, entries.iterator(chunk_size=CSV_CHUNK))
        return csv_file(CSV_COLUMNS, rows_of_csv, filename="costs.csv")


CSV_COLUMNS = (
    "transaction_id", "team", "workload", "pod_uid", "node_name", "flavor_name", "started_at", "ended_at", "units",
    "price", "amount_micro_usd", "reason", "account",
)  # fmt: skip


def _csv_row(entry: LedgerEntry) -> list[Any]:
    return [
        entry.transaction_id,
        entry.team.slug if entry.team else "",
        entry.workload.public_id if entry.workload else "",
        entry.pod_uid,
        entry.node_name,
        entry.flavor_name,
        entry.started_at.isoformat(),
        entry.ended_at.isoformat(),
        entry.units,
        entry.price.public_id if entry.price else "",
        entry.amount_micro_usd,
        entry.reason,
        entry.account,
    ]
