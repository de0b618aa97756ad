"""A portal with people, quota and workloads in every phase, made by the services that make them in earnest."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

from django.db import transaction

from cluster import kinds
from costs.ledger.services import record_usage
from foundation import clock
from inference.serializers import EndpointSerializer
from inference.services import deploy_endpoint
from jobs.matrix import Matrix
from jobs.models import Sweep
from jobs.serializers import TrainingRunSerializer
from jobs.services import submit_training_run
from jobs.sweeps.services import submit_sweep
from logs import lines as log_lines
from logs.store import ContainerLog, source_of
from quotas import services as quota_services
from teams.actors import Actor
from teams.models import Team, User
from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.teams import make_member, make_team, make_user
from workloads import services
from workloads.models import NodeRecord, PodRecord, WatchCursor, Workload
from workloads.states import Desired, Phase, Reason

LOG = (
    "\x1b[1mresnet50\x1b[0m: 8 x A100, batch 512",
    "epoch 1/10  loss 2.3041  acc \x1b[32m0.214\x1b[0m",
    "epoch 2/10  loss 1.7312  acc \x1b[32m0.403\x1b[0m",
    "\x1b[33mwarning: 3 samples were unreadable and were skipped\x1b[0m",
    "epoch 3/10  loss 1.2209  acc \x1b[32m0.558\x1b[0m",
    "checkpoint written to /checkpoints/step-3000",
    "epoch 4/10  loss 0.9417  acc \x1b[32m0.641\x1b[0m",
)
PROMETHEUS = "http://prometheus.invalid"
WAY = (
    (Phase.ADMITTED, Reason.CREATING, 2),
    (Phase.STARTING, Reason.PULLING, 38),
    (Phase.RUNNING, Reason.PROGRESSING, 25),
)


def run_body(name: str, team: str = "vision", **values) -> dict:
    body = {
        "team": team,
        "name": name,
        "image": "registry.example.org/train:1.4",
        "command": ["python", "train.py"],
        "flavor": "a100-40gb",
        "gpus_per_replica": 2,
        "time_limit_seconds": 7200,
    }
    return {**body, **values}


def endpoint_body(name: str, team: str = "vision", **values) -> dict:
    body = {
        "team": team,
        "name": name,
        "image": "registry.example.org/serve:2.0",
        "flavor": "a100-mig-1g.10gb",
        "gpus_per_replica": 1,
        "probes": {"readiness": {"path": "/healthz"}},
    }
    return {**body, **values}


@dataclass
class World:
    team: Team
    other: Team
    ana: User
    lead: User
    viewer: User
    stranger: User
    manager: User
    now: datetime = field(default_factory=clock.now)

    def run(self, name: str, *, minutes_ago: float = 20, owner: User | None = None, **values) -> Workload:
        """A queued run, submitted then."""
        body = TrainingRunSerializer(data=run_body(name, **values))
        body.is_valid(raise_exception=True)
        team = self.other if values.get("team") == self.other.slug else self.team
        at = self.now - timedelta(minutes=minutes_ago)
        actor = Actor.of_user(owner or self.ana)
        return submit_training_run(spec=body.to_spec(), team=team, actor=actor, now=at).workload

    def sweep(self, name: str, **matrix) -> Sweep:
        """A queued sweep of four members, two at once."""
        asked = {"parameters": {"lr": [0.1, 0.01], "seed": [1, 2]}, "max_parallel": 2, **matrix}
        body = TrainingRunSerializer(data=run_body(name, flavor="a100-40gb", gpus_per_replica=1))
        body.is_valid(raise_exception=True)
        return submit_sweep(
            spec=body.to_spec(),
            matrix=Matrix.from_json(asked),
            asked=asked,
            team=self.team,
            actor=Actor.of_user(self.ana),
            now=self.now,
        )

    def endpoint(self, name: str, *, minutes_ago: float = 200, **values) -> Workload:
        body = EndpointSerializer(data=endpoint_body(name, **values))
        body.is_valid(raise_exception=True)
        at = self.now - timedelta(minutes=minutes_ago)
        return deploy_endpoint(
            spec=body.to_spec(), team=self.team, actor=Actor.of_user(self.ana), now=at
        ).workload

    def sleeper(self, settings) -> Workload:
        """An endpoint that may sleep while nobody calls, of which nothing runs yet; the portal gets what that takes, a
        scaler in the cluster and a Prometheus in the test's settings.
        """
        settings.PROMETHEUS_URL = PROMETHEUS
        WatchCursor.objects.create(kind=kinds.SCALED_OBJECT.address)
        scaling = {"trigger": "in-flight", "threshold": 4}
        return self.endpoint("sleepy", max_replicas=3, scale_to_zero=True, scaling=scaling)

    def move(
        self, workload: Workload, to: Phase, reason: Reason, message: str = "", *, at: datetime
    ) -> Workload:
        services.transition(
            workload,
            to=to,
            reason=reason,
            message=message,
            actor="reconciler",
            now=at,
            stopping_to=Phase.CANCELLED if to is Phase.STOPPING else None,
        )
        return workload

    def start(
        self, workload: Workload, *, message: str = "1 of 1 pods ready.", until: Phase = Phase.RUNNING
    ) -> PodRecord:
        """Claim, make the attempt and its pod, and bring it as far as `until`."""
        at = workload.created_at
        quota = quota_services.lock_quota(
            team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type
        )
        quota_services.claim(workload=workload, quota=quota, units=workload.units, now=at)
        services.start_attempt(workload, object_name=f"{workload.name}-x", token_digest="", now=at)
        ends = workload.kind != "endpoint"
        for phase, reason, seconds in WAY:
            at += timedelta(seconds=seconds)
            final = phase is Phase.RUNNING and not ends
            self.move(
                workload, phase, Reason.READY if final else reason, message if phase is until else "", at=at
            )
            if phase is until:
                break
        scheduled = workload.created_at + timedelta(seconds=4)
        pod = PodRecord.objects.create(
            uid=f"{workload.public_id}-pod",
            namespace=workload.team.namespace_name,
            name=f"{workload.name}-x-0",
            workload=workload,
            attempt=1,
            resource_version="1",
            phase="Running" if until is Phase.RUNNING else "Pending",
            ready=until is Phase.RUNNING,
            node_name="a100-0",
            units=workload.units,
            created_at=scheduled,
            scheduled_at=scheduled,
            started_at=at,
        )
        record_usage(pod, now=self.now)
        return pod

    def finish(
        self,
        workload: Workload,
        to: Phase,
        reason: Reason,
        message: str,
        *,
        after_minutes: float,
        exit_code: int = 0,
    ) -> Workload:
        pod = self.start(workload)
        at = workload.started_at + timedelta(minutes=after_minutes)
        attempt = workload.attempts.get()
        services.end_attempt(
            attempt, phase=to, reason=reason.value, message=message, exit_code=exit_code, ended_at=at
        )
        self.move(workload, to, reason, message, at=at)
        pod.phase, pod.ready = "Succeeded" if to is Phase.SUCCEEDED else "Failed", False
        pod.exit_code, pod.finished_at = exit_code, at
        pod.save()
        record_usage(pod, now=self.now)
        quota_services.release(workload=workload, now=at)
        return workload

    def log(self, pod: PodRecord, *lines: str) -> None:
        """Store what the pod wrote, a second apart."""
        log = ContainerLog(source_of(pod, container="main"))
        log.load()
        begin = pod.started_at or self.now
        stored = [
            log_lines.stamp_of(begin + timedelta(seconds=index)) + b" " + line.encode()
            for index, line in enumerate(lines)
        ]
        log.append(stored, now=self.now)


def make_world() -> World:
    team, other = make_team("vision", name="Vision"), make_team("speech", name="Speech")
    world = World(
        team=team,
        other=other,
        ana=make_member("member", team=team, user=make_user("ana")).user,
        lead=make_member("lead", team=team, user=make_user("bo")).user,
        viewer=make_member("viewer", team=team, user=make_user("vera")).user,
        stranger=make_member("lead", team=other, user=make_user("mallory")).user,
        manager=make_user("qm", quota_manager=True),
    )
    a100, mig = (
        make_flavor(),
        make_flavor(
            "a100-mig-1g.10gb",
            resource="nvidia.com/mig-1g.10gb",
            product=None,
            fraction=Fraction(1, 7),
            sharing="mig",
        ),
    )
    mig.card, mig.memory_gib = "a100-80gb", 10
    mig.save()
    t4 = make_flavor(
        "t4-shared",
        resource="nvidia.com/gpu.shared",
        product=None,
        fraction=Fraction(1, 4),
        sharing="time-slicing",
    )
    t4.memory_gib = 4
    t4.save()
    make_price(micro_usd=2_744_705)
    make_price("a100-80gb", micro_usd=3_673_000)
    for index in range(2):
        make_node(f"a100-{index}")
    _node("mig-0", {"nvidia.com/mig-1g.10gb": 7})
    _node("t4-0", {"nvidia.com/gpu.shared": 4})
    make_quota(team, a100, 16)
    make_quota(team, mig, 4)
    make_quota(other, a100, 4)
    WatchCursor.objects.create(kind="pods", seen_at=clock.now())
    return world


def _node(name: str, allocatable: dict) -> None:
    NodeRecord.objects.create(
        uid=f"uid-{name}",
        name=name,
        resource_version="1",
        allocatable=allocatable,
        ready=True,
        created_at=clock.now(),
    )


@transaction.atomic
def populate(world: World) -> dict[str, Workload]:
    """A day's work: something in every phase."""
    made: dict[str, Workload] = {}
    made["resnet50"] = world.run(
        "resnet50", minutes_ago=64, gpus_per_replica=8, labels={"project": "imagenet"}
    )
    world.log(world.start(made["resnet50"], message="Its pod is running."), *LOG)
    made["vit-small"] = world.run("vit-small", minutes_ago=1, gpus_per_replica=2)
    world.start(
        made["vit-small"], until=Phase.STARTING, message="Pulling the image registry.example.org/train:1.4."
    )
    made["bert-large"] = world.run("bert-large", minutes_ago=14, gpus_per_replica=8)
    world.move(
        made["bert-large"],
        Phase.QUEUED,
        Reason.WAITING_FOR_QUOTA,
        "Team vision uses 10 of 16 a100-40gb (on-demand); this run needs 8.",
        at=world.now - timedelta(minutes=13),
    )
    made["sweep-07"] = world.finish(
        world.run("sweep-07", minutes_ago=180, gpus_per_replica=1),
        Phase.SUCCEEDED,
        Reason.COMPLETED,
        "Ended with exit code 0.",
        after_minutes=41,
    )
    made["unet-3d"] = world.finish(
        world.run("unet-3d", minutes_ago=120, gpus_per_replica=4, owner=world.lead),
        Phase.FAILED,
        Reason.OOM_KILLED,
        "Container main was killed: it reached its memory limit of 16Gi (exit code 137).",
        after_minutes=12,
        exit_code=137,
    )
    cancelled = world.run("old-idea", minutes_ago=300)
    services.set_desired(cancelled, desired=Desired.CANCEL, now=world.now - timedelta(minutes=290))
    made["old-idea"] = world.move(
        cancelled,
        Phase.CANCELLED,
        Reason.USER_REQUESTED,
        "Cancelled by ana.",
        at=world.now - timedelta(minutes=290),
    )
    made["digits"] = world.endpoint("digits")
    world.start(made["digits"], message="1 of 1 replicas answer.")
    made["captions"] = world.endpoint("captions", minutes_ago=900)
    services.set_desired(made["captions"], desired=Desired.SUSPEND, now=world.now - timedelta(minutes=600))
    world.move(
        made["captions"],
        Phase.SUSPENDED,
        Reason.USER_REQUESTED,
        "Stopped by ana.",
        at=world.now - timedelta(minutes=600),
    )
    return made
