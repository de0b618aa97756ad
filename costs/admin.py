from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from typing_extensions import override

from costs.admin_forms import BudgetForm, OverrideForm
from costs.budgets.services import change_budget, create_budget, delete_budget, give_on_top
from costs.budgets.standings import standing
from costs.forms import ImportForm, PriceForm
from costs.models import Budget, BudgetOverride, LedgerEntry, Price
from costs.prices.importing import import_prices
from costs.prices.services import set_price, withdraw_price
from foundation import clock
from foundation.errors import PortalError
from foundation.money import MICRO, format_usd
from policy.budgets import usd
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin

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
    list_filter = ("priced__card", "priced__capacity_type")
    list_select_related = ("priced",)

    @admin.display(description="USD per card-hour", ordering="micro_usd_per_card_hour")
    def usd_per_card_hour(self, price: Price) -> str:
        return format_usd(price.micro_usd_per_card_hour, USD_PLACES)

    @override
    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None:
            return list(PriceForm.field_order)
        return ["priced", "usd_per_card_hour", "valid_from", "valid_until", "actor", "reason", "created_at"]

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
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


@admin.register(Budget)
class BudgetAdmin(ServiceAdmin):
    """What a team may spend. A change that stops something is shown first, and made when that is confirmed."""

    role = "quota-manager"
    form = BudgetForm
    list_display = ("team", "period", "starts_at", "ends_at", "amount", "standing", "endpoints", "changed_by")
    list_select_related = ("team",)
    search_fields = ("team__slug",)
    fields = (
        "team",
        "period",
        "starts_on",
        "ends_on",
        "amount_usd",
        "warn_percents",
        "endpoints",
        "confirmed",
    )

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("team",) if obj else ()

    @override
    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **more: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **more)
        form.actor = actor_of(request)
        return form

    @admin.display(description="Amount")
    def amount(self, row: Budget) -> str:
        """In dollars."""
        return usd(row.amount_micro_usd)

    @admin.display(description="Spent and promised")
    def standing(self, row: Budget) -> str:
        """In its present period."""
        shown = standing(row, now=clock.now())
        return f"{usd(shown.spent)} and {usd(shown.reserved)} of {usd(shown.amount)}"

    @override
    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: bool) -> None:
        actor, now = actor_of(request), clock.now()
        if change:
            change_budget(budget=obj, changes=form.values(), actor=actor, now=now)
            return
        made = create_budget(team=obj.team, values=form.values(), actor=actor, now=now)
        obj.pk, obj.amount_micro_usd = made.pk, made.amount_micro_usd

    @override
    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        delete_budget(budget=obj, actor=actor_of(request), now=clock.now())


@admin.register(BudgetOverride)
class BudgetOverrideAdmin(ServiceAdmin):
    """What was given on top of budgets. It is never changed: it expires."""

    role = "quota-manager"
    can_change = can_delete = False
    form = OverrideForm
    list_display = ("budget", "amount", "reason", "actor", "created_at", "expires_at")
    list_select_related = ("budget__team",)
    fields = ("budget", "amount_usd", "reason", "expires_at")

    @admin.display(description="Amount")
    def amount(self, row: BudgetOverride) -> str:
        """In dollars."""
        return usd(row.amount_micro_usd)

    @override
    def save_model(self, request: HttpRequest, obj: BudgetOverride, form: Any, change: bool) -> None:
        data = form.cleaned_data
        made = give_on_top(
            budget=data["budget"],
            amount_micro_usd=int(data["amount_usd"] * MICRO),
            reason=data["reason"],
            expires_at=data["expires_at"],
            actor=actor_of(request),
            now=clock.now(),
        )
        obj.pk, obj.amount_micro_usd, obj.expires_at = made.pk, made.amount_micro_usd, made.expires_at


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
    list_filter = ("flavor_name",)
    search_fields = ("account", "pod_uid", "transaction_id")
