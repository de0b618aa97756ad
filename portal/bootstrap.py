"""`manage.py bootstrap FILE.yaml`: loads what GitOps would apply. A second run of the same file changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from rest_framework import serializers

from foundation import bounded_yaml
from foundation.errors import FieldProblem, PortalError
from foundation.http.problems import flatten
from foundation.models import (
    GANG_SCHEDULERS,
    PlatformSettings,
    validate_image,
    validate_jobs,
    validate_server_url,
)
from foundation.optional_kinds import optional_kinds
from foundation.pod_security import PodSecurity
from foundation.validators import validate_image_prefixes
from portal.bootstrap_rows import ACTOR, SECTIONS, Apply, parents_first
from quotas.ceilings import COLUMNS
from teams.platform_settings import SETTINGS_CHANGEABLE, update_settings

FILE_BYTES_MAX = 1024 * 1024
LIMITS = bounded_yaml.Limits(values=200_000, times=True)
SETTING_MAX = 2**31 - 1
MAY_BE_ZERO = ("minimum_run_seconds",)
WITHOUT_LIMIT = (*COLUMNS, "open_sweeps", "open_workloads", "team_log_gib")
"""What may be null, for no limit, or zero."""
KNOWN = ("settings", *SECTIONS)


class BootstrapError(Exception):
    """The file cannot be loaded; nothing of it was."""


@dataclass
class Report:
    """How many objects of each kind were made or changed, and how many were right already."""

    changed: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)

    def count(self, section: str, *, changed: bool) -> None:
        counts = self.changed if changed else self.unchanged
        counts[section] = counts.get(section, 0) + 1


def load(text: str, *, now: datetime) -> Report:
    """Apply the file in one transaction, or none of it. BootstrapError names the section and the field."""
    document = _parse(text)
    report = Report()
    with transaction.atomic():
        if "settings" in document:
            _settings(document["settings"], report, now)
        for section, apply in SECTIONS.items():
            items = _items(document, section)
            for index, item in parents_first(items) if section == "cohorts" else enumerate(items):
                _one(section, index, item, apply, report, now)
    return report


def _parse(text: str) -> Mapping[str, Any]:
    if len(text.encode()) > FILE_BYTES_MAX:
        raise BootstrapError(f"The file is larger than {FILE_BYTES_MAX} bytes.")
    try:
        document = next(iter(bounded_yaml.read(text, LIMITS)), None) or {}
    except bounded_yaml.TooMuchError as error:
        raise BootstrapError(f"The file is too much: {error}.") from error
    except bounded_yaml.UnreadableError as error:
        raise BootstrapError(f"The file is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise BootstrapError("The file is not a mapping of sections.")
    for section in document:
        if section not in KNOWN:
            known = ", ".join(KNOWN)
            raise BootstrapError(f"{section}: there is no such section; there is: {known}.")
    return document


def _items(document: Mapping[str, Any], section: str) -> list[Any]:
    items = document.get(section)
    if items is None:
        return []
    if not isinstance(items, list):
        raise BootstrapError(f"{section}: not a list.")
    return items


def _one(section: str, index: int, item: Any, apply: Apply, report: Report, now: datetime) -> None:
    where = f"{section}[{index}]"
    try:
        report.count(section, changed=apply(item, now))
    except serializers.ValidationError as error:
        raise BootstrapError(_told(where, flatten(error.detail))) from error
    except PortalError as error:
        raise BootstrapError(_told(where, error.errors) if error.errors else f"{where}: {error}") from error


def _told(where: str, problems: Iterable[FieldProblem]) -> str:
    """What is wrong, each with its path in the file."""
    return " ".join(
        f"{where}.{problem.field}: {problem.message}" if problem.field else f"{where}: {problem.message}"
        for problem in problems
    )


def _settings(values: Any, report: Report, now: datetime) -> None:
    if not isinstance(values, dict):
        raise BootstrapError("settings: not a mapping.")
    for name, value in values.items():
        _check_setting(name, value)
    row = PlatformSettings.current()
    changed = {name: values[name] for name in SETTINGS_CHANGEABLE if name in values}
    changed = {name: value for name, value in changed.items() if getattr(row, name) != value}
    if changed:
        update_settings(actor=ACTOR, changes=changed, now=now)
    report.count("settings", changed=bool(changed))


def _check_text(name: str, value: Any) -> None:
    try:
        if value != "" or name not in MAY_BE_EMPTY:
            TEXTS[name](value)
    except (ValidationError, TypeError) as error:
        raise BootstrapError(f"settings.{name}: {getattr(error, 'message', error)}") from error


TEXTS: Mapping[str, Callable[[Any], object]] = {
    "git_image": validate_image,
    "storage_image": validate_image,
    "scaler_prometheus_url": validate_server_url,
    "dcgm_job": validate_jobs,
    "image_prefixes": validate_image_prefixes,
}
MAY_BE_EMPTY = ("scaler_prometheus_url", "dcgm_job")
CHOICES = {
    "gang_scheduler": ("", *GANG_SCHEDULERS),
    "dcgm_labels": tuple(PlatformSettings.DcgmLabels.values),
    "pod_security": tuple(PodSecurity.values),
}


def _check_setting(name: Any, value: Any) -> None:
    if name not in SETTINGS_CHANGEABLE:
        raise BootstrapError(f"settings.{name}: there is no such setting.")
    if name == "optional_kinds":
        if not isinstance(value, list) or not set(map(str, value)) <= set(optional_kinds()):
            raise BootstrapError(f"settings.{name}: a list of any of {', '.join(optional_kinds())}.")
        return
    if name == "password_exchange":
        if not isinstance(value, bool):
            raise BootstrapError(f"settings.{name}: true or false.")
        return
    if name in CHOICES:
        if value not in CHOICES[name]:
            listed = ", ".join(choice or "empty" for choice in CHOICES[name])
            raise BootstrapError(f"settings.{name}: one of {listed}.")
        return
    if name in TEXTS:
        _check_text(name, value)
        return
    if value is not None or name not in WITHOUT_LIMIT:
        _check_number(name, value)


def _check_number(name: str, value: Any) -> None:
    least = 0 if name in {*MAY_BE_ZERO, *WITHOUT_LIMIT} else 1
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= SETTING_MAX:
        raise BootstrapError(f"settings.{name}: not a whole number from {least} to {SETTING_MAX}.")
