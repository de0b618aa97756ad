"""REST: `ledger/`, `adjustments/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from costs.api.serializers import AdjustmentSerializer, LedgerSerializer
from costs.ledger import disputes
from costs.models import LedgerEntry
from foundation import clock
from foundation.errors import Invalid
from foundation.http import filters
from foundation.http.idempotency import idempotent
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role, visible_teams

LEDGER_FILTERS = {
    "team": filters.text("team__slug", many=True),
    "account": filters.text(
        "account", description="team:<slug>, which is charged, or supply:<card>:<capacity>, the other side."
    ),
    "workload": filters.uuid("workload__public_id"),
    "pod_uid": filters.text("pod_uid"),
    "from": filters.moment("started_at__gte"),
    "to": filters.moment("started_at__lt"),
}


class LedgerView(PortalView):
    """Every posting to the accounts of the caller's teams, newest first."""

    queryset = LedgerEntry.objects.none()
    serializer_class = LedgerSerializer
    filters = LEDGER_FILTERS
    ordering = "-id"

    @extend_schema(operation_id="ledger_list", tags=["costs"], responses=LedgerSerializer(many=True))
    def get(self, request: Any) -> Response:
        rows = LedgerEntry.objects.filter(team__in=visible_teams(request.user))
        return self.page(rows.select_related("team", "workload", "price"))


class AdjustmentView(PortalView):
    """Take a posting back: entries of the opposite amounts, with the reason."""

    queryset = LedgerEntry.objects.none()
    serializer_class = LedgerSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(
        operation_id="adjustments_create",
        tags=["costs"],
        request=AdjustmentSerializer,
        responses={201: LedgerSerializer(many=True)},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        check_global_role(request.user, "quota-manager")
        values = self.read(AdjustmentSerializer)
        entry = LedgerEntry.objects.filter(transaction_id=values["transaction_id"]).first()
        if entry is None:
            raise Invalid.of_field("transaction_id", "There is no such posting.", code="unknown_transaction")
        sides = disputes.reverse(entry, reason=values["reason"], actor=actor_of(request), now=clock.now())
        return Response(LedgerSerializer(sides, many=True).data, status=201)
