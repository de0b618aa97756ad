"""Runs submitted without a pause by clients that insist, and what must become of each."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.crash.fleet import Fleet, RestClient

CLIENTS = 2


@dataclass(frozen=True)
class Shape:
    """What a run's environment makes its pods do, and so how it must end."""

    name: str
    env: dict[str, str]
    phase: str
    attempts: int = 1
    gpus: int = 0
    max_retries: int = 0
    cancel: bool = False

    def body(self, fleet: Fleet, name: str) -> dict[str, Any]:
        gpus = {"flavor": "a100-40gb", "gpus_per_replica": self.gpus} if self.gpus else {}
        return {
            "team": fleet.team,
            "name": name,
            "kind": "job",
            "image": "example.org/train:1",
            "command": ["python", "train.py"],
            "cpu": "100m",
            "memory": "64Mi",
            "env": [{"name": key, "value": value} for key, value in self.env.items()],
            "time_limit_seconds": 3600,
            "max_retries": self.max_retries,
            **gpus,
        }


SHAPES = (
    Shape("gpu", {"BED_RUN_SECONDS": "1"}, "Succeeded", gpus=1),
    Shape("cpu", {"BED_RUN_SECONDS": "1"}, "Succeeded"),
    Shape("gpus", {"BED_RUN_SECONDS": "2"}, "Succeeded", gpus=2),
    Shape("fails", {"BED_RUN_SECONDS": "1", "BED_EXIT_CODE": "3"}, "Failed", gpus=1),
    Shape(
        "retries", {"BED_RUN_SECONDS": "0", "BED_EXIT_CODE": "3"}, "Failed", attempts=2, gpus=1, max_retries=1
    ),
    Shape("oom", {"BED_RUN_SECONDS": "1", "BED_OOM": "true"}, "Failed"),
    Shape("cancelled", {}, "Cancelled", gpus=1, cancel=True),
)


@dataclass
class Load:
    """Clients that submit until told to stop. What they were promised is in `accepted`, by the run's id."""

    fleet: Fleet
    seed: int
    unfinished_max: int
    accepted: dict[str, Shape] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    repeats: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(CLIENTS):
            thread = threading.Thread(target=self._submit_all, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Returns when every request under way has its answer."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(90)
            if thread.is_alive():
                self.problems.append("a client still waits for its answer")

    def _submit_all(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        client = RestClient(self.fleet)
        try:
            with self.fleet.database() as database:
                while not self._stopping.wait(chance.uniform(0.0, 0.3)):
                    query = "SELECT count(*) FROM workloads_workload WHERE finished_at IS NULL"
                    row = database.execute(query).fetchone()
                    if row is not None and row[0] < self.unfinished_max:
                        self._submit(client, chance)
        except Exception as error:  # noqa: BLE001 (told by the test, which runs in another thread)
            self.problems.append(repr(error))
        finally:
            self.repeats += client.repeats
            client.close()

    def _submit(self, client: RestClient, chance: random.Random) -> None:
        shape = chance.choice(SHAPES)
        body = json.dumps(shape.body(self.fleet, f"{shape.name}-{uuid4().hex[:8]}")).encode()
        key = uuid4().hex
        status, text = client.insist("POST", "training-runs/", body, key=key)
        if status != 201:
            self.problems.append(f"a submission was answered {status}: {text[:300]!r}")
            return
        run = json.loads(text)["id"]
        self.accepted[run] = shape
        if chance.random() < 0.2:
            again, text = client.insist("POST", "training-runs/", body, key=key)
            if (again, json.loads(text)["id"]) != (201, run):
                self.problems.append(f"asked again with the same key: {again} {text[:300]!r}")
        if shape.cancel:
            self._stopping.wait(chance.uniform(0.0, 2.0))
            status, text = client.insist("POST", f"training-runs/{run}/cancel/", key=uuid4().hex)
            if status != 202:
                self.problems.append(f"a cancellation was answered {status}: {text[:300]!r}")
