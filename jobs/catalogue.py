"""The only writer of templates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from foundation.errors import Invalid, NotFound
from foundation.http.etag import GONE, Versions, check_version, version_of
from jobs.models import RunTemplate
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import ResourceFlavor

PARTS = (
    *("title", "description", "defaults", "minimum", "maximum", "locked"),
    *("idle_warn_minutes", "idle_stop_minutes", "enabled", "order"),
)


def set_template(
    *, name: str, actor: Actor, now: datetime, expected_versions: Versions | None = None, **values: Any
) -> tuple[RunTemplate, bool]:
    """Make the template of that name or change it; returns it and whether anything was different.

    The values are those of `TemplateWriteSerializer`, which checks them. Invalid for a flavor that does not exist,
    PreconditionFailed for a template of another version than is expected.
    """
    with transaction.atomic():
        template = RunTemplate.objects.select_for_update().filter(name=name).first()
        check_version(expected=expected_versions, current=version_of(template) if template else GONE)
        before = facts(template) if template else None
        template = template or RunTemplate(name=name, version=0)
        for part, value in values.items():
            setattr(template, part, value)
        after = facts(template)
        if before == after:
            return template, False
        _check_flavor(template)
        template.version += 1
        template.save()
        _audit(name, actor, now, before=before, after=after)
    return template, True


def delete_template(
    *, template: RunTemplate, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> None:
    """Runs that were made by it keep its name and the values that it gave them."""
    with transaction.atomic():
        fresh = RunTemplate.objects.select_for_update().filter(pk=template.pk).first()
        if fresh is None:
            raise NotFound("There is no such template.")
        check_version(expected=expected_versions, current=version_of(fresh))
        before = facts(fresh)
        fresh.delete()
        _audit(template.name, actor, now, before=before, after=None)


def _check_flavor(template: RunTemplate) -> None:
    flavor = template.defaults.get("flavor")
    if not flavor or ResourceFlavor.objects.filter(name=flavor).exists():
        return
    names = ", ".join(ResourceFlavor.objects.values_list("name", flat=True)) or "none"
    raise Invalid.of_field(
        "defaults.flavor", f"There is no such flavor. There is: {names}.", code="unknown_flavor"
    )


def facts(template: RunTemplate) -> dict[str, Any]:
    """What it says, by part."""
    return {part: getattr(template, part) for part in PARTS}


def _audit(name: str, actor: Actor, now: datetime, *, before: Any, after: Any) -> None:
    record_audit(
        actor=actor,
        action="template.changed" if after else "template.deleted",
        target_kind="template",
        target_id=name,
        target_name=name,
        before=before,
        after=after,
        now=now,
    )
