"""Interruptions that are nobody's fault end a run only where it gets nowhere between them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.reconcile.decide import INTERRUPTIONS_MAX, PROGRESS_SECONDS, decide
from foundation import clock
from tests.controller.test_decide import NOW, ago, attempt, row, seen
from tests.controller.test_reconcile_faults import lose, node_of
from workloads.models import Workload
from workloads.pods.observation import Stage
from workloads.reports import report_checkpoint
from workloads.states import Phase, Reason

LOST = seen(Stage.FAILED, Reason.NODE_LOST, interruption=True)
GOING = seen(Stage.DEGRADED, interruption=True, cause=Reason.SPOT_RECLAIMED)


def ends(plan):
    return Phase.FAILED in {plan.to, plan.stopping_to}


@pytest.mark.parametrize("observed", [LOST, GOING])
@pytest.mark.parametrize(
    ("won", "facts"),
    [
        (False, {}),
        (False, {"started_at": ago(PROGRESS_SECONDS - 1)}),
        (True, {"started_at": ago(PROGRESS_SECONDS)}),
        (True, {"started_at": ago(60), "saved": True}),
    ],
)
def test_an_attempt_that_won_something_begins_the_count_anew(observed, won, facts):
    plan = decide(row(interruptions=INTERRUPTIONS_MAX, attempt=attempt(**facts)), observed, NOW)
    assert ends(plan) is not won
    if won:
        assert plan.interruption == 1


def test_what_it_ran_counts_up_to_its_end_and_not_to_when_that_was_seen():
    facts = attempt(started_at=ago(2 * PROGRESS_SECONDS))
    over = replace(LOST, finished_at=ago(2 * PROGRESS_SECONDS - 60))
    assert ends(decide(row(interruptions=INTERRUPTIONS_MAX, attempt=facts), over, NOW))


def test_a_run_of_a_week_on_spot_survives_any_number_of_interruptions_while_it_goes_on():
    count = 0
    for number in range(100):
        saved = number % 3 == 0
        plan = decide(row(interruptions=count, attempt=attempt(number=number, saved=saved)), LOST, NOW)
        assert plan.to is Phase.ADMITTED, number
        count = plan.interruption
    for _ in range(INTERRUPTIONS_MAX):
        plan = decide(row(interruptions=count), LOST, NOW)
        count = plan.interruption or count
    assert ends(plan)
    assert "in a row" in plan.message


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
@pytest.mark.parametrize(("step", "ended"), [(10, True), (11, False)])
def test_a_checkpoint_counts_if_it_is_past_those_of_the_attempts_before(bench, monkeypatch, step, ended):
    monkeypatch.setattr("workloads.placement.UNREACHABLE_SECONDS", 1)
    run = bench.running()
    now = clock.now()
    # As if ten attempts had been lost before this one.
    run.checkpoints.create(attempt=0, step=10, path="/checkpoints/10", at=now - timedelta(hours=1))
    Workload.objects.filter(pk=run.pk).update(interruptions=INTERRUPTIONS_MAX)
    report_checkpoint(attempt=run.attempts.get(), step=step, path=f"/checkpoints/{step}", now=now)
    node = node_of(bench, run)
    lose(bench, node, True)
    try:
        bench.until(run, lambda run: run.phase == "Stopping")
    finally:
        lose(bench, node, False)
    assert (run.stopping_to == "Failed") is ended
    assert run.interruptions == (INTERRUPTIONS_MAX if ended else 1)
