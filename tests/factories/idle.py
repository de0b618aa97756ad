"""A card that is held idle, with the alert about it."""

from __future__ import annotations

from datetime import timedelta

from foundation import clock
from telemetry.models import Alert, GpuLook, IdleHold
from telemetry.rules import DEFAULTS, IDLE
from workloads.models import PodRecord


def make_idle(pod: PodRecord, *, minutes: int = 45) -> IdleHold:
    """The pod's first card, idle for so long, as the look at all cards would write it."""
    now = clock.now()
    since = now - timedelta(minutes=minutes)
    rule = next(rule for rule in DEFAULTS if rule.name == IDLE)
    GpuLook.objects.update_or_create(pk=1, defaults={"looked_at": now, "answered_at": now})
    of_pod = {"workload": pod.workload, "team": pod.workload.team}
    Alert.objects.create(
        rule=IDLE, cards=1, value=0.0, threshold=rule.threshold, message=rule.message(value=0, cards=1),
        opened_at=since, seen_at=now, **of_pod,
    )  # fmt: skip
    return IdleHold.objects.create(
        pod=pod, node="a100-0", gpu="0", uuid="GPU-0", utilization=0.0, memory_used_mib=20_000.0,
        memory_total_mib=40_000.0, since=since, seen_at=now, **of_pod,
    )  # fmt: skip
