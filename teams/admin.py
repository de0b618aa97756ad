"""Django's admin for people. Each change is a service call, so that the audit trail has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django.contrib.auth.admin  # noqa: F401 - registers Group, which is taken back below
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from typing_extensions import override
from unfold.widgets import UnfoldAdminPasswordWidget

from foundation import clock
from foundation.errors import FieldProblem, PortalError
from teams import services
from teams.actors import actor_of
from teams.admin_filters.typed import ActorFilter, NameFilter, TimeFilter
from teams.audit import name_in
from teams.models import ApiToken, AuditEvent, Membership, Team, User
from teams.permissions import GlobalRole, has_global_role
from teams.views import admin_password, admin_sign_in

# Django's classes take a type parameter in the stubs alone, and Unfold, whose pages these are, has no types.
if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _UserForm = forms.ModelForm[User]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin

    _UserForm = forms.ModelForm

admin.site.login = admin_sign_in  # type: ignore[method-assign]
admin.site.password_change = admin_password  # type: ignore[method-assign, assignment]
admin.site.password_change_done = admin_password  # type: ignore[method-assign, assignment]
admin.site.unregister(Group)  # it lends nobody a right here, and no change of it would be told


REFUSAL = "_refused_by_the_service"
"""Attribute of a request whose service said no."""


class ServiceAdmin(_ModelAdmin):
    """Base of the portal's admin pages: open to `role` (and platform admins), what a service refuses shown at its field.

    A subclass's `save_model` and `delete_model` make one service call. Bulk deletion is off: it asks no service. A field
    that a form declares itself needs one of Unfold's widgets: the theme takes the frames from all others.
    """

    role: GlobalRole = "platform-admin"
    plural = ""
    """What many rows are called, where an `s` at the end is wrong. Here, as in the model it would be a migration."""
    actions: Any = ()
    list_per_page = 50
    can_add = can_change = can_delete = True

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        if self.plural:
            self.opts.verbose_name_plural = self.plural

    @override
    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_global_role(request.user, self.role)

    @override
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_global_role(request.user, self.role)

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and has_global_role(request.user, self.role)

    @override
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and has_global_role(request.user, self.role)

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and has_global_role(request.user, self.role)

    @override
    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    @override
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        """A refusal of the service comes back on the form, with all that was typed."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except PortalError as error:
            if request.method != "POST" or hasattr(request, REFUSAL):
                return _refused(self, request, error)
            setattr(request, REFUSAL, error)
        return self.changeform_view(request, object_id, form_url, extra_context)

    @override
    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **more: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **more)
        error: PortalError | None = getattr(request, REFUSAL, None)
        return form if error is None else _refusing(form, error)

    @override
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except PortalError as error:
            return _refused(self, request, error)


class ReadOnlyAdmin(ServiceAdmin):
    """Rows to look at."""

    can_add = can_change = can_delete = False


@admin.register(Team)
class TeamAdmin(ServiceAdmin):
    list_display = ("slug", "name", "state", "cohort_name", "namespace_name", "pod_security", "created_at")
    search_fields = ("slug", "name")
    actions = ("close_or_reopen",)
    fields = (
        "slug",
        "name",
        "cohort_name",
        "namespace",
        "pod_security",
        "mlflow_tracking_uri",
        *services.WORKLOAD_POLICY,
    )

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("slug", "namespace") if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        # A list that was left empty is not said: none of its entries is written as [].
        given = {name: form.cleaned_data.get(name) for name in self.fields}
        values = {
            name: value
            for name, value in given.items()
            if name in form.cleaned_data and (value is not None or name not in services.WORKLOAD_POLICY)
        }
        actor, now = actor_of(request), clock.now()
        if change:
            services.update_team(actor=actor, team=obj, changes=values, now=now)
        else:
            _adopt(obj, services.create_team(actor=actor, now=now, **values))

    @admin.action(description="Close or reopen…")
    def close_or_reopen(self, request: HttpRequest, queryset: QuerySet[Team]) -> HttpResponse | None:
        """On a page of its own, which says what ends: of one team at a time."""
        teams = list(queryset[:2])
        if len(teams) != 1:
            messages.error(request, "Choose one team.")
            return None
        return HttpResponseRedirect(reverse("portal:team-close", args=[teams[0].slug]))

    @override
    def delete_model(self, request: HttpRequest, obj: Team) -> None:
        services.delete_team(actor=actor_of(request), team=obj, now=clock.now())


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    list_display = ("team", "user", "role", "created_at")
    list_filter = ("role",)
    list_select_related = ("team", "user")
    search_fields = ("team__slug", "user__username")
    autocomplete_fields = ("team", "user")
    fields = ("team", "user", "role")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("team", "user") if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        actor, now, role = actor_of(request), clock.now(), form.cleaned_data["role"]
        if change:
            services.change_role(actor=actor, membership=obj, role=role, now=now)
        else:
            _adopt(obj, services.add_member(actor=actor, team=obj.team, user=obj.user, role=role, now=now))

    @override
    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        services.remove_member(actor=actor_of(request), membership=obj, now=clock.now())


class UserAdminForm(_UserForm):
    new_password = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Leave empty to keep the password, or to have none: links and tokens then let the user in.",
    )

    class Meta:
        model = User
        fields = ("username", "email", "is_active", "is_quota_manager", "is_platform_admin")


@admin.register(User)
class UserAdmin(ServiceAdmin):
    form = UserAdminForm
    list_display = ("username", "email", "is_active", "is_quota_manager", "is_platform_admin", "last_login")
    list_filter = ("is_active", "is_quota_manager", "is_platform_admin")
    search_fields = ("username", "email")
    ordering = ("-pk",)  # as the list has it anyway; what a field of another page offers is paged by it too
    fields = ("username", "email", "is_active", "is_quota_manager", "is_platform_admin", "new_password")
    actions = ("make_sign_in_link",)
    can_delete = False  # people with history are deactivated

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("username", "email") if obj else ("is_active",)

    @override
    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        actor, now, values = actor_of(request), clock.now(), form.cleaned_data
        roles = {"quota_manager": values["is_quota_manager"], "platform_admin": values["is_platform_admin"]}
        if change:
            services.set_global_roles(actor=actor, user=obj, now=now, **roles)
            services.set_active(actor=actor, user=obj, active=values["is_active"], now=now)
        else:
            made = services.create_user(
                actor=actor, username=values["username"], email=values["email"], now=now, **roles
            )
            _adopt(obj, made)
        if values["new_password"]:
            services.set_password(actor=actor, user=obj, password=values["new_password"], now=now)

    @admin.action(description="Make a one-time sign-in link")
    def make_sign_in_link(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset[:20]:
            plain = services.create_sign_in_link(actor=actor_of(request), user=user, now=clock.now())
            url = request.build_absolute_uri(reverse("teams:sign-in-link", args=[plain]))
            messages.info(request, f"{user.username}, for one hour, shown once: {url}")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "user",
        "team",
        "prefix",
        "scopes",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    )
    list_filter = (("created_at", TimeFilter), ("user__username", ActorFilter))
    list_filter_submit = True
    list_select_related = ("user", "team")
    search_fields = ("name", "prefix", "user__username")
    fields = (*list_display, "revoked_by")
    actions = ("revoke",)

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset:
            services.revoke_token(actor=actor_of(request), token=token, now=clock.now())


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor_label", "action", "target_kind", "called", "team_slug", "ip")
    list_filter = (
        ("at", TimeFilter),
        ("actor_label", ActorFilter),
        ("action", NameFilter),
        ("team_slug", NameFilter),
    )
    list_filter_submit = True
    search_fields = ("=target_name", "=target_id", "=actor_label", "=team_slug", "=request_id")
    ordering = ("-at", "-id")
    show_full_result_count = False
    fields = (
        "at",
        "actor_label",
        "ip",
        "request_id",
        "action",
        "target_kind",
        "called",
        "target_id",
        "team_slug",
        "before",
        "after",
        "reason",
    )

    @admin.display(description="target name")
    def called(self, event: AuditEvent) -> str:
        """Its name then, or its id where the event has none."""
        return event.target_name or name_in(event.after) or name_in(event.before) or event.target_id


def _adopt(blank: Any, saved: Any) -> None:
    """Make the admin's unsaved instance the row that the service saved."""
    blank.__dict__.update(saved.__dict__)


def _refusing(form: Any, error: PortalError) -> Any:
    """The form's class, invalid by the error: at the fields that it names, as far as the form has them."""

    def _post_clean(self: Any) -> None:
        super(refusing, self)._post_clean()
        for problem in error.errors or (FieldProblem(field="", code=error.code, message=error.message),):
            name = problem.field.partition(".")[0]
            self.add_error(name if name in self.fields else None, problem.message)

    refusing: Any = type(form)(form.__name__, (form,), {"_post_clean": _post_clean})
    return refusing


def _refused(page: ServiceAdmin, request: HttpRequest, error: PortalError) -> HttpResponse:
    messages.error(request, error.message)
    options = page.opts
    if request.resolver_match and request.resolver_match.kwargs.get("object_id"):
        return HttpResponseRedirect(request.path)
    return HttpResponseRedirect(reverse(f"admin:{options.app_label}_{options.model_name}_changelist"))
