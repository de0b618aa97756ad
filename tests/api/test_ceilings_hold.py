"""Whatever a member asks for, in whatever order: a team holds no more than its ceilings, and the cluster is asked for no more
than the team holds.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from cluster import kinds
from cluster.quantities import parse
from foundation import clock
from quotas.limits import set_policy
from quotas.models import Claim, ClaimState
from tests.api.bench import ENDPOINTS, RUNS, Bench
from tests.controller.looks import look
from tests.effort import drawn
from tests.factories.catalogue import SETUP
from tests.factories.submitted import endpoint_body, run_body
from workloads import services
from workloads.models import NodeRecord, WatchCursor, Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db

CPUS, GIB, PODS = 12, 16, 9
STEPS = 40


class Member:
    """A member who tries whatever there is, with amounts that mostly fit."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.chance = bench, random.Random(seed)
        self.did: list[str] = []

    def step(self) -> None:
        act = self.chance.choice([
            self.submit, self.deploy, self.scale, self.change, self.change, self.roll_back, self.stop, self.start, self.clone,
            self.sweep, self.cancel, self.admit, self.admit, self.admit,
        ])  # fmt: skip
        act()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        answer = getattr(self.bench.client, method)(path, body or {})
        self.did.append(f"{method} {path} {body} {answer.status_code}")
        assert answer.status_code < 500, answer.content

    def amounts(self) -> dict[str, Any]:
        draw = self.chance
        cpu = draw.choice(["1", "2", "500m", "3.5", "13", "1e1", "0.1"])
        found: dict[str, Any] = {"cpu": cpu, "memory": draw.choice(["1Gi", "512Mi", "5Gi", "17Gi", "1G"])}
        if draw.random() < 0.3:
            found["flavor"] = self.bench.flavor.name
        return found

    def of(self, kind: str, **phases: Any) -> Workload | None:
        rows = list(Workload.objects.filter(kind=kind, **phases).order_by("pk"))
        return self.chance.choice(rows) if rows else None

    def submit(self) -> None:
        extra = self.chance.choice(
            [{}, {"kind": "pytorchjob", "replicas": 2, "flavor": self.bench.flavor.name}, {"replicas": 3}]
        )
        self.ask("post", RUNS, run_body("vision", **(self.amounts() | extra)))

    def deploy(self) -> None:
        least = self.chance.randint(1, 2)
        most = least + self.chance.randint(0, 3)
        scaling = {"scaling": {"trigger": "cpu", "threshold": 50}} if most > least else {}
        body = endpoint_body("vision", min_replicas=least, max_replicas=most, **scaling, **self.amounts())
        self.ask("post", ENDPOINTS, body)

    def scale(self) -> None:
        if row := self.of("endpoint"):
            least = self.chance.randint(1, 3)
            body = {"min_replicas": least, "max_replicas": least + self.chance.randint(0, 9)}
            self.ask("post", f"{ENDPOINTS}{row.public_id}/scale/", body)

    def change(self) -> None:
        if row := self.of("endpoint"):
            amounts = self.amounts()
            body = self.chance.choice([
                amounts, {"max_replicas": self.chance.randint(1, 20)}, {"env": {"A": str(self.chance.random())}},
                {"min_replicas": 3, "max_replicas": 4, **amounts}, {"rollout": {"strategy": "in-place"}, **amounts},
            ])  # fmt: skip
            if body.get("max_replicas", 1) > 1:
                body |= {"scaling": {"trigger": "cpu", "threshold": 50}}
            self.ask("patch", f"{ENDPOINTS}{row.public_id}/", body)

    def roll_back(self) -> None:
        if row := self.of("endpoint"):
            self.ask("post", f"{ENDPOINTS}{row.public_id}/rollback/", {"revision": self.chance.randint(1, 3)})

    def stop(self) -> None:
        if row := self.of("endpoint"):
            self.ask("post", f"{ENDPOINTS}{row.public_id}/stop/")
        if row := self.of("training-run"):
            self.ask("post", f"{RUNS}{row.public_id}/suspend/")

    def start(self) -> None:
        if row := self.of("endpoint"):
            self.ask("post", f"{ENDPOINTS}{row.public_id}/start/")
        if row := self.of("training-run"):
            self.ask("post", f"{RUNS}{row.public_id}/resume/")

    def clone(self) -> None:
        if row := self.of("training-run"):
            self.ask(
                "post", f"{RUNS}{row.public_id}/clone/", {"name": f"clone-{len(self.did)}", **self.amounts()}
            )

    def sweep(self) -> None:
        body = {
            **run_body("vision", **self.amounts()),
            "matrix": {"parameters": {"lr": [0.1, 0.2, 0.3]}, "max_parallel": 2},
        }
        self.ask("post", RUNS, body)

    def cancel(self) -> None:
        if row := self.of("training-run"):
            self.ask("delete", f"{RUNS}{row.public_id}/")

    def admit(self) -> None:
        """As the passes would, and what is admitted gets to run."""
        for key in Workload.objects.filter(phase=Phase.QUEUED).order_by("pk").values_list("pk", flat=True):
            row = Workload.objects.get(pk=key)
            # A pass for one admits others of its pool too.
            if row.phase == Phase.QUEUED:
                Workload.objects.filter(pk=key).update(next_reconcile_at=clock.now(), lock_token=None)
                look(row)
        for row in Workload.objects.filter(phase=Phase.ADMITTED):
            if self.chance.random() < 0.7:
                for to, reason in ((Phase.STARTING, Reason.PULLING), (Phase.RUNNING, Reason.PROGRESSING)):
                    fitting = Reason.READY if row.kind == "endpoint" and to is Phase.RUNNING else reason
                    services.transition(
                        row, to=to, reason=fitting, message="", actor="tests", now=clock.now()
                    )


def held() -> dict[int, list[int]]:
    """(millicores, bytes, pods) by workload."""
    found: dict[int, list[int]] = {}
    for claim in Claim.objects.exclude(state=ClaimState.RELEASED):
        cpu, memory, _, pods = claim.most
        before = found.setdefault(claim.workload_id, [0, 0, 0])
        found[claim.workload_id] = [before[0] + cpu, before[1] + memory, before[2] + pods]
    return found


def asked(bench: Bench, row: Workload) -> tuple[int, int, int]:
    """The same, of what its manifests make the cluster run at most."""
    path = ENDPOINTS if row.kind == "endpoint" else RUNS
    answer = bench.client.get(f"{path}{row.public_id}/manifests/")
    assert answer.status_code == 200, answer.content
    objects = answer.json()["manifests"]
    most = [item["spec"]["maxReplicaCount"] for item in objects if item["kind"] == "ScaledObject"]
    most += [item["spec"]["maxReplicas"] for item in objects if item["kind"] == "HorizontalPodAutoscaler"]
    total = [0, 0, 0]
    for item in objects:
        for pods, template in _templates(item):
            count = max([pods, *most]) if item["kind"] == "Deployment" else pods
            for index, amount in enumerate(_amounts(template["spec"])):
                total[index] += count * amount
    return total[0], total[1], total[2]


def _templates(item: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    spec = item.get("spec", {})
    if item["kind"] == "Deployment":
        return [(spec.get("replicas", 1), spec["template"])]
    if item["kind"] == "Job":
        return [(spec.get("parallelism", 1), spec["template"])]
    if item["kind"] == "PyTorchJob":
        return [(each["replicas"], each["template"]) for each in spec["pytorchReplicaSpecs"].values()]
    return []


def _amounts(spec: dict[str, Any]) -> tuple[int, int, int]:
    requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
    cpu = sum(round(parse(each.get("cpu", 0)) * 1000) for each in requests)
    return cpu, sum(int(parse(each.get("memory", 0))) for each in requests), 1


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(drawn(usual=1, soak=60)))
def test_no_way_of_asking_passes_a_ceiling(bench, seed):
    NodeRecord.objects.all().delete()
    ceilings = {"ceiling_cpus": CPUS, "ceiling_memory_gib": GIB, "ceiling_pods": PODS}
    set_policy(team=bench.team, changes=ceilings, actor=SETUP, now=clock.now())
    for kind in (kinds.SCALED_OBJECT, kinds.PYTORCH_JOB):
        WatchCursor.objects.create(kind=kind.address)
    member = Member(bench, seed)
    admitted = 0
    for _ in range(STEPS):
        member.step()
        claims = held()
        together = [sum(each[index] for each in claims.values()) for index in range(3)]
        for has, most in zip(together, [CPUS * 1000, GIB * 1024**3, PODS], strict=True):
            assert has <= most, "\n".join(member.did)
        for row in Workload.objects.filter(
            pk__in=claims, phase__in=[Phase.ADMITTED, Phase.STARTING, Phase.RUNNING]
        ):
            admitted += 1
            wanted = asked(bench, row)
            assert all(has >= most for has, most in zip(claims[row.pk], wanted, strict=True)), (
                f"{row.name} holds {claims[row.pk]} and asks for {wanted}", "\n".join(member.did),
            )  # fmt: skip
    assert admitted
