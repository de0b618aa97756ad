"""The page of settings: what is set, to what, and by whom; platform admins change them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from rest_framework import serializers

from console.pages.detail import see_other
from foundation import clock
from foundation.digits import whole_number
from foundation.errors import PreconditionFailed
from foundation.http.problems import flatten
from foundation.http.query import check_query_parameters, one, refuse
from foundation.models import PlatformSettings
from foundation.number_words import span_words
from teams.actors import actor_of
from teams.api.serializers import SettingsUpdateSerializer
from teams.permissions import has_global_role
from teams.platform_settings import SETTINGS_CHANGEABLE, update_settings

GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Runs and the queue", ("minimum_run_seconds", "grace_seconds", "fair_share_half_life_hours", "default_time_limit_seconds", "spot_fallback_seconds", "schedule_deadline_seconds", "image_pull_deadline_seconds", "lost_work_credit_seconds", "gang_scheduler", "optional_kinds")),
    ("What a team may hold", ("ceiling_cpus", "ceiling_memory_gib", "ceiling_ephemeral_storage_gib", "ceiling_pods", "ceiling_volumes", "ceiling_volume_storage_gib", "open_sweeps", "open_workloads", "team_log_gib")),
    ("Images and pods", ("image_prefixes", "git_image", "storage_image", "pod_security")),
    ("How long things are kept", ("log_retention_days", "record_retention_days", "estimate_retention_days")),
    ("Metrics", ("scaler_prometheus_url", "dcgm_labels", "dcgm_job")),
    ("Requests and sign-in", ("password_exchange", "reads_per_minute", "writes_per_minute", "expensive_per_minute", "anonymous_per_minute", "pages_per_minute")),
)  # fmt: skip
TEXT_MAX: Final = 8192
LONG: Final = 120
"""Seconds that nobody reads as such."""
_NOTHING: Final = "none"
MEANINGS: Final[Mapping[str, str]] = {
    "fair_share_half_life_hours": "After so long past use counts half in the order of the queue.",
    "default_time_limit_seconds": "Of a run that names no time limit.",
    "spot_fallback_seconds": "So long spot-first waits for spot before it takes on-demand.",
    "image_pull_deadline_seconds": "A run whose image is not there by then fails.",
    "schedule_deadline_seconds": "What no node has taken by then goes back to the queue.",
    "log_retention_days": "How long logs are kept.",
    "optional_kinds": "Kinds of runs and parts that are offered where the cluster serves them.",
}
"""Of those whose column says nothing of it."""


@dataclass(frozen=True)
class Setting:
    """A setting as the page shows it. `typed` is its value as one types it, one line for each of several."""

    name: str
    label: str
    help: str
    value: str
    spelled: str
    """A long time in hours and minutes."""
    typed: str
    lines: bool
    choices: tuple[str, ...]
    default: str
    changed: bool


class SettingsPage(LoginRequiredMixin, View):
    """GET for everybody, as REST has them; what the environment says for those who run the platform. POST changes one."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ("change",))
        return self._page(request, change=self._asked(request, one(request, "change") or ""))

    def post(self, request: HttpRequest) -> HttpResponse:
        _check_admin(request)
        name = self._asked(request, request.POST.get("name", ""), needed=True)
        text = request.POST.get("value", "")[:TEXT_MAX]
        body = SettingsUpdateSerializer(data={name: parsed(name, text)}, partial=True)
        if not body.is_valid():
            wrong = " ".join(problem.message for problem in flatten(body.errors))
            return self._page(request, change=name, typed=text, wrong=wrong, status=422)
        try:
            update_settings(
                actor=actor_of(request),
                changes=body.validated_data,
                now=clock.now(),
                expected_versions=frozenset({request.POST.get("version", "")}),
            )
        except PreconditionFailed:
            wrong = "Somebody has changed the settings in the meantime. Look at what they say now, and save again."
            return self._page(request, change=name, typed=text, wrong=wrong, status=412)
        messages.success(request, f"{_label(name)} is changed.")
        return see_other(f"{reverse('portal:settings')}#setting-{name}")

    def _asked(self, request: HttpRequest, name: str, *, needed: bool = False) -> str:
        """The name of a setting that the user may change; empty for none."""
        if name not in SETTINGS_CHANGEABLE and (name or needed):
            raise refuse("change", "names no setting.")
        return name if has_global_role(request.user, "platform-admin") else ""

    def _page(
        self,
        request: HttpRequest,
        *,
        change: str,
        typed: str | None = None,
        wrong: str = "",
        status: int = 200,
    ) -> HttpResponse:
        row, plain = PlatformSettings.current(), PlatformSettings()
        if change and typed is None:
            typed = setting_of(change, row, plain).typed
        context = {
            "groups": [(title, [setting_of(name, row, plain) for name in names]) for title, names in GROUPS],
            "row": row,
            "change": change,
            "typed": typed,
            "wrong": wrong,
            "may_change": has_global_role(request.user, "platform-admin"),
            "environment": settings.ENVIRONMENT_TOLD if has_global_role(request.user) else (),
        }
        return render(request, "portal/settings.html", context, status=status)


def _check_admin(request: HttpRequest) -> None:
    if not has_global_role(request.user, "platform-admin"):
        raise PermissionDenied


def setting_of(name: str, row: PlatformSettings, plain: PlatformSettings) -> Setting:
    """One of the settings in force, beside its default."""
    value, usual = getattr(row, name), getattr(plain, name)
    field = PlatformSettings._meta.get_field(name)  # noqa: SLF001 (public in all but its name)
    return Setting(
        name=name,
        label=_label(name),
        help=MEANINGS.get(name) or str(getattr(field, "help_text", "")),
        value=words_of(value),
        spelled=span_words(value) if name.endswith("_seconds") and value >= LONG else "",
        typed="\n".join(value) if isinstance(value, list) else _typed(value),
        lines=isinstance(value, list),
        choices=_choices(name),
        default=words_of(usual),
        changed=value != usual,
    )


def _label(name: str) -> str:
    words = name.replace("_", " ").replace("cpus", "CPUs").replace("gib", "GiB").replace("dcgm", "DCGM")
    return words[0].upper() + words[1:]


def words_of(value: Any) -> str:
    """A value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or _NOTHING
    return _NOTHING if value in (None, "") else str(value)


def _typed(value: Any) -> str:
    return words_of(value) if isinstance(value, bool) else "" if value is None else str(value)


def _choices(name: str) -> tuple[str, ...]:
    field = SettingsUpdateSerializer().fields[name]
    if isinstance(field, serializers.BooleanField):
        return ("yes", "no")
    found: Mapping[Any, Any] = getattr(field, "choices", {})
    return tuple(str(choice) for choice in found)


def parsed(name: str, text: str) -> Any:
    """What was typed, as the body of REST has it; whether that is right is said by its serializer alone."""
    field = SettingsUpdateSerializer().fields[name]
    if isinstance(field, serializers.ListField):
        return [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip()]
    if isinstance(field, serializers.BooleanField):
        return {"yes": True, "no": False}.get(text.strip(), text)
    typed = text.strip()
    if isinstance(field, serializers.IntegerField) and (number := whole_number(typed, digits=12)) is not None:
        return number
    return None if not typed and field.allow_null else typed
