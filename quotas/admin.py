"""Quotas in the admin console: limits through services, what admission wrote to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from typing_extensions import override
from unfold.widgets import UnfoldAdminTextareaWidget

from foundation import clock
from quotas import limits
from quotas.models import (
    Claim,
    Cohort,
    CohortUsage,
    Decision,
    Pool,
    Preemption,
    Quota,
    QuotaChange,
    QuotaChangeSet,
    QuotaRequest,
    TeamPolicy,
)
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin
from teams.admin_filters.typed import ActorFilter, NameFilter, TimeFilter
from teams.permissions import has_global_role

# Django's class takes a type parameter in the stubs alone, and Unfold, whose pages these are, has no types.
if TYPE_CHECKING:
    _Inline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import TabularInline as _Inline


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg] # as above
    reason = forms.CharField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), help_text="Kept in the history of changes."
    )

    class Meta:
        model = Quota
        fields = ["team", "flavor", "capacity_type", *limits.LIMITS]


@admin.register(Quota)
class QuotaAdmin(ServiceAdmin):
    role = "quota-manager"
    form = QuotaForm
    list_display = ("team", "flavor", "capacity_type", "nominal", "ceiling", "used", "available")
    list_filter = ("capacity_type", "flavor")
    list_select_related = ("team", "flavor")
    search_fields = ("team__slug", "flavor__name")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("team", "flavor", "capacity_type") if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        obj.pk = limits.set_limits(
            team=obj.team,
            flavor=obj.flavor,
            capacity_type=obj.capacity_type,
            limits={name: form.cleaned_data[name] for name in limits.LIMITS},
            reason=form.cleaned_data["reason"],
            actor=actor_of(request),
            now=clock.now(),
        ).pk

    @override
    def delete_model(self, request: HttpRequest, obj: Quota) -> None:
        limits.remove_quota(
            quota=obj, reason="removed in the admin console", actor=actor_of(request), now=clock.now()
        )


@admin.register(TeamPolicy)
class TeamPolicyAdmin(ServiceAdmin):
    """A team without a row has the defaults. Queues are stopped and started on the team's page."""

    role = "quota-manager"
    can_delete = False
    list_display = ("team", "weight", "high_priority", "shows_name", "queue_stopped_at", "queue_stop_reason")
    list_select_related = ("team",)
    search_fields = ("team__slug",)
    fields = ("team", *limits.POLICY_CHANGEABLE)

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("team",) if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: TeamPolicy, form: Any, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in limits.POLICY_CHANGEABLE}
        obj.pk = limits.set_policy(team=obj.team, changes=values, actor=actor_of(request), now=clock.now()).pk


@admin.register(Cohort)
class CohortAdmin(ServiceAdmin):
    role = "quota-manager"
    list_display = ("name", "parent")
    list_select_related = ("parent",)
    search_fields = ("name",)
    fields = ("name", "parent")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: Cohort, form: Any, change: bool) -> None:
        parent, actor, now = form.cleaned_data["parent"], actor_of(request), clock.now()
        if change:
            limits.move_cohort(cohort=obj, parent=parent, actor=actor, now=now)
        else:
            obj.pk = limits.create_cohort(name=obj.name, parent=parent, actor=actor, now=now).pk

    @override
    def delete_model(self, request: HttpRequest, obj: Cohort) -> None:
        limits.delete_cohort(cohort=obj, actor=actor_of(request), now=clock.now())


@admin.register(CohortUsage)
class CohortUsageAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = (
        "cohort", "flavor", "capacity_type", "borrowing_limit", "lending_limit", "guaranteed", "ceiling", "used",
    )  # fmt: skip
    list_filter = ("capacity_type", "flavor")
    list_select_related = ("cohort", "flavor")
    search_fields = ("cohort__name", "flavor__name")


class _ChangesInline(_Inline):
    model = QuotaChange
    fields = ("team_slug", "flavor_name", "capacity_type", "before", "after")
    readonly_fields = fields
    can_delete = False
    extra = 0

    @override
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_global_role(request.user, "quota-manager")

    @override
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @override
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(QuotaChangeSet)
class QuotaChangeSetAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("at", "actor", "reason", "evicts", "undoes")
    list_filter = (("at", TimeFilter), ("actor", ActorFilter), "evicts")
    list_filter_submit = True
    list_select_related = ("undoes",)
    search_fields = ("actor", "reason")
    inlines = (_ChangesInline,)


@admin.register(QuotaChange)
class QuotaChangeAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = (
        "at",
        "team_slug",
        "flavor_name",
        "capacity_type",
        "old_nominal",
        "new_nominal",
        "actor",
        "reason",
    )
    list_filter = (("at", TimeFilter), ("actor", ActorFilter), ("team_slug", NameFilter), "flavor_name")
    list_filter_submit = True
    search_fields = ("team_slug", "flavor_name", "actor", "reason")


@admin.register(QuotaRequest)
class QuotaRequestAdmin(ReadOnlyAdmin):
    """Requests are decided on their page, where the decision's consequences are shown."""

    role = "quota-manager"
    list_display = (
        "requested_at", "team", "flavor", "capacity_type", "units", "until", "state", "requested_by", "decided_by",
    )  # fmt: skip
    list_filter = (
        ("requested_at", TimeFilter),
        ("requested_by__username", ActorFilter),
        ("decided_by__username", ActorFilter),
        "state",
    )
    list_filter_submit = True
    list_select_related = ("team", "flavor", "requested_by", "decided_by")
    search_fields = ("team__slug", "flavor__name", "requested_by__username", "reason")


@admin.register(Claim)
class ClaimAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = (
        "workload",
        "quota",
        "purpose",
        "units",
        "headroom",
        "lent",
        "state",
        "reserved_at",
        "released_at",
    )
    list_filter = (("reserved_at", TimeFilter), ("quota__team__slug", NameFilter), "state")
    list_filter_submit = True
    list_select_related = ("workload", "quota__team", "quota__flavor")
    search_fields = ("workload__name", "quota__team__slug", "quota__flavor__name")


@admin.register(Preemption)
class PreemptionAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("at", "workload", "preemptor", "cause", "lost_seconds", "ended_at")
    list_filter = (("at", TimeFilter), ("workload__team__slug", NameFilter), "cause")
    list_filter_submit = True
    list_select_related = ("workload", "preemptor")
    search_fields = ("workload__name", "message")


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("at", "workload", "verdict", "reason", "rule", "policy", "revision")
    list_filter = (
        ("at", TimeFilter),
        ("workload__owner__username", ActorFilter),
        ("workload__team__slug", NameFilter),
        ("reason", NameFilter),
        "verdict",
    )
    list_filter_submit = True
    list_select_related = ("workload",)
    search_fields = ("=public_id", "workload__name")
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(Pool)
class PoolAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("flavor", "capacity_type", "revision", "due_at", "passed_at")
    list_filter = ("capacity_type",)
    list_select_related = ("flavor",)
    search_fields = ("flavor__name",)
