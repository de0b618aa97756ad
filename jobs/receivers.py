"""What happens to a run that its sweep hears of."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from jobs.adapter import KIND
from jobs.models import Sweep
from jobs.sweeps.wakeups import send
from workloads.models import Workload
from workloads.signals import stopped


@receiver(stopped)
def wake_its_sweep(*, workload: Workload, **_: Any) -> None:
    """A member gave its place: the next one may run."""
    if workload.kind != KIND:
        return
    sweep_id = Sweep.objects.filter(members=workload.pk).values_list("public_id", flat=True).first()
    if sweep_id is not None:
        transaction.on_commit(partial(send, sweep_id))
