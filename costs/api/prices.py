"""REST: `prices/`, what a change of them would do, and prices from a table of machines."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from costs.api.price_serializers import (
    ImportedPricesSerializer,
    ImportPreviewSerializer,
    ImportPreviewWriteSerializer,
    ImportWriteSerializer,
    PriceChangeSerializer,
    PricePreviewWriteSerializer,
    PriceSerializer,
    PriceWriteSerializer,
)
from costs.models import Price
from costs.prices import services
from costs.prices.importing import import_prices, table_of
from costs.prices.preview import preview_import, preview_price
from foundation import clock
from foundation.errors import NotFound
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role


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


class PricePreviewView(PortalView):
    queryset = Price.objects.none()
    serializer_class = PriceChangeSerializer
    scopes = {"POST": ApiToken.Scope.READ}
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="prices_preview",
        tags=["costs"],
        request=PricePreviewWriteSerializer,
        responses=PriceChangeSerializer,
    )
    def post(self, request: Any) -> Response:
        """What setting the price of a card would do: the price before, what runs by team, and refusals; makes nothing."""
        check_global_role(request.user, "quota-manager")
        values = self.read(PricePreviewWriteSerializer)
        change = preview_price(
            card=values["card"],
            capacity_type=values["capacity"],
            micro_usd_per_card_hour=values["micro_usd_per_card_hour"],
            valid_from=values.get("valid_from", clock.now()),
        )
        return Response(PriceChangeSerializer(change).data)


class ImportPreviewView(PortalView):
    queryset = Price.objects.none()
    serializer_class = ImportPreviewSerializer
    scopes = {"POST": ApiToken.Scope.READ}
    expensive = frozenset({"post"})
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="prices_import_preview",
        tags=["costs"],
        request=ImportPreviewWriteSerializer,
        responses=ImportPreviewSerializer,
    )
    def post(self, request: Any) -> Response:
        """What importing prices from a table of machines would set, and what of it is refused; makes nothing."""
        check_global_role(request.user, "quota-manager")
        values = self.read(ImportPreviewWriteSerializer)
        found = preview_import(
            table_of(values["csv"]), values["cards"], valid_from=values.get("valid_from", clock.now())
        )
        return Response(ImportPreviewSerializer(found).data)


class ImportView(PortalView):
    queryset = Price.objects.none()
    serializer_class = ImportedPricesSerializer
    write_scope = ApiToken.Scope.MANAGE
    expensive = frozenset({"post"})
    pagination_class = None  # type: ignore[assignment] # not a list of pages

    @extend_schema(
        operation_id="prices_import",
        tags=["costs"],
        request=ImportWriteSerializer,
        responses={201: ImportedPricesSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Set the prices of cards from a table of machines, all of them or none; answers those that are new."""
        check_global_role(request.user, "quota-manager")
        values = self.read(ImportWriteSerializer)
        now = clock.now()
        made = import_prices(
            text=values["csv"],
            choices=values["cards"],
            valid_from=values.get("valid_from", now),
            reason=values["reason"],
            actor=actor_of(request),
            now=now,
        )
        return Response(ImportedPricesSerializer({"prices": made}).data, status=201)


def _price(public_id: UUID) -> Price:
    price = Price.objects.select_related("priced").filter(public_id=public_id).first()
    if price is None:
        raise NotFound("There is no such price.")
    return price
