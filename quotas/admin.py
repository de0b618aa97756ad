from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from typing_extensions import override

from foundation import clock
from quotas.models import Claim, Quota, QuotaChange
from quotas.services import remove_quota, set_nominal
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin, ServiceAdmin


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 2}), help_text="Kept in the history of changes."
    )

    class Meta:
        model = Quota
        fields = ["team", "flavor", "capacity_type", "nominal"]


@admin.register(Quota)
class QuotaAdmin(ServiceAdmin):
    role = "quota-manager"
    form = QuotaForm
    list_display = ("team", "flavor", "capacity_type", "nominal", "used", "available")
    list_filter = ("capacity_type", "flavor")
    list_select_related = ("team", "flavor")
    search_fields = ("team__slug", "flavor__name")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("team", "flavor", "capacity_type") if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        obj.pk = set_nominal(
            team=obj.team,
            flavor=obj.flavor,
            capacity_type=obj.capacity_type,
            nominal=form.cleaned_data["nominal"],
            reason=form.cleaned_data["reason"],
            actor=actor_of(request),
            now=clock.now(),
        ).pk

    @override
    def delete_model(self, request: HttpRequest, obj: Quota) -> None:
        remove_quota(
            quota=obj, reason="removed in the admin console", actor=actor_of(request), now=clock.now()
        )


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
    list_filter = ("flavor_name",)
    search_fields = ("team_slug", "reason")


@admin.register(Claim)
class ClaimAdmin(ReadOnlyAdmin):
    role = "quota-manager"
    list_display = ("workload", "quota", "units", "state", "reserved_at", "released_at")
    list_filter = ("state",)
    list_select_related = ("workload", "quota__team", "quota__flavor")
