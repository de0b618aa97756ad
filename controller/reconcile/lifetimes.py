"""Start and end times of attempts by the cluster's own timestamps; events have the time at which the portal knew."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max
from django.db.models.functions import Coalesce, Least

from workloads.models import Attempt
from workloads.pods.observation import Observation
from workloads.states import FINAL, Phase


def attempt_ended(attempt: Attempt, observation: Observation | None, *, now: datetime) -> datetime:
    """The end of the attempt's last pod; `now` if it had no pod or one still exists."""
    ended = observation.finished_at if observation else None
    if ended is None:
        pods = attempt.workload.pods.filter(attempt=attempt.number)
        if not pods.filter(finished_at=None, gone_at=None).exists():
            end = Coalesce("finished_at", Least("deletion_at", "bounded_at", "gone_at"))
            ended = pods.aggregate(last=Max(end))["last"]
    return max(ended or now, attempt.started_at or ended or now)


def began(observation: Observation | None, *, to: Phase, ends: bool) -> datetime | None:
    """When a run's pods were all running, or an endpoint's first pod was ready; None if not running or final."""
    if observation is None or (to is not Phase.RUNNING and to not in FINAL):
        return None
    if ends:
        return observation.started_at
    return min((pod.ready_at for pod in observation.pods if pod.ready_at is not None), default=None)
