"""The form of a budget in the admin console: its change is looked at before it is made."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django import forms
from typing_extensions import override
from unfold.widgets import (
    UnfoldAdminDateWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from budgets import services
from budgets.checks import AMOUNT_MAX
from budgets.services import Preview
from costs.models import Budget, BudgetOverride
from foundation import clock
from foundation.errors import Invalid
from foundation.money import DECIMALS, MICRO
from policy.budgets import usd
from teams.actors import Actor

NAMED_MOST = 10
_FIELD_OF = {"amount_micro_usd": "amount_usd"}


class BudgetForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    amount_usd = forms.DecimalField(
        label="Amount in USD",
        min_value=Decimal(1) / MICRO,
        max_value=AMOUNT_MAX // MICRO,
        decimal_places=DECIMALS,
        widget=UnfoldAdminDecimalFieldWidget,
    )
    starts_on = forms.DateField(
        required=False, widget=UnfoldAdminDateWidget, help_text="Of a fixed period: its first day (UTC)."
    )
    ends_on = forms.DateField(
        required=False,
        widget=UnfoldAdminDateWidget,
        help_text="Of a fixed period: the first day (UTC) after it.",
    )
    warn_percents = forms.CharField(
        initial="80,100",
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Percents of the amount at which people are told.",
    )
    confirmed = forms.BooleanField(
        label="I have seen whom it stops",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Without it, a change that stops something, or keeps it waiting, is only shown.",
    )
    actor: Actor
    """Who changes it; set by the page."""

    class Meta:
        model = Budget
        fields = ["team", "period", "endpoints"]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        row: Budget = self.instance
        if row.pk:
            self.initial = {
                **self.initial,
                "amount_usd": Decimal(row.amount_micro_usd) / MICRO,
                "starts_on": row.starts_at.date() if row.starts_at else None,
                "ends_on": row.ends_at.date() if row.ends_at else None,
                "warn_percents": ",".join(map(str, row.warn_percents)),
            }

    def clean_warn_percents(self) -> list[int]:
        """Whole numbers, with commas between."""
        parts = [part.strip() for part in self.cleaned_data["warn_percents"].split(",") if part.strip()]
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise forms.ValidationError("Whole numbers with commas between, such as 80,100.")
        return [int(part) for part in parts]

    @override
    def clean(self) -> dict[str, Any]:
        """Refuse what cannot be, and what stops somebody until it is confirmed."""
        data: dict[str, Any] = super().clean() or {}
        if self.errors:
            return data
        row: Budget | None = self.instance if self.instance.pk else None
        try:
            answer = services.preview(
                team=row.team if row else data["team"],
                budget=row,
                values=self.values(),
                actor=self.actor,
                now=clock.now(),
            )
        except Invalid as error:
            for problem in error.errors:
                name = _FIELD_OF.get(problem.field, problem.field)
                self.add_error(name if name in self.fields else None, problem.message)
            return data
        if not data["confirmed"] and (answer.stopped or answer.waiting):
            self.add_error("confirmed", told(answer))
        return data

    def values(self) -> dict[str, Any]:
        """What the form says, as the services take it."""
        data = self.cleaned_data
        return {
            "period": data["period"],
            "amount_micro_usd": int(data["amount_usd"] * MICRO),
            "starts_at": _midnight(data["starts_on"]),
            "ends_at": _midnight(data["ends_on"]),
            "warn_percents": data["warn_percents"],
            "endpoints": data["endpoints"],
        }


class OverrideForm(forms.ModelForm):  # type: ignore[type-arg] # as above
    amount_usd = forms.DecimalField(
        label="Amount in USD",
        min_value=Decimal(1) / MICRO,
        max_value=AMOUNT_MAX // MICRO,
        decimal_places=DECIMALS,
        widget=UnfoldAdminDecimalFieldWidget,
    )

    class Meta:
        model = BudgetOverride
        fields = ["budget", "reason", "expires_at"]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if "expires_at" in self.fields:
            self.fields["expires_at"].required = False
            self.fields["expires_at"].help_text = "In the present period; the end of it, unless given."


def told(preview: Preview) -> str:
    """What a change would do, in sentences."""
    now = preview.standing
    said = [
        f"{usd(now.spent)} of {usd(now.amount)} are spent and {usd(now.reserved)} would be promised to what runs."
    ]
    if preview.stopped:
        names = [
            f"{row.workload.name} at {row.at:%Y-%m-%d %H:%M} UTC" for row in preview.stopped[:NAMED_MOST]
        ]
        more = f" and {len(preview.stopped) - NAMED_MOST} more" if len(preview.stopped) > NAMED_MOST else ""
        said.append(f"It would stop {', '.join(names)}{more}.")
    if preview.waiting:
        said.append(f"{len(preview.waiting)} in the queue would wait for money.")
    if now.by_week.runs_out_at is not None:
        said.append(f"As in the last 7 days, it runs out on {now.by_week.runs_out_at:%Y-%m-%d}.")
    return " ".join(said)


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), tzinfo=UTC)
