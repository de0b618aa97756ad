"""A full pool: three teams in a cohort, one of them borrowing, five runs in the queue, one of which was preempted."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from jobs.serializers import TrainingRunSerializer
from jobs.services import submit_training_run
from policy.verdicts import PreemptionCause
from quotas.cohorts import create_cohort
from quotas.models import Preemption, StartEstimate
from teams.actors import Actor
from teams.models import Team
from teams.services import update_team
from tests.factories.catalogue import SETUP, limit, make_flavor, make_node, make_quota
from tests.factories.teams import make_member, make_team, make_user
from tests.web.world import World, run_body
from workloads.models import ResourceFlavor, WatchCursor, Workload
from workloads.states import Phase, Reason

NOMINAL = {"vision": 16, "speech": 4, "robotics": 4}


@transaction.atomic
def make_queue(world: World) -> dict[str, Workload]:
    """What runs and waits, by name. Everything runs on three nodes of eight, of which two units are free.

    Beside it a larger flavor stands idle, of which team vision has a quota too.
    """
    robotics = make_team("robotics", name="Robotics")
    rita = make_member("lead", team=robotics, user=make_user("rita")).user
    teams: dict[str, Team] = {"vision": world.team, "speech": world.other, "robotics": robotics}
    owners = {"vision": world.ana, "speech": world.stranger, "robotics": rita}
    flavor = ResourceFlavor.objects.get(name="a100-40gb")
    create_cohort(name="research", parent=None, actor=SETUP, now=world.now)
    for slug, team in teams.items():
        limit(team, flavor, nominal=NOMINAL[slug], now=world.now)
        update_team(actor=SETUP, team=team, changes={"cohort_name": "research"}, now=world.now)
    make_node("a100-2")
    larger = make_flavor("a100-80gb", product="NVIDIA-A100-SXM4-80GB")
    make_node("a100-80gb-0", product="NVIDIA-A100-SXM4-80GB")
    make_quota(world.team, larger, 8)
    WatchCursor.objects.create(kind="Node", seen_at=world.now - timedelta(seconds=3))

    def run(name: str, team: str, gpus: int, minutes: float, hours: float) -> Workload:
        body = TrainingRunSerializer(
            data=run_body(name, team, gpus_per_replica=gpus, time_limit_seconds=int(hours * 3600))
        )
        body.is_valid(raise_exception=True)
        at = world.now - timedelta(minutes=minutes)
        actor = Actor.of_user(owners[team])
        return submit_training_run(spec=body.to_spec(), team=teams[team], actor=actor, now=at).workload

    def started(node: str, *given: str | float) -> Workload:
        workload = run(*given)  # type: ignore[arg-type]
        pod = world.start(workload, message="Its pod is running.")
        pod.node_name = node
        pod.save(update_fields=["node_name"])
        return workload

    for slug in teams:
        # What runs usually use of their limit is what the early end of an estimate is made of.
        done = run(f"{slug}-done", slug, 1, 240, 2)
        world.finish(done, Phase.SUCCEEDED, Reason.COMPLETED, "Ended with exit code 0.", after_minutes=104)
        Workload.objects.filter(pk=done.pk).update(used_seconds=104 * 60)
    made = {
        "resnet50": started("a100-0", "resnet50", "vision", 8, 64, 2),
        "wav2vec": started("a100-1", "wav2vec", "speech", 8, 95, 3),
        "grasp": started("a100-2", "grasp", "robotics", 4, 40, 1.5),
        "eval-sweep": started("a100-2", "eval-sweep", "vision", 2, 9, 0.5),
        "conformer": run("conformer", "speech", 4, 31, 2),
        "vit-huge": run("vit-huge", "vision", 8, 22, 12),
        "bert-large": run("bert-large", "vision", 8, 14, 1),
        "slam": run("slam", "robotics", 8, 11, 2),
        "detr": run("detr", "vision", 2, 6, 24),
    }
    _scored(world, made["resnet50"], hits=9, of=10)
    Preemption.objects.create(
        workload=made["vit-huge"],
        preemptor=made["grasp"],
        cause=PreemptionCause.IN_COHORT_RECLAMATION,
        message="A run of another team takes back quota that was lent to this team (InCohortReclamation).",
        lost_seconds=340,
        at=world.now - timedelta(minutes=4),
        ended_at=world.now - timedelta(minutes=3),
    )
    for name in ("conformer", "vit-huge", "bert-large", "slam", "detr"):
        world.move(
            made[name],
            Phase.QUEUED,
            Reason.WAITING_FOR_QUOTA,
            "It waits for quota.",
            at=made[name].created_at + timedelta(seconds=2),
        )
    return made


def _scored(world: World, workload: Workload, *, hits: int, of: int) -> None:
    """Estimates of the past, of which so many held."""
    at = world.now - timedelta(hours=5)
    StartEstimate.objects.bulk_create(
        StartEstimate(
            workload=workload,
            team=workload.team,
            queued_at=at,
            made_at=at,
            p50=at + timedelta(minutes=10),
            p90=at + timedelta(minutes=20),
            started_at=at + timedelta(minutes=15),
            hit=number < hits,
        )
        for number in range(of)
    )
