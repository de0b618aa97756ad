from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from typing_extensions import override

from budgets.forms import BudgetForm, OverrideForm
from budgets.services import change_budget, create_budget, delete_budget, give_on_top
from budgets.standings import standing
from costs.models import Budget, BudgetOverride, BudgetPeriod
from foundation import clock
from foundation.money import MICRO
from policy.budgets import usd
from teams.actors import actor_of
from teams.admin import ServiceAdmin
from teams.admin_filters.typed import ActorFilter, TimeFilter


@admin.register(Budget)
class BudgetAdmin(ServiceAdmin):
    """What a team may spend. A change that stops something is shown first, and made when that is confirmed."""

    role = "quota-manager"
    form = BudgetForm
    list_display = ("team", "period", "starts_at", "ends_at", "amount", "taken", "endpoints", "changed_by")
    list_filter = (("changed_at", TimeFilter), ("changed_by", ActorFilter), "period")
    list_filter_submit = True
    list_select_related = ("team",)
    search_fields = ("team__slug", "changed_by")
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
        return ("team", "standing") if obj else ()

    @override
    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*self.fields, "standing") if obj else self.fields

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Budget]:
        """With what is kept of its present period: `standing` reads each team's lines, which a list cannot afford."""
        now = clock.now()
        present = BudgetPeriod.objects.filter(budget=OuterRef("pk"), starts_at__lte=now, ends_at__gt=now)
        kept = JSONObject(committed="committed_micro_usd", ceiling="ceiling_micro_usd")
        rows: QuerySet[Budget] = super().get_queryset(request)
        return rows.annotate(kept=Subquery(present.values_list(kept)[:1]))

    @override
    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **more: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **more)
        form.actor = actor_of(request)
        return form

    @admin.display(description="Amount")
    def amount(self, row: Budget) -> str:
        """In dollars."""
        return usd(row.amount_micro_usd)

    @admin.display(description="Spent or promised")
    def taken(self, row: Any) -> str:
        """Of the present period, and of what it may be."""
        return f"{usd(row.kept['committed'])} of {usd(row.kept['ceiling'])}" if row.kept else "nothing yet"

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
    list_filter = (("created_at", TimeFilter), ("actor", ActorFilter))
    list_filter_submit = True
    list_select_related = ("budget__team",)
    search_fields = ("budget__team__slug", "actor", "reason")
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
