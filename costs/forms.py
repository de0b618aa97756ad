"""Prices as people type them in the admin console: in USD per hour, looked at before they are set."""

from __future__ import annotations

from typing import Any

from django import forms
from typing_extensions import override
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from costs.models import Price
from costs.prices.importing import table_of
from costs.prices.imports import CSV_BYTES_MAX, Choice, Instance, MachineTable
from costs.prices.preview import ImportPreview, PriceChange, preview_import, preview_price
from costs.prices.services import cards_with_prices
from foundation import clock
from foundation.errors import PortalError
from foundation.money import NotAnAmount, format_usd, micro_of_usd
from workloads.models import CapacityType

PLACES = 6
LOOK_FIRST = "Nothing is set yet. See below what it would do, and press the button again to set it."
_FIELDS = {"micro_usd_per_card_hour": "usd_per_card_hour"}
"""The form's field for a field of the service."""


class PriceForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    """A price. Valid once it was shown what it does: `seen` holds what was."""

    card = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    capacity_type = forms.ChoiceField(choices=CapacityType.choices, widget=UnfoldAdminSelectWidget)
    usd_per_card_hour = forms.CharField(
        label="USD per card-hour",
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"}),
        help_text="Such as 2.744705: USD alone, at most six decimals.",
    )
    reason = forms.CharField(
        max_length=1000, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), help_text="Kept with the price."
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    preview: PriceChange | None = None

    class Meta:
        model = Price
        fields = ["valid_from"]
        labels = {"valid_from": "Starts at (UTC)"}

    field_order = ["card", "capacity_type", "usd_per_card_hour", "valid_from", "reason", "seen"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Only the form of a new price has fields: those that exist are looked at.
        if "card" in self.fields:
            self.fields["card"].choices = [(card, card) for card in cards_with_prices()]  # type: ignore[attr-defined]

    def clean_usd_per_card_hour(self) -> int:
        """The amount in micro-USD."""
        try:
            return micro_of_usd(self.cleaned_data["usd_per_card_hour"])
        except NotAnAmount as error:
            raise forms.ValidationError(str(error), code=error.code) from error

    @override
    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if self.errors:
            return values
        self.preview = preview_price(
            card=values["card"],
            capacity_type=values["capacity_type"],
            micro_usd_per_card_hour=values["usd_per_card_hour"],
            valid_from=values["valid_from"],
        )
        for problem in self.preview.refused:
            self.add_error(_FIELDS.get(problem.field, problem.field), problem.message)
        if self.preview.refused:
            return values
        shown = "|".join(
            str(values[name]) for name in ("card", "capacity_type", "usd_per_card_hour", "valid_from")
        )
        if values["seen"] != shown:
            self.add_error(None, LOOK_FIRST)
            self.data = self.data.copy()  # type: ignore[attr-defined] # of a form with data it is a QueryDict
            self.data["seen"] = shown  # type: ignore[index]
        return values


class ImportForm(forms.Form):
    """Prices from a table of machines: the table, which machine is which card, the preview, and the reason to set it."""

    file = forms.FileField(
        required=False,
        label="CSV file",
        widget=UnfoldAdminFileFieldWidget,
        help_text="Prices of machines in USD an hour; see docs/reference/prices.md for the columns.",
    )
    csv = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    valid_from = forms.SplitDateTimeField(
        required=False,
        label="Starts at (UTC)",
        widget=UnfoldAdminSplitDateTimeWidget,
        help_text="Empty: now.",
    )
    reason = forms.CharField(
        required=False,
        max_length=1000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Needed to set the prices; kept with each of them.",
    )
    table: MachineTable | None = None
    preview: ImportPreview | None = None

    @property
    def choices(self) -> list[Choice]:
        """Which machine was chosen for which card."""
        chosen = ((card, self.data.get(_of(card), "")) for card in cards_with_prices())
        parted = ((card, machine.partition("/")) for card, machine in chosen if machine)
        return [Choice(card=card, provider=parts[0], instance_type=parts[2]) for card, parts in parted]

    def machines(self) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
        """For each card the name of its field, and the machines to choose from: value, words, whether it is chosen."""
        if self.table is None:
            return []
        offered = sorted(self.table.instances, key=lambda each: (each.gpu_model, each.name))
        return [
            (
                card,
                _of(card),
                [(each.name, _words(each), self.data.get(_of(card)) == each.name) for each in offered],
            )
            for card in cards_with_prices()
        ]

    @override
    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        text = self._text(values)
        if text is None:
            return values
        try:
            self.table = table_of(text)
        except PortalError as error:
            self.add_error("file", error.message)
            return values
        values["csv"] = text
        self.data = self.data.copy()  # type: ignore[attr-defined] # of a form with data it is a QueryDict
        self.data["csv"] = text  # type: ignore[index]
        if self.choices and "valid_from" in values:
            self.preview = preview_import(
                self.table, self.choices, valid_from=values["valid_from"] or clock.now()
            )
        return values

    def _text(self, values: dict[str, Any]) -> str | None:
        """The table's text: of the file if one came, else what came before; None with an error."""
        file: Any = values.get("file")
        if file is None:
            if not values.get("csv"):
                self.add_error("file", "Choose a file.")
            return values.get("csv") or None
        if (file.size or 0) > CSV_BYTES_MAX:
            self.add_error("file", f"The table is larger than {CSV_BYTES_MAX} bytes.")
            return None
        try:
            text: str = file.read().decode("utf-8")
        except UnicodeDecodeError:
            self.add_error("file", "The file is no text in UTF-8.")
            return None
        return text


def _of(card: str) -> str:
    return f"machine-{card}"


def _words(instance: Instance) -> str:
    prices = ", ".join(
        f"{format_usd(micro, PLACES)} {capacity_type}" for capacity_type, micro in instance.amounts.items()
    )
    return f"{instance.gpu_model}: {instance.name}, {instance.gpu_count} GPUs, {prices}"
