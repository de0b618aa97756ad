"""REST: `prices/`, `ledger/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from costs import services
from costs.models import LedgerEntry, Price
from costs.serializers import LedgerSerializer, PriceSerializer, PriceWriteSerializer
from foundation import clock
from foundation.http import filters
from foundation.http.idempotency import idempotent
from teams.actors import actor_of
from teams.models import ApiToken
from teams.permissions import check_global_role, visible_teams
from teams.rest import PortalView


class PriceListView(PortalView):
    """Every price there is and was, newest first."""

    queryset = Price.objects.none()
    serializer_class = PriceSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"card": filters.text("priced__card"), "capacity": filters.text("priced__capacity_type")}
    ordering_fields = ("valid_from",)
    ordering = "-valid_from"

    @extend_schema(operation_id="prices_list", tags=["costs"], responses=PriceSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(Price.objects.select_related("priced"))

    @extend_schema(
        operation_id="prices_set",
        tags=["costs"],
        request=PriceWriteSerializer,
        responses={201: PriceSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Set the price of a card from a moment on; what is billed already stays as it is."""
        check_global_role(request.user, "quota-manager")
        values = self.read(PriceWriteSerializer)
        now = clock.now()
        price = services.set_price(
            card=values["card"],
            capacity_type=values["capacity"],
            micro_usd_per_card_hour=values["micro_usd_per_card_hour"],
            valid_from=values.get("valid_from", now),
            reason=values["reason"],
            actor=actor_of(request),
            now=now,
        )
        return Response(PriceSerializer(price).data, status=201)


class LedgerView(PortalView):
    """Every posting to the accounts of the caller's teams, newest first."""

    queryset = LedgerEntry.objects.none()
    serializer_class = LedgerSerializer
    filters = {
        "team": filters.text("team__slug", many=True),
        "account": filters.text("account"),
        "workload": filters.uuid("workload__public_id"),
        "pod_uid": filters.text("pod_uid"),
        "from": filters.moment("started_at__gte"),
        "to": filters.moment("started_at__lt"),
    }
    ordering = "-id"

    @extend_schema(operation_id="ledger_list", tags=["costs"], responses=LedgerSerializer(many=True))
    def get(self, request: Any) -> Response:
        rows = LedgerEntry.objects.filter(team__in=visible_teams(request.user))
        return self.page(rows.select_related("team", "workload", "price"))
