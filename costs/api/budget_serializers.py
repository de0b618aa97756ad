"""Bodies and answers of budgets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from costs.budgets.checks import AMOUNT_MAX, PERCENT_MAX, WARNINGS_MAX
from costs.budgets.services import Preview, Stopped
from costs.budgets.standings import BudgetStanding, Forecast
from costs.models import Budget, BudgetOverride
from foundation.http.etag import version_of
from foundation.http.serializers import MoneySerializer, StrictSerializer
from foundation.money import DECIMALS, MICRO
from workloads.models import Workload

USD_DIGITS = len(str(AMOUNT_MAX))
CURRENCY = "USD"


class _MoneyWriteSerializer(StrictSerializer):
    amount_usd = serializers.DecimalField(
        max_digits=USD_DIGITS,
        decimal_places=DECIMALS,
        min_value=Decimal(1) / MICRO,
        max_value=Decimal(AMOUNT_MAX // MICRO),
        help_text="Dollars, exact to a millionth, such as `5000` or `99.5`.",
    )
    currency = serializers.ChoiceField(choices=[CURRENCY], default=CURRENCY, help_text="Prices are in USD.")


class BudgetChangeSerializer(_MoneyWriteSerializer):
    period = serializers.ChoiceField(choices=Budget.Period.choices, default=Budget.Period.MONTH)
    starts_on = serializers.DateField(
        allow_null=True, default=None, help_text="Of a fixed period: its first day (UTC)."
    )
    ends_on = serializers.DateField(
        allow_null=True, default=None, help_text="Of a fixed period: the first day (UTC) after it."
    )
    warn_percents = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=PERCENT_MAX),
        max_length=WARNINGS_MAX,
        default=lambda: [80, 100],
        help_text="Percents of the amount at which people are told.",
    )
    endpoints = serializers.ChoiceField(
        choices=Budget.Endpoints.choices,
        default=Budget.Endpoints.ALERT,
        help_text="What becomes of endpoints when it is spent.",
    )


class BudgetWriteSerializer(BudgetChangeSerializer):
    team = serializers.SlugField(max_length=40)


class BudgetPreviewWriteSerializer(BudgetWriteSerializer):
    """The body of a budget that would be made, or of the team's present one as it would be changed to."""


class OverrideWriteSerializer(_MoneyWriteSerializer):
    reason = serializers.CharField(max_length=1000)
    expires_at = serializers.DateTimeField(
        required=False, help_text="In the present period; the end of it, unless given."
    )


def budget_values(read: Mapping[str, Any]) -> dict[str, Any]:
    """What was read, as the services take it."""
    values = {name: read[name] for name in ("period", "warn_percents", "endpoints") if name in read}
    if "amount_usd" in read:
        values["amount_micro_usd"] = micro_of(read["amount_usd"])
    for day, moment in (("starts_on", "starts_at"), ("ends_on", "ends_at")):
        if day in read:
            values[moment] = _midnight(read[day])
    return values


def micro_of(usd: Decimal) -> int:
    """Whole micro-USD."""
    return int(usd * MICRO)


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), tzinfo=UTC)


class OverrideSerializer(serializers.ModelSerializer[BudgetOverride]):
    id = serializers.UUIDField(source="public_id")
    amount = MoneySerializer(source="amount_micro_usd")

    class Meta:
        model = BudgetOverride
        fields = ["id", "amount", "reason", "actor", "created_at", "expires_at"]


class ForecastSerializer(serializers.Serializer[Forecast]):
    runs_out_at = serializers.DateTimeField(allow_null=True)
    unknown_because = serializers.CharField(allow_null=True)


class ForecastsSerializer(serializers.Serializer[BudgetStanding]):
    by_rate = ForecastSerializer(help_text="As what runs now goes on.")
    by_week = ForecastSerializer(help_text="As the team has spent in the last 7 days.")


class BudgetSerializer(serializers.Serializer[BudgetStanding]):
    id = serializers.UUIDField(source="budget.public_id")
    team = serializers.CharField(source="budget.team.slug")
    period = serializers.ChoiceField(source="budget.period", choices=Budget.Period.choices)
    starts_at = serializers.DateTimeField(
        source="span.starts_at",
        default=None,
        allow_null=True,
        help_text="Of the present period; null for none.",
    )
    ends_at = serializers.DateTimeField(source="span.ends_at", default=None, allow_null=True)
    amount = MoneySerializer(source="budget.amount_micro_usd")
    on_top = MoneySerializer(help_text="What quota managers have given on top, and has not expired.")
    spent = MoneySerializer(help_text="With what has come up and is not in the ledger yet.")
    reserved = MoneySerializer(help_text="Promised to what runs, and not spent.")
    left = MoneySerializer(help_text="What new work may be promised.")
    percent = serializers.IntegerField(help_text="How much of it is spent.")
    warn_percents = serializers.ListField(child=serializers.IntegerField(), source="budget.warn_percents")
    warned = serializers.ListField(
        child=serializers.IntegerField(), help_text="The thresholds that are passed."
    )
    endpoints = serializers.ChoiceField(source="budget.endpoints", choices=Budget.Endpoints.choices)
    forecast = ForecastsSerializer(source="*")
    overrides = OverrideSerializer(many=True)
    version = serializers.SerializerMethodField(help_text="What If-Match takes.")
    created_at = serializers.DateTimeField(source="budget.created_at")
    created_by = serializers.CharField(source="budget.created_by")
    changed_at = serializers.DateTimeField(source="budget.changed_at")
    changed_by = serializers.CharField(source="budget.changed_by")

    def get_version(self, standing: BudgetStanding) -> str:
        """Of the budget's row."""
        return version_of(standing.budget)


class PaidWorkSerializer(serializers.Serializer[Workload]):
    id = serializers.UUIDField(source="public_id")
    kind = serializers.CharField()
    name = serializers.CharField()
    phase = serializers.CharField()


class StoppedSerializer(serializers.Serializer[Stopped]):
    workload = PaidWorkSerializer()
    at = serializers.DateTimeField(help_text="When it begins to stop, unless more money comes.")


class PreviewedSerializer(serializers.Serializer[BudgetStanding]):
    amount = MoneySerializer(source="budget.amount_micro_usd")
    on_top = MoneySerializer()
    spent = MoneySerializer()
    reserved = MoneySerializer()
    left = MoneySerializer()
    percent = serializers.IntegerField()
    ends_at = serializers.DateTimeField(source="span.ends_at", default=None, allow_null=True)
    forecast = ForecastsSerializer(source="*")


class BudgetPreviewSerializer(serializers.Serializer[Preview]):
    budget = PreviewedSerializer(source="standing", help_text="As it would stand.")
    stopped = StoppedSerializer(many=True, help_text="What runs and would be stopped before its time limit.")
    waiting = PaidWorkSerializer(many=True, help_text="What waits and would have to wait for money.")
