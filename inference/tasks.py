from __future__ import annotations

from typing import Any

from foundation import clock
from foundation.tasks import task
from inference.autoscaling import sampling

# The beat schedule is put together from this.
PERIODIC: dict[str, float] = {"inference.tasks.forget_old_samples": 3600.0}


@task()
def forget_old_samples(**_future: Any) -> None:
    sampling.forget_old_samples(now=clock.now())
