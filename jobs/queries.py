"""What is asked about training runs; nothing here writes."""

from __future__ import annotations

from jobs.adapter import KIND
from jobs.copies import next_name, stem_of
from teams.models import Team
from workloads.models import Workload
from workloads.states import FINAL


def free_name(name: str, team: Team) -> str:
    """`name` with the next number that no live run of the team has."""
    alike = Workload.objects.filter(kind=KIND, team=team, name__startswith=stem_of(name))
    return next_name(name, set(alike.exclude(phase__in=FINAL).values_list("name", flat=True)))
