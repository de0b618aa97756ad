from __future__ import annotations

from typing import Any

from foundation import clock
from foundation.tasks import task
from gateway import services

# Read where the beat schedule is put together.
PERIODIC: dict[str, float] = {"gateway.tasks.forget_old_request_counts": 3600.0}


@task()
def forget_old_request_counts(**_future: Any) -> None:
    services.forget_old_request_counts(now=clock.now())
