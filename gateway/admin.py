"""Tokens of endpoints in the admin console: to look at, and to revoke."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation import clock
from gateway import services
from gateway.models import EndpointToken
from teams.actors import actor_of
from teams.admin import ReadOnlyAdmin
from teams.admin_filters.typed import ActorFilter, TimeFilter


@admin.register(EndpointToken)
class EndpointTokenAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "endpoint",
        "prefix",
        "created_by",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    )
    list_filter = (("created_at", TimeFilter), ("created_by__username", ActorFilter))
    list_filter_submit = True
    list_select_related = ("endpoint", "created_by")
    search_fields = ("name", "prefix", "endpoint__name", "created_by__username")
    fields = (*list_display, "revoked_by")
    actions = ("revoke",)

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, queryset: QuerySet[EndpointToken]) -> None:
        for token in queryset:
            services.revoke_endpoint_token(actor=actor_of(request), token=token, now=clock.now())
