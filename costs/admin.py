from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from typing_extensions import override

from costs.forms import ImportForm, PriceForm
from costs.models import LedgerEntry, Price
from costs.prices.importing import import_prices
from costs.prices.services import set_price, withdraw_price
from foundation import clock
from foundation.errors import PortalError
from foundation.money import format_usd
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin
from teams.admin_filters.typed import ActorFilter, NameFilter, TimeFilter

USD_PLACES = 6


@admin.register(Price)
class PriceAdmin(ServiceAdmin):
    """A price is never changed: the next one ends it. One that has not begun may be taken back."""

    role = "quota-manager"
    form = PriceForm
    can_change = False
    change_form_before_template = "admin/costs/price/preview.html"
    list_before_template = "admin/costs/price/tools.html"
    list_display = ("priced", "usd_per_card_hour", "valid_from", "valid_until", "actor", "reason")
    list_filter = (
        ("valid_from", TimeFilter),
        ("actor", ActorFilter),
        "priced__card",
        "priced__capacity_type",
    )
    list_filter_submit = True
    list_select_related = ("priced",)
    search_fields = ("priced__card", "actor", "reason")

    @admin.display(description="USD per card-hour", ordering="micro_usd_per_card_hour")
    def usd_per_card_hour(self, price: Price) -> str:
        return format_usd(price.micro_usd_per_card_hour, USD_PLACES)

    @override
    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return list(PriceForm.field_order)
        return ["priced", "usd_per_card_hour", "valid_from", "valid_until", "actor", "reason", "created_at"]

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [] if obj is None else self.get_fields(request, obj)

    @override
    def get_urls(self) -> list[URLPattern]:
        own = path("import/", self.admin_site.admin_view(self.import_view), name="costs_price_import")
        return [own, *super().get_urls()]

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Prices from a table of machines: chosen, looked at, and set."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
        if form.is_bound and form.is_valid() and "_set" in request.POST and self._imported(request, form):
            return redirect("admin:costs_price_changelist")
        context = {
            **self.admin_site.each_context(request),
            "title": "Import prices",
            "opts": self.opts,
            "form": form,
        }
        return TemplateResponse(request, "admin/costs/price/import.html", context)

    def _imported(self, request: HttpRequest, form: ImportForm) -> bool:
        """Whether the prices were set; else the form says why not."""
        values, now = form.cleaned_data, clock.now()
        if not values["reason"]:
            form.add_error("reason", "Say why: it is kept with each price.")
            return False
        try:
            made = import_prices(
                text=values["csv"],
                choices=form.choices,
                valid_from=values["valid_from"] or now,
                reason=values["reason"],
                actor=actor_of(request),
                now=now,
            )
        except PortalError as error:
            form.add_error(None, error.message)
            return False
        messages.success(request, f"{len(made)} new prices are set.")
        return True

    @override
    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: bool) -> None:
        values = form.cleaned_data
        made = set_price(
            card=values["card"],
            capacity_type=values["capacity_type"],
            micro_usd_per_card_hour=values["usd_per_card_hour"],
            valid_from=values["valid_from"],
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
        )
        obj.__dict__.update(made.__dict__)

    @override
    def delete_model(self, request: HttpRequest, obj: Price) -> None:
        withdraw_price(price=obj, actor=actor_of(request), now=clock.now())


@admin.register(LedgerEntry)
class LedgerAdmin(ReadOnlyAdmin):
    plural = "ledger entries"
    role = "quota-manager"
    list_display = (
        "posted_at",
        "account",
        "flavor_name",
        "units",
        "started_at",
        "ended_at",
        "amount_micro_usd",
    )
    list_filter = (("posted_at", TimeFilter), ("account", NameFilter), ("flavor_name", NameFilter))
    list_filter_submit = True
    search_fields = ("account", "pod_uid", "transaction_id")
