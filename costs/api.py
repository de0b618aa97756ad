"""REST: `prices/`, `ledger/`, `costs/`, `adjustments/`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from costs import services
from costs.models import LedgerEntry, Price
from costs.queries import GROUPS, summary
from costs.serializers import (
    AdjustmentSerializer,
    CostGroupSerializer,
    CostSummarySerializer,
    LedgerSerializer,
    PriceSerializer,
    PriceWriteSerializer,
)
from foundation import clock
from foundation.errors import Invalid, NotFound
from foundation.http import filters
from foundation.http.csv_files import csv_file
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters, one, refuse
from teams.actors import actor_of
from teams.api.base import AnyAccept, PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role, visible_teams


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
        services.check_card(values["card"])
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
        return self.created(PriceSerializer(price).data, f"{request.path}{price.public_id}/")


class PriceView(PortalView):
    queryset = Price.objects.none()
    serializer_class = PriceSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="prices_read", tags=["costs"], responses=PriceSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One price."""
        check_query_parameters(request, ())
        return Response(PriceSerializer(_price(public_id)).data)

    @extend_schema(operation_id="prices_withdraw", tags=["costs"], responses={204: None})
    def delete(self, request: Any, public_id: UUID) -> Response:
        """Take back a price that has not begun: the one before it goes on. 409 `price_began` for one that has."""
        check_global_role(request.user, "quota-manager")
        services.withdraw_price(price=_price(public_id), actor=actor_of(request), now=clock.now())
        return Response(status=204)


def _price(public_id: UUID) -> Price:
    price = Price.objects.select_related("priced").filter(public_id=public_id).first()
    if price is None:
        raise NotFound("There is no such price.")
    return price


CSV_CHUNK = 500
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
GROUP_BY = OpenApiParameter("group_by", str, enum=list(GROUPS), description="`team` unless given.")


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
        sides = services.reverse(entry, reason=values["reason"], actor=actor_of(request), now=clock.now())
        return Response(LedgerSerializer(sides, many=True).data, status=201)


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
