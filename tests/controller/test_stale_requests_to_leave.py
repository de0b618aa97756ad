"""A request to leave is about one claim: it never reaches a later admission of the same run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from controller import tasks
from controller.admission import preemption, scheduler
from foundation import clock
from policy.verdicts import PreemptionCause, Victim
from quotas import evictions, snapshots
from quotas.models import Claim, Preemption
from tests.controller.looks import look
from tests.controller.test_admission_edges import flavor, move, submit, team, user  # noqa: F401
from tests.factories.catalogue import make_quota
from tests.factories.leases import overtaken
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def victim(team, user, flavor):  # noqa: F811
    make_quota(team, flavor, 8)
    row = submit(team, user, flavor, "victim", units=8)
    assert look(row).admitted
    return row


def leaves(row):
    """Its last pod is gone, by itself or because somebody asked: as the reconciler records it."""
    with transaction.atomic():
        scheduler.release(row, now=clock.now())
        preemption.has_left(row, now=clock.now())
    row.refresh_from_db()
    move(row, Phase.STOPPING, Reason.SPOT_RECLAIMED, stopping_to=Phase.QUEUED)
    move(row, Phase.QUEUED, Reason.SPOT_RECLAIMED)


def again(row):
    """It is admitted anew."""
    Workload.objects.filter(pk=row.pk).update(next_reconcile_at=clock.now())
    return look(row)


def asked(row):
    return Victim(str(row.public_id), row.team.slug, 60, PreemptionCause.IN_CLUSTER_QUEUE)


def ask_while(row, happens):
    """Ask it to leave; `happens` elsewhere once it was found to hold something, and before that is written."""

    def told(_row, _victim):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_elsewhere, happens, row.pk).result()
        return "Somebody needs it."

    return evictions.ask_to_leave(victims=[asked(row)], preemptor=None, message_of=told, now=clock.now())


def _elsewhere(happens, key):
    try:
        happens(Workload.objects.select_related("team", "owner", "flavor").get(pk=key))
    finally:
        connections.close_all()


def holders(row):
    return {
        each.id: each.leaving
        for each in snapshots.pool_snapshot_of(
            flavor=row.flavor, capacity_type="on-demand", now=clock.now()
        ).holders
    }


def test_a_request_that_comes_too_late_does_not_hit_the_next_admission_of_its_victim(victim):
    ask_while(victim, leaves)
    assert Preemption.objects.count() == 1, "the race that this is about"
    assert again(victim).admitted
    assert preemption.open_request(victim) is None
    assert holders(victim) == {str(victim.public_id): False}
    assert preemption.unmet() == []


def test_nor_does_it_keep_a_request_of_the_next_admission_from_being_made(victim):
    ask_while(victim, leaves)
    assert again(victim).admitted
    preemption.ask_to_leave(victims=[asked(victim)], preemptor=None, now=clock.now())
    request = preemption.open_request(victim)
    assert request is not None
    assert request.claim == Claim.objects.exclude(state="released").get()
    assert holders(victim) == {str(victim.public_id): True}
    assert preemption.unmet() == [victim]


def test_it_is_ended_by_the_sweep(victim):
    ask_while(victim, leaves)
    now = clock.now()
    evictions.end_stale(now=now)
    assert Preemption.objects.get().ended_at == now


def test_a_sweep_that_was_overtaken_does_not_end_it(victim):
    ask_while(victim, leaves)
    with overtaken("sweep"):
        evictions.end_stale(now=clock.now())
    assert Preemption.objects.get().ended_at is None


def test_the_sweep_wakes_all_who_were_asked_and_heard_nothing_of_it(team, user, flavor):  # noqa: F811
    make_quota(team, flavor, 8)
    rows = [submit(team, user, flavor, name, units=4) for name in ("one", "other")]
    look(rows[0])
    preemption.ask_to_leave(victims=[asked(row) for row in rows], preemptor=None, now=clock.now())
    Workload.objects.update(next_reconcile_at=None)
    tasks.sweep_due_workloads()
    assert Workload.objects.filter(next_reconcile_at__lte=clock.now()).count() == 2


def test_a_request_in_time_ends_with_the_claim_that_it_is_about(victim):
    assert preemption.open_request(victim) is None
    preemption.ask_to_leave(victims=[asked(victim)], preemptor=None, now=clock.now())
    preemption.ask_to_leave(victims=[asked(victim)], preemptor=None, now=clock.now())
    assert Preemption.objects.count() == 1
    leaves(victim)
    assert not Preemption.objects.filter(ended_at=None).exists()
