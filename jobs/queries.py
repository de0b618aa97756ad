"""What is asked about training runs; nothing here writes."""

from __future__ import annotations

from jobs.adapter import KIND
from jobs.copies import next_name, stem_of
from jobs.models import RunTemplate
from teams.models import Team
from workloads.models import Workload
from workloads.states import FINAL


def free_name(name: str, team: Team) -> str:
    """`name` with the next number that no live run of the team has."""
    alike = Workload.objects.filter(kind=KIND, team=team, name__startswith=stem_of(name))
    return next_name(name, set(alike.exclude(phase__in=FINAL).values_list("name", flat=True)))


def enabled_templates() -> list[RunTemplate]:
    """The templates that a request may name, in the order in which they are offered."""
    return list(RunTemplate.objects.filter(enabled=True))


def template_named(name: str) -> RunTemplate | None:
    """The template of that name, if a request may name it."""
    if "\x00" in name:
        return None
    return RunTemplate.objects.filter(name=name, enabled=True).first()
