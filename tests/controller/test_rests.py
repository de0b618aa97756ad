"""A run that no node took rests before it asks again, whoever wakes it meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller import waiting_card
from controller.admission import forecasts, scheduler
from controller.reconcile.reconciler import reconcile
from foundation import clock
from policy.verdicts import Outcome
from quotas.models import Claim, Pool
from tests.controller.looks import look
from workloads import locks, services
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


def gives_up(bench, run):
    """Admitted, and taken down because no node came for it."""
    assert look(run).admitted
    services.transition(
        run,
        to=Phase.STOPPING,
        reason=Reason.BACKOFF_WAITING,
        message="No node took it.",
        actor="test",
        now=clock.now(),
        stopping_to=Phase.QUEUED,
    )
    bench.turn(run)
    assert (run.phase, run.reason) == ("Queued", "BackoffWaiting")
    assert not Claim.objects.exclude(state="released").exists()
    return run


def pass_over():
    Pool.objects.update(due_at=clock.now())
    return scheduler.pass_over(Pool.objects.get(), now=clock.now())


def test_a_wake_up_and_a_pass_do_not_end_a_rest_and_when_it_is_over_it_asks_again(bench):
    run = gives_up(bench, bench.submit())
    services.wake(workload_ids=[run.pk], now=clock.now())
    assert pass_over() == 0
    run.refresh_from_db()
    assert (run.phase, run.reason) == ("Queued", "BackoffWaiting")
    bench.turn(run)
    assert (run.phase, run.reason) == ("Queued", "BackoffWaiting")
    over = run.next_reconcile_at
    assert over > clock.now() + timedelta(seconds=500)
    reconcile(public_id=run.public_id, client=bench.client, now=over)
    run.refresh_from_db()
    assert run.phase != "Queued"


def test_a_pass_while_somebody_looks_at_it_does_not_end_a_rest(bench):
    run = gives_up(bench, bench.submit())
    services.wake(workload_ids=[run.pk], now=clock.now())
    assert locks.lock(public_id=run.public_id, now=clock.now()) is not None
    assert pass_over() == 0


def test_a_person_who_resumes_it_does_not_wait_for_the_end_of_a_rest(bench):
    run = gives_up(bench, bench.submit())
    for wish in ("suspend", "run"):
        Workload.objects.filter(pk=run.pk).update(desired=wish)
        bench.turn(run)
    assert run.phase not in {"Queued", "Suspended"}


def test_the_card_of_one_that_rests_does_not_say_that_it_starts_now(bench):
    run = gives_up(bench, bench.submit())
    card = waiting_card.card_of(run, named=frozenset(), now=clock.now())
    until = int(run.rests_until.timestamp())
    assert (card.verdict.outcome, card.verdict.reason) == (Outcome.WAIT, Reason.BACKOFF_WAITING)
    assert (card.estimate.p50, card.estimate.p90, card.estimate.basis) == (until, until, forecasts.RESTS)
    over = waiting_card.card_of(run, named=frozenset(), now=run.rests_until)
    assert over.verdict.admitted
