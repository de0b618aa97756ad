"""A log that is written while others follow it."""

from __future__ import annotations

from foundation import clock
from logs.store import ContainerLog, mark_stored, source_of
from workloads.models import Attempt, PodRecord, Workload


class Writer:
    """What the watcher does: stores the lines of one pod of the workload's only attempt."""

    def __init__(self, workload: Workload, name: str = "digits-0") -> None:
        workload.attempt_number = 1
        workload.save(update_fields=["attempt_number"])
        self.attempt, _ = Attempt.objects.get_or_create(
            workload=workload, number=1, defaults={"object_name": "digits-1", "created_at": clock.now()}
        )
        self.pod = PodRecord.objects.create(
            uid=f"uid-{name}",
            namespace=workload.team.namespace_name,
            name=name,
            workload=workload,
            attempt=1,
            resource_version="1",
            created_at=clock.now(),
        )
        self._log = ContainerLog(source_of(self.pod, container="main"))
        self._log.load()
        self._count = 0

    def write(self, *texts: str) -> None:
        lines = []
        for text in texts:
            self._count += 1
            lines.append(f"2026-01-01T00:00:00.{self._count:09d}Z {text}".encode())
        self._log.append(lines, now=clock.now())

    def end(self) -> None:
        self.attempt.ended_at = clock.now()
        self.attempt.save()
        mark_stored(self.pod, now=clock.now())
