"""Who has to leave, from the claim to the pods: lent quota comes back, priority counts, and no work is forgotten."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas.decisions import replay
from quotas.models import Decision, Preemption, Quota
from workloads.reports import report_checkpoint

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_a_victim_that_ends_by_itself_leaves_no_open_request(bench, neighbours):
    neighbours.limit(neighbours.owner, borrowing_limit=0)
    low = neighbours.submit_owner(priority="low", env={"BED_RUN_SECONDS": 1})
    bench.until(low, lambda run: run.phase in {"Starting", "Running"})
    high = neighbours.submit_owner(priority="high")
    bench.turn(high)
    bench.until(low, lambda run: run.is_final or run.phase == "Queued")
    assert not Preemption.objects.filter(ended_at__isnull=True).exists()
    bench.until(high, lambda run: run.phase == "Running")


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
