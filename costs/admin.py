from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from typing_extensions import override
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from costs.admin_forms import BudgetForm, OverrideForm
from costs.budgets.services import change_budget, create_budget, delete_budget, give_on_top
from costs.budgets.standings import standing
from costs.models import Budget, BudgetOverride, LedgerEntry, Price
from costs.prices.services import check_card, set_price, withdraw_price
from foundation import clock
from foundation.money import MICRO
from policy.budgets import usd
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin
from workloads.models import CapacityType


class PriceForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    card = forms.CharField(max_length=63, widget=UnfoldAdminTextInputWidget)
    capacity_type = forms.ChoiceField(choices=CapacityType.choices, widget=UnfoldAdminSelectWidget)

    class Meta:
        model = Price
        fields = ["card", "capacity_type", "micro_usd_per_card_hour", "valid_from", "reason"]


@admin.register(Price)
class PriceAdmin(ServiceAdmin):
    """A price is never changed: the next one ends it. One that has not begun may be taken back."""

    role = "quota-manager"
    form = PriceForm
    can_change = False
    list_display = ("priced", "micro_usd_per_card_hour", "valid_from", "valid_until", "actor", "reason")
    list_filter = ("priced__card", "priced__capacity_type")
    list_select_related = ("priced",)

    @override
    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: bool) -> None:
        check_card(form.cleaned_data["card"])
        obj.pk = set_price(**form.cleaned_data, actor=actor_of(request), now=clock.now()).pk

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
