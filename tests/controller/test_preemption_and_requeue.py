"""Who has to leave, from the claim to the pods: lent quota comes back, priority counts, and no work is forgotten."""

from __future__ import annotations

from uuid import uuid4

import pytest

from controller import admission
from controller.services import cancel
from controller.tasks import sweep_due_workloads
from foundation import clock
from foundation.models import PlatformSettings
from jobs.services import submit_training_run
from jobs.specs import TrainingRunSpec
from quotas.cohorts import create_cohort
from quotas.decisions import replay
from quotas.limits import set_limits
from quotas.models import Claim, Decision, Pool, Preemption, Quota
from teams.actors import Actor
from teams.services import update_team
from tests.controller.conftest import _leave_nothing
from tests.factories.catalogue import SETUP
from tests.factories.teams import make_member, make_team
from workloads.models import Workload
from workloads.reports import report_checkpoint

pytestmark = pytest.mark.django_db(transaction=True)


class Neighbours:
    """Two teams of one cohort with 8 units each, on the two whole nodes that the flavor is limited to."""

    def __init__(self, bench):
        self.bench = bench
        now = clock.now()
        name = f"c-{uuid4().hex[:8]}"
        create_cohort(name=name, parent=None, actor=SETUP, now=now)
        self.borrower = bench.team
        self.owner = make_team(f"t-{uuid4().hex[:8]}", cohort_name=name)
        self.owner_member = make_member("lead", team=self.owner).user
        update_team(actor=SETUP, team=self.borrower, changes={"cohort_name": name}, now=now)
        self.borrower.refresh_from_db()
        self.limit(self.owner, nominal=8)
        PlatformSettings.objects.update_or_create(
            pk=1, defaults={"minimum_run_seconds": 0, "grace_seconds": 2}
        )

    def limit(self, team, **limits):
        return set_limits(
            team=team,
            flavor=self.bench.flavor,
            capacity_type="on-demand",
            limits=limits,
            reason="test",
            actor=SETUP,
            now=clock.now(),
        )

    def submit_owner(self, **fields):
        body = {
            "name": f"owner-{uuid4().hex[:4]}",
            "image": "example.org/train:1",
            "command": ["python", "train.py"],
            "flavor": self.bench.flavor.name,
            "gpus_per_replica": 8,
            "cpu": "1",
            "memory": "1Gi",
            "time_limit_seconds": 600,
            **fields,
        }
        body["env"] = [{"name": key, "value": str(value)} for key, value in body.get("env", {}).items()]
        spec = TrainingRunSpec.from_json(body)
        actor = Actor.of_user(self.owner_member)
        return submit_training_run(spec=spec, team=self.owner, actor=actor, now=clock.now()).workload


@pytest.fixture
def neighbours(bench, client):
    both = Neighbours(bench)
    yield both
    _leave_nothing(client, both.owner.namespace_name)


def used(team):
    return Quota.objects.get(team=team).used


def test_lent_quota_comes_back_to_its_owner_and_the_borrower_waits_at_its_old_place(bench, neighbours):
    at_home = bench.submit(name="at-home", gpus_per_replica=8)
    borrowing = bench.submit(name="borrowing", gpus_per_replica=8)
    bench.until(at_home, lambda run: run.phase == "Running")
    bench.until(borrowing, lambda run: run.phase == "Running")
    assert used(neighbours.borrower) == 16
    report_checkpoint(attempt=borrowing.attempts.get(), step=10, path="/checkpoints/10", now=clock.now())
    queued_at, retries = borrowing.queued_at, borrowing.retries_used
    needy = neighbours.submit_owner(env={"BED_RUN_SECONDS": 2})
    bench.turn(needy)
    assert (needy.phase, needy.reason) == ("Queued", "WaitingForPreemptedWorkloads")
    request = Preemption.objects.get()
    assert request.workload_id in {at_home.pk, borrowing.pk}
    assert request.cause == "InCohortReclamation"
    victim = at_home if request.workload_id == at_home.pk else borrowing
    bench.turn(victim)
    assert (victim.phase, victim.reason) == ("Stopping", "Preempting")
    assert "takes back quota that was lent" in victim.message
    assert needy.name not in victim.message
    assert neighbours.owner.slug not in victim.message
    bench.until(victim, lambda run: run.phase == "Queued")
    request.refresh_from_db()
    assert request.ended_at is not None
    assert victim.events.filter(to_phase="Queued", reason="Preempted").exists()
    assert (victim.queued_at, victim.retries_used) == (
        queued_at if victim is borrowing else victim.queued_at,
        retries,
    )
    bench.until(needy, lambda run: run.is_final)
    assert needy.phase == "Succeeded"
    bench.until(victim, lambda run: run.phase == "Running")
    assert victim.attempt_number == 2
    assert used(neighbours.borrower) == 16
    assert used(neighbours.owner) == 0


def test_a_run_of_higher_priority_takes_the_place_of_a_lower_one_of_its_own_team(bench, neighbours):
    neighbours.limit(neighbours.owner, borrowing_limit=0)
    low = neighbours.submit_owner(priority="low")
    bench.until(low, lambda run: run.phase == "Running")
    high = neighbours.submit_owner(priority="high", env={"BED_RUN_SECONDS": 1})
    bench.turn(high)
    assert high.reason == "WaitingForPreemptedWorkloads"
    bench.turn(low)
    assert f"Run {high.name} has a higher priority" in low.message
    bench.until(low, lambda run: run.phase == "Queued")
    assert "It lost" in low.events.get(to_phase="Queued", reason="Preempted").message
    bench.until(high, lambda run: run.is_final)
    assert high.phase == "Succeeded"


def test_nobody_leaves_before_the_minimum_run_time(bench, neighbours):
    PlatformSettings.objects.update(minimum_run_seconds=3600)
    neighbours.limit(neighbours.owner, borrowing_limit=0)
    low = neighbours.submit_owner(priority="low")
    bench.until(low, lambda run: run.phase == "Running")
    high = neighbours.submit_owner(priority="high")
    bench.turn(high)
    assert high.reason == "WaitingForQuota"
    assert not Preemption.objects.exists()


def test_a_victim_that_ends_by_itself_leaves_no_open_request(bench, neighbours):
    neighbours.limit(neighbours.owner, borrowing_limit=0)
    low = neighbours.submit_owner(priority="low", env={"BED_RUN_SECONDS": 1})
    bench.until(low, lambda run: run.phase in {"Starting", "Running"})
    high = neighbours.submit_owner(priority="high")
    bench.turn(high)
    bench.until(low, lambda run: run.is_final or run.phase == "Queued")
    assert not Preemption.objects.filter(ended_at__isnull=True).exists()
    bench.until(high, lambda run: run.phase == "Running")


def test_a_lost_wake_up_of_a_victim_is_found_by_the_sweep(bench, neighbours):
    neighbours.limit(neighbours.owner, borrowing_limit=0)
    low = neighbours.submit_owner(priority="low")
    bench.until(low, lambda run: run.phase == "Running")
    high = neighbours.submit_owner(priority="high")
    bench.turn(high)
    Workload.objects.filter(pk=low.pk).update(next_reconcile_at=None)
    sweep_due_workloads()
    low.refresh_from_db()
    assert low.next_reconcile_at is not None


def test_a_pass_admits_all_who_fit_after_something_was_given_back(bench):
    first = bench.submit(name="first", gpus_per_replica=8)
    bench.until(first, lambda run: run.phase == "Running")
    waiting = [bench.submit(name=f"w-{number}", gpus_per_replica=2) for number in range(4)]
    for each in waiting:
        bench.turn(each)
        assert each.reason == "WaitingForQuota"
    cancel(workload=first, actor=Actor.of_user(bench.member), now=clock.now())
    bench.until(first, lambda run: run.is_final)
    pool = Pool.objects.get()
    assert admission.pass_over(pool, now=clock.now()) == 4
    for each in waiting:
        each.refresh_from_db()
        assert each.phase == "Admitted"
        assert each.next_reconcile_at is not None
    assert Claim.objects.exclude(state="released").count() == 4
    assert Quota.objects.get().used == 8
    assert admission.pass_over(pool, now=clock.now()) == 0


def test_every_verdict_is_stored_and_replays_to_itself(bench):
    first = bench.submit(name="first", gpus_per_replica=8)
    second = bench.submit(name="second", gpus_per_replica=1)
    bench.turn(first)
    bench.turn(second)
    bench.turn(second)
    verdicts = list(Decision.objects.order_by("id").values_list("workload__name", "verdict", "reason"))
    assert verdicts == [("first", "admit", "Creating"), ("second", "wait", "WaitingForQuota")]
    for decision in Decision.objects.all():
        assert replay(decision).same
