from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from typing_extensions import override
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from costs.models import LedgerEntry, Price
from costs.prices.services import check_card, set_price, withdraw_price
from foundation import clock
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
