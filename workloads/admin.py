from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation import clock
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin
from workloads.catalogue import parse_fraction, set_flavor
from workloads.models import NodeRecord, ResourceFlavor, Workload
from workloads.states import Reason


class FlavorForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    gpu_fraction = forms.CharField(
        initial="1", widget=UnfoldAdminTextInputWidget, help_text="Exact share of one card: 1, or 1/7."
    )

    class Meta:
        model = ResourceFlavor
        fields = [
            "name",
            "card",
            "resource",
            "memory_gib",
            "sharing",
            "node_selector",
            "tolerations",
            "capacity",
            "enabled",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["gpu_fraction"].initial = str(self.instance.gpu_fraction)

    def clean_gpu_fraction(self) -> str:
        """The text, if it is an exact fraction of one card."""
        text: str = self.cleaned_data["gpu_fraction"]
        try:
            parse_fraction(text)
        except Exception as error:
            raise forms.ValidationError(str(error)) from error
        return text


@admin.register(ResourceFlavor)
class FlavorAdmin(ServiceAdmin):
    role = "quota-manager"
    form = FlavorForm
    can_delete = False
    list_display = ("name", "card", "resource", "gpu_fraction", "sharing", "enabled")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: ResourceFlavor, form: Any, change: bool) -> None:
        values = {**form.cleaned_data}
        values["name"] = obj.name
        obj.pk = set_flavor(**values, actor=actor_of(request), now=clock.now())[0].pk


class ReasonFilter(admin.SimpleListFilter):
    """All reasons, not only those of existing rows: a list of names must not cost a read of all rows."""

    title = "reason"
    parameter_name = "reason"

    @override
    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Workload]) -> list[tuple[str, str]]:
        return [(reason.value, reason.value) for reason in Reason]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Workload]) -> QuerySet[Workload]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "team", "owner", "phase", "reason", "flavor", "units", "created_at")
    list_filter = ("kind", "phase", ReasonFilter)
    list_select_related = ("team", "owner", "flavor")
    search_fields = ("name", "public_id")


@admin.register(NodeRecord)
class NodeAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("name", "ready", "unschedulable", "allocatable", "gone_at")
    search_fields = ("name",)
