"""Start and end times of attempts by the cluster's own timestamps; events have the time at which the portal knew."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Case, Max, Q, When
from django.db.models.functions import Coalesce, Least

from workloads.models import Attempt
from workloads.models.observed import COLLECTED, NODE_GONE
from workloads.pods.observation import Observation
from workloads.states import FINAL, Phase

END_OF_POD = Case(
    When(
        COLLECTED & Q(finished_at__isnull=False, bounded_by=NODE_GONE),
        then=Least("finished_at", "bounded_at"),
    ),
    default=Coalesce("finished_at", Least("deletion_at", "bounded_at", "gone_at")),
)
"""`PodRecord.ended_at` of a pod that has ended, for the database; its least leaves out what is not known."""


def attempt_ended(attempt: Attempt, observation: Observation | None, *, now: datetime) -> datetime:
    """The end of the attempt's last pod; `now` if it had no pod or one still exists."""
    pods = attempt.workload.pods.filter(attempt=attempt.number)
    ended = observation.finished_at if observation else None
    # Those that were collected say too late when they ended.
    late = ended is None or pods.filter(COLLECTED).exists()
    if late and not pods.filter(finished_at=None, gone_at=None).exists():
        ended = pods.aggregate(last=Max(END_OF_POD))["last"]
    return max(ended or now, attempt.started_at or ended or now)


def began(observation: Observation | None, *, to: Phase, ends: bool) -> datetime | None:
    """When a run's pods were all running, or an endpoint's first pod was ready; None if not running or final."""
    if observation is None or (to is not Phase.RUNNING and to not in FINAL):
        return None
    if ends:
        return observation.started_at
    return min((pod.ready_at for pod in observation.pods if pod.ready_at is not None), default=None)
