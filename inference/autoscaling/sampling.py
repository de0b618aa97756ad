"""The history of an endpoint's replicas: a row whenever they change, and one a minute while it is live."""

from __future__ import annotations

from datetime import datetime, timedelta

from inference.models import Endpoint, ScaleSample
from quotas.queries import held_claim
from quotas.services import resize
from workloads.models import Workload
from workloads.pods.observation import Observation
from workloads.states import Phase

EVERY = timedelta(seconds=60)
KEPT = timedelta(days=8)
BATCH_MAX = 50_000
LIVE = frozenset({Phase.STARTING.value, Phase.RUNNING.value})


def sample(workload: Workload, observation: Observation | None, now: datetime) -> None:
    """Note what one look showed, if that is news or a minute has passed."""
    if observation is None or not observation.exists or workload.phase not in LIVE:
        return
    endpoint = Endpoint.objects.filter(workload=workload).first()
    if endpoint is None:
        return
    last = endpoint.samples.first()
    scaler, spec = observation.scaler, endpoint.parsed
    fresh = ScaleSample(
        endpoint=endpoint,
        at=now,
        desired=observation.desired_replicas,
        ready=observation.ready_replicas,
        minimum=0 if spec.scale_to_zero else spec.min_replicas,
        maximum=spec.max_replicas,
        metric=scaler.value if scaler else None,
        target=scaler.target if scaler else None,
        reason=(scaler.decision if scaler else "")[:63],
    )
    if last is None or now - last.at >= EVERY or _news(last) != _news(fresh):
        fresh.save()


def _news(row: ScaleSample) -> tuple[object, ...]:
    return (row.desired, row.ready, row.minimum, row.maximum, row.target)


def follow_size(workload: Workload, observation: Observation | None, now: datetime) -> None:
    """A claim that is larger than the endpoint may become shrinks as its pods go, and never below what its scaler in the
    cluster may still make.
    """
    if observation is None or workload.phase not in LIVE:
        return
    # As it is in this transaction: a user may have scaled it since the look began.
    row = Workload.objects.only("units", "cpu_most", "memory_most", "storage_most", "pods_most").get(
        pk=workload.pk
    )
    reach = observation.scaler.reach if observation.scaler is not None else None
    pods = max(observation.pods_alive, observation.desired_replicas, reach or 0)
    wanted = max(row.units, pods * workload.units_each)
    held = held_claim(workload)
    if held is None:
        return
    # Pods of an older revision may ask for more than those that follow them.
    settled = pods <= row.pods_most and (observation.rollout is None or observation.rollout.complete)
    if held.units > wanted or (settled and held.most != row.most):
        most = row.most if settled else held.most
        resize(
            workload=workload,
            units=min(wanted, held.units),
            most=most,
            lends=not workload.keeps_headroom,
            now=now,
        )


def forget_old_samples(*, now: datetime) -> int:
    """Delete a batch of what is older than it is kept; how many rows that were."""
    old = ScaleSample.objects.filter(at__lt=now - KEPT).order_by("at").values("pk")[:BATCH_MAX]
    deleted, _ = ScaleSample.objects.filter(pk__in=old).delete()
    return deleted
