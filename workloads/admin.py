from __future__ import annotations

from django.contrib import admin

from teams.admin import ReadOnlyAdmin
from teams.admin_filters import ActorFilter, NameFilter, TimeFilter
from workloads.models import NodeRecord, Workload


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "team", "owner", "phase", "reason", "flavor", "units", "created_at")
    list_filter = (
        ("created_at", TimeFilter),
        ("owner__username", ActorFilter),
        ("team__slug", NameFilter),
        "phase",
        ("reason", NameFilter),
    )
    list_filter_submit = True
    list_select_related = ("team", "owner", "flavor")
    search_fields = ("name", "public_id")


@admin.register(NodeRecord)
class NodeAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("name", "ready", "unschedulable", "allocatable", "gone_at")
    search_fields = ("name",)
