"""A sweep from its submission to its end, on both clusters: nobody does anything but beat and worker."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest
from django.db.models import Sum

from cluster import kinds
from costs.ledger.services import settle_due
from costs.models import LedgerEntry
from foundation import clock
from jobs import tasks
from jobs.matrix import Matrix
from jobs.models import Sweep
from jobs.specs import TrainingRunSpec
from jobs.sweeps.queries import detail_of
from jobs.sweeps.services import cancel_sweep, submit_sweep
from quotas.models import Quota
from teams.actors import Actor
from tests.controller.conftest import leave_nothing
from tests.controller.test_time_alone import Quiet
from tests.factories.catalogue import make_quota
from tests.factories.submitted import run_body
from tests.factories.teams import make_member, make_team
from workloads.models import Workload, WorkloadEvent
from workloads.states import FINAL, IN_CLUSTER, Phase

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def quiet(client, servers):
    return Quiet(client, servers)


def submitted(bench, *, count: int, max_parallel: int | None, **fields) -> Sweep:
    asked = {"parameters": {"seed": {"from": 1, "to": count}}, "max_parallel": max_parallel}
    env = [{"name": "BED_RUN_SECONDS", "value": "1"}, {"name": "SEED", "value": "${{ matrix.seed }}"}]
    body = run_body(
        name="lr", flavor=bench.flavor.name, gpus_per_replica=1, cpu="1", memory="1Gi", time_limit_seconds=600,
        **{"env": env, **fields},
    )  # fmt: skip
    return submit_sweep(
        spec=TrainingRunSpec.from_json(body),
        matrix=Matrix.from_json(asked),
        asked=asked,
        team=bench.team,
        actor=Actor.of_user(bench.member),
        now=clock.now(),
    )


def most_at_once(sweep: Sweep) -> int:
    """How many members were in the cluster at once, by their histories."""
    moves = WorkloadEvent.objects.filter(workload__training_run__sweep=sweep).order_by("id")
    inside: set[int] = set()
    most = 0
    for key, phase in moves.values_list("workload_id", "to_phase"):
        (inside.add if Phase(phase) in IN_CLUSTER else inside.discard)(key)
        most = max(most, len(inside))
    return most


def ended(sweep: Sweep) -> bool:
    tasks.advance_sweeps()
    return Sweep.objects.get(pk=sweep.pk).finished_at is not None


def test_members_take_turns_until_all_have_ended(bench, quiet):
    sweep = submitted(bench, count=5, max_parallel=2)
    quiet.until(lambda: ended(sweep), seconds=120)
    members = [run.workload for run in sweep.members.select_related("workload").order_by("number")]
    assert [member.phase for member in members] == ["Succeeded"] * 5
    assert most_at_once(sweep) <= 2
    held = members[2].events.order_by("id").first()
    assert (held.to_phase, held.reason) == ("Suspended", "WaitingForSweep")
    assert [run.spec["env"][-1] for run in sweep.members.order_by("number")] == [
        {"name": "MATRIX_SEED", "value": str(number)} for number in range(1, 6)
    ]


def test_a_cancelled_sweep_leaves_nothing_running_and_nothing_waiting(bench, quiet):
    sweep = submitted(bench, count=4, max_parallel=2, env=[{"name": "BED_RUN_SECONDS", "value": "600"}])
    quiet.until(lambda: Workload.objects.filter(phase="Running").count() == 2, seconds=60)
    cancel_sweep(sweep=sweep, actor=Actor.of_user(bench.member), now=clock.now())
    quiet.until(lambda: ended(sweep), seconds=120)
    assert set(Workload.objects.values_list("phase", "reason")) == {("Cancelled", "UserRequested")}
    assert {message for (message,) in Workload.objects.values_list("message")} == {
        "The sweep lr was cancelled."
    }
    assert all(Phase(phase) in FINAL for phase in Workload.objects.values_list("phase", flat=True))


def test_what_others_queued_meanwhile_goes_before_a_member_that_was_held_back(bench, quiet):
    sweep = submitted(bench, count=3, max_parallel=1)
    other = bench.submit(name="other", gpus_per_replica=1, env={"BED_RUN_SECONDS": 1})
    quiet.until(lambda: ended(sweep), seconds=120)
    second = sweep.members.get(number=2).workload
    assert Workload.objects.get(pk=other.pk).queued_at < second.queued_at


MEMBERS = int(os.environ.get("PORTAL_TEST_SWEEP_MEMBERS", "8"))  # noqa: TID251
"""The default suite has a small one; 200 takes some minutes."""


@pytest.fixture
def others(bench):
    """Two other teams with their own quota of the same flavor, each with a member."""
    members = []
    for _ in range(2):
        team = make_team(f"t-{uuid4().hex[:8]}")
        make_quota(team, bench.flavor, 2)
        members.append(make_member(team=team))
    yield members
    for member in members:
        leave_nothing(bench.direct, member.team.namespace_name)


@pytest.mark.processes
def test_a_sweep_beside_the_work_of_others_keeps_its_order_and_its_books_and_ends_when_cancelled(
    bench, quiet, others
):
    """Members start in the order of their numbers, others' runs and the own team's are admitted meanwhile, each amount
    is in the ledger once, and the second half is cancelled.
    """
    half = MEMBERS // 2
    sweep = submitted(bench, count=MEMBERS, max_parallel=4)
    beside = [
        bench.submit(
            name=f"beside-{number}", team=member.team, member=member.user, gpus_per_replica=1, env={"BED_RUN_SECONDS": 1}
        )
        for member in others
        for number in range(4)
    ]  # fmt: skip
    own = bench.submit(name="own", gpus_per_replica=2, env={"BED_RUN_SECONDS": 1})
    done = sweep.members.filter(workload__phase="Succeeded")
    quiet.until(lambda: ended(sweep) or done.count() >= half, seconds=20 * MEMBERS)
    cancel_sweep(sweep=sweep, actor=Actor.of_user(bench.member), now=clock.now())
    quiet.until(lambda: ended(sweep), seconds=120)
    of_others = Workload.objects.filter(pk__in=[each.pk for each in (*beside, own)])
    quiet.until(lambda: not of_others.exclude(phase="Succeeded").exists(), seconds=60)
    members = [run.workload for run in sweep.members.select_related("workload").order_by("number")]
    assert all(Phase(member.phase) in FINAL for member in members)
    assert most_at_once(sweep) <= 4
    began = [(member.started_at, number) for number, member in enumerate(members) if member.started_at]
    for started, number in began:
        assert all(started <= later for later, other in began if other >= number + 4), "by their numbers"
    assert not any(member.started_at for member in members[half + 8 :]), "what was held back never ran"
    settle_due(now=clock.now())
    detail = detail_of(sweep, now=clock.now())
    posted = LedgerEntry.objects.filter(workload__in=members, account=f"team:{bench.team.slug}").aggregate(
        sum=Sum("amount_micro_usd")
    )
    assert detail.cost.so_far == posted["sum"] > 0
    assert detail.cost.at_time_limit == detail.cost.so_far, "nothing of it can cost any more"
    alive = ("Pending", "Running")
    pods = bench.client.list(kinds.POD, namespace=bench.team.namespace_name).items
    assert not [pod for pod in pods if pod["status"].get("phase") in alive]
    assert Quota.objects.get(team=bench.team).used == 0
