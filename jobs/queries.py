"""What is asked about training runs; nothing here writes."""

from __future__ import annotations

from jobs.models import RunTemplate


def enabled_templates() -> list[RunTemplate]:
    """The templates that a request may name, in the order in which they are offered."""
    return list(RunTemplate.objects.filter(enabled=True))


def template_named(name: str) -> RunTemplate | None:
    """The template of that name, if a request may name it."""
    if "\x00" in name:
        return None
    return RunTemplate.objects.filter(name=name, enabled=True).first()
