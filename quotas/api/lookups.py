"""What the REST views of quotas look up: named things of a body, and rows that the caller may know of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet, Sum

from foundation.errors import Invalid, NotFound
from quotas.models import Cohort, Decision, QuotaChangeSet, QuotaRequest
from quotas.queries import policy_of
from teams.models import Team
from teams.permissions import visible_teams
from workloads.models import ResourceFlavor, Workload
from workloads.states import Desired, Phase


def flavor_named(name: str, *, field: str = "flavor") -> ResourceFlavor:
    """The flavor that a body names. Invalid names its field."""
    flavor = ResourceFlavor.objects.filter(name=name).first()
    if flavor is None:
        raise Invalid.of_field(field, "There is no such flavor.", code="unknown_flavor")
    return flavor


def team_named(slug: str, *, field: str) -> Team:
    """The team that a body of a quota manager names. Invalid names its field."""
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise Invalid.of_field(field, "There is no such team.", code="unknown_team")
    return team


def cohort_named(name: str, *, field: str = "") -> Cohort:
    """The cohort of that name. Raises Invalid for one that a body names in `field`, else NotFound."""
    cohort = Cohort.objects.select_related("parent").filter(name=name).first()
    if cohort is None and field:
        raise Invalid.of_field(field, "There is no such cohort.", code="unknown_cohort")
    if cohort is None:
        raise NotFound("There is no such cohort.")
    return cohort


def members_by_cohort(user: Any) -> dict[str, list[str]]:
    """Slugs of the teams that the user may know of, by the name of their cohort."""
    slugs: dict[str, list[str]] = {}
    rows = visible_teams(user).exclude(cohort_name="").order_by("slug").values_list("cohort_name", "slug")
    for cohort, slug in rows:
        slugs.setdefault(cohort, []).append(slug)
    return slugs


def change_set_for(user: Any, public_id: UUID) -> QuotaChangeSet:
    """The change set, if it changed anything of a team that the user may know of; else NotFound."""
    slugs = visible_teams(user).values("slug")
    seen = QuotaChangeSet.objects.filter(public_id=public_id, changes__team_slug__in=slugs)
    change_set = seen.select_related("undoes", "undone_by").first()
    if change_set is None:
        raise NotFound("There is no such change.")
    return change_set


def visible_requests(user: Any) -> QuerySet[QuotaRequest]:
    """Requests of the teams that the user may know of."""
    rows = QuotaRequest.objects.filter(team__in=visible_teams(user))
    return rows.select_related("team", "flavor", "requested_by", "decided_by")


def request_for(user: Any, public_id: UUID) -> QuotaRequest:
    """One of those requests, or NotFound."""
    quota_request = visible_requests(user).filter(public_id=public_id).first()
    if quota_request is None:
        raise NotFound("There is no such request.")
    return quota_request


def decision_for(user: Any, public_id: UUID) -> Decision:
    """A decision about a workload that the user may see, or NotFound."""
    rows = Decision.objects.filter(public_id=public_id, workload__team__in=visible_teams(user))
    decision = rows.select_related("workload__team", "supply").first()
    if decision is None:
        raise NotFound("There is no such decision.")
    return decision


def queue_of(team: Team) -> dict[str, Any]:
    """Whether a team's queue is stopped, and what waits in it by flavor and capacity type."""
    policy = policy_of(team)
    stopped_by = policy.queue_stopped_by
    waiting = (
        Workload.objects.filter(team=team, phase=Phase.QUEUED.value, desired=Desired.RUN.value)
        .values("flavor__name", "capacity_type")
        .annotate(workloads=Count("pk"), units=Sum("units"))
        .order_by("flavor__name", "capacity_type")
    )
    return {
        "team": team.slug,
        "stopped": policy.queue_stopped_at is not None,
        "reason": policy.queue_stop_reason,
        "by": stopped_by.username if stopped_by else None,
        "at": policy.queue_stopped_at,
        "waiting": [
            {
                "flavor": row["flavor__name"],
                "capacity": row["capacity_type"],
                "workloads": row["workloads"],
                "units": row["units"],
            }
            for row in waiting
        ],
    }
