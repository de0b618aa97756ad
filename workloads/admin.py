from __future__ import annotations

from django.contrib import admin
from typing_extensions import override

from teams.admin import ReadOnlyAdmin
from teams.admin_filters.typed import ActorFilter, NameFilter, TimeFilter
from workloads.kinds import kinds
from workloads.models import NodeRecord, Workload
from workloads.states import Reason


class ReasonFilter(NameFilter):
    """All reasons are offered, not only those of existing rows: a list of names must not cost a read of all rows."""

    @override
    def names(self) -> list[str]:
        return [reason.value for reason in Reason]


class KindFilter(NameFilter):
    @override
    def names(self) -> list[str]:
        return [kind.name for kind in kinds()]


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "team", "owner", "phase", "reason", "flavor", "units", "created_at")
    list_filter = (
        ("created_at", TimeFilter),
        ("owner__username", ActorFilter),
        ("team__slug", NameFilter),
        "phase",
        ("reason", ReasonFilter),
        ("kind", KindFilter),
    )
    list_filter_submit = True
    list_select_related = ("team", "owner", "flavor")
    search_fields = ("name", "public_id")


@admin.register(NodeRecord)
class NodeAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("name", "ready", "unschedulable", "allocatable", "gone_at")
    search_fields = ("name",)
