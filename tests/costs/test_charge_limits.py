"""A team never pays more than its budget has promised, nor gets back more than it paid, whatever turns out afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from random import Random

import pytest
from django.db import connections, transaction
from django.db.models import Sum

from budgets.reservations import Promise, close, promise
from budgets.services import delete_budget
from budgets.spending import costing, costs_so_far
from budgets.standings import standing
from costs.ledger import check, lost_work
from costs.ledger.disputes import reverse
from costs.ledger.services import record_usage, record_usages, settle_due
from costs.models import Budget, BudgetReservation, LedgerEntry, LostWork, PricedCard
from foundation import clock
from tests.costs.budget_world import USD, Purse, next_month
from tests.effort import seeds
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.waiting import result_of, until_blocked
from workloads.models import Attempt, PodRecord, ResourceFlavor, Workload
from workloads.states import Phase

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("within_month")]

numbers = count(1)


class Promised(Purse):
    """A run of one card at a dollar a second that was promised so many dollars; its times are seconds from `began` on."""

    def __init__(self, usd=100, *, began=None):
        super().__init__(100_000)
        self.began = began or clock.now().replace(microsecond=0) - timedelta(hours=1)
        self.work = self.run()
        self.pods = []
        self.admit(usd)

    def at(self, seconds):
        return self.began + timedelta(seconds=seconds)

    def admit(self, usd):
        with transaction.atomic():
            promise([Promise(self.work.pk, self.team.pk, USD, usd * USD)], now=clock.now())
        Workload.objects.filter(pk=self.work.pk).update(phase=Phase.ADMITTED.value)
        self.work.refresh_from_db()

    def pod(self, start, end=None):
        name = f"limited-{next(numbers)}"
        pod = PodRecord.objects.create(
            uid=name, namespace="ns", name=name, workload=self.work, attempt=1, units=1, resource_version="1",
            created_at=self.at(start), scheduled_at=self.at(start), node_name="n0",
        )  # fmt: skip
        self.pods.append(pod)
        return self.end(pod, end)

    def end(self, pod, end, *, heard=3000):
        pod.finished_at = None if end is None else self.at(end)
        pod.save()
        record_usage(pod, now=self.at(heard))
        return pod

    def leave(self, now=3000):
        Workload.objects.filter(pk=self.work.pk).update(phase=Phase.SUSPENDED.value)
        with transaction.atomic():
            close(self.work, now=self.at(now))

    def dispute(self, pod, now=3100):
        line = LedgerEntry.objects.get(pod_uid=pod.uid, account__startswith="team:", reverses=None)
        reverse(line, reason="a fault", actor=SETUP, now=self.at(now))

    def lose(self, start, end, now=3100):
        attempt = Attempt.objects.create(
            workload=self.work, number=1, object_name="x", phase="Failed", reason="Preempted",
            lost_seconds=end - start, created_at=self.at(start), started_at=self.at(start), ended_at=self.at(end),
        )  # fmt: skip
        lost_work.note(attempt)
        lost_work.credit_due(now=self.at(now))

    @property
    def paid(self):
        return self.sum_of("team:")

    @staticmethod
    def sum_of(prefix):
        rows = LedgerEntry.objects.filter(account__startswith=prefix)
        return (rows.aggregate(sum=Sum("amount_micro_usd"))["sum"] or 0) / USD


def right():
    return check.check_all(now=clock.now()) == []


def test_what_a_person_takes_back_of_a_run_with_an_excess_is_given_back_once():
    world = Promised(100)
    pod = world.pod(0, 300)
    world.leave()
    assert (world.paid, world.sum_of("platform:")) == (100, 200)
    world.dispute(pod)
    assert (world.paid, world.sum_of("platform:")) == (0, 300)
    assert standing(world.budget, now=clock.now()).spent == 0
    assert right()


def test_of_what_is_left_after_a_dispute_the_excess_is_taken_anew():
    world = Promised(100)
    pods = [world.pod(0, 300), world.pod(300, 450)]
    world.leave()
    assert world.paid == 100
    world.dispute(pods[0])
    assert (world.paid, world.sum_of("platform:")) == (100, 350)
    world.dispute(pods[1])
    assert (world.paid, world.sum_of("platform:")) == (0, 450)
    assert right()


@pytest.mark.parametrize(
    ("promised", "end", "paid"), [(100, 60, 60), (100, 200, 100), (100, 500, 100), (350, 400, 350)]
)
def test_an_end_that_is_corrected_after_the_run_has_left_moves_the_excess_with_it(promised, end, paid):
    world = Promised(promised)
    pod = world.pod(0, 300)
    world.leave()
    world.end(pod, end)
    assert (world.paid, world.sum_of("platform:")) == (paid, end - paid)
    assert right()


def test_an_excess_that_is_counted_again_is_reversed_and_nothing_is_changed():
    world = Promised(100)
    pod = world.pod(0, 300)
    world.leave()
    before = list(LedgerEntry.objects.values().order_by("id"))
    world.end(pod, 250)
    rows = LedgerEntry.objects.filter(price=None, account__startswith="team:").order_by("id")
    assert [row.amount_micro_usd // USD for row in rows] == [-200, 200, -150]
    assert rows[1].reverses == rows[0]
    assert list(LedgerEntry.objects.values().order_by("id")[: len(before)]) == before


def test_work_that_was_lost_is_not_credited_on_top_of_its_excess():
    world = Promised(100)
    world.pod(0, 300)
    world.leave()
    world.lose(0, 300)
    assert (world.paid, world.sum_of("lost:"), world.sum_of("platform:")) == (0, 300, 0)
    assert LostWork.objects.get().credited_micro_usd == 300 * USD
    assert right()


def test_a_limit_outlasts_its_budget():
    world = Promised(100)
    pod = world.pod(0, 300)
    world.leave()
    delete_budget(budget=world.budget, actor=SETUP, now=clock.now())
    world.dispute(pod)
    assert world.paid == 0


def test_what_runs_again_is_not_limited_by_the_promise_before_nor_is_its_own_used_by_it():
    world = Promised(100)
    first = world.pod(0, 300)
    world.leave(now=310)
    world.admit(500)
    base = BudgetReservation.objects.get(closed_at=None).base_micro_usd
    assert base == 100 * USD
    world.pod(400, 450)
    assert world.paid == 150
    # The first one had ended before, and its team pays less than was promised: nothing of the second promise is free by it.
    world.end(first, 60)
    assert world.paid == 60 + 50
    row = BudgetReservation.objects.get(closed_at=None)
    so_far = costs_so_far([world.work], now=world.at(3000), price_book=costing().book)[world.work.pk]
    assert so_far - row.base_micro_usd == 50 * USD
    world.end(first, 700)
    assert world.paid == 100 + 50
    world.leave()
    assert world.paid == 100 + 50
    assert right()


def test_what_has_come_up_when_the_period_ends_and_is_posted_later_is_limited_too():
    begins = next_month(clock.now())
    world = Promised(100, began=begins - timedelta(seconds=300))
    pod = world.pod(0)
    world.look(world.at(310))
    assert world.paid == 0, "nothing of it is posted, so there is nothing to give back"
    old = BudgetReservation.objects.exclude(closed_at=None).get()
    assert (old.used_micro_usd, old.closed_at) == (100 * USD, begins)
    new = BudgetReservation.objects.get(closed_at=None)
    assert new.base_micro_usd == 310 * USD
    settle_due(now=world.at(4000))
    assert world.paid == 4000 - 200
    new.refresh_from_db()
    so_far = costs_so_far([world.work], now=world.at(4000), price_book=costing().book)[world.work.pk]
    assert so_far - new.base_micro_usd == (4000 - 310) * USD
    # It had ended in the month before.
    world.end(pod, 150, heard=5000)
    assert world.paid == 100
    world.end(pod, 80, heard=5000)
    assert world.paid == 80


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=6, soak=300))
def test_in_any_order_a_team_pays_the_less_of_its_promise_and_its_charges(seed):
    random = Random(seed)
    world = Promised(promised := random.randrange(50, 900))
    ends, forgiven, left = {}, {}, False
    for step in range(25):
        action = random.randrange(6)
        if action == 0 and not left:
            start = random.randrange(1000)
            end = start + random.randrange(1, 400)
            ends[world.pod(start, end).uid] = [start, end]
        elif action == 1 and not left and ends:
            world.leave()
            left = True
        elif action in {2, 3} and ends:
            pod = random.choice(world.pods)
            ends[pod.uid][1] = ends[pod.uid][0] + random.randrange(0, 500)
            world.end(pod, ends[pod.uid][1])
        elif action == 4:
            standing_lines = LedgerEntry.objects.filter(
                account__startswith="team:", reverses=None, pod_uid__in=ends
            )
            for line in [row for row in standing_lines if still_pays(world, row, ends, forgiven)][:1]:
                reverse(line, reason="a fault", actor=SETUP, now=world.at(3100 + step))
                forgiven.setdefault(line.pod_uid, []).append((line.started_at, line.ended_at))
        elif action == 5 and left and Budget.objects.exists():
            delete_budget(budget=world.budget, actor=SETUP, now=clock.now())
        owed = sum(seconds_owed(world, uid, *times, forgiven.get(uid, ())) for uid, times in ends.items())
        held = sum(end - start for start, end in ends.values())
        assert world.paid == (min(promised, owed) if left else owed), (seed, step)
        assert world.sum_of("supply:") == -held
    assert right()


def still_pays(world, line, ends, forgiven):
    """Whether the team pays for something of this posting."""
    _, end = ends[line.pod_uid]
    return line.started_at < world.at(end) and (line.started_at, line.ended_at) not in forgiven.get(
        line.pod_uid, ()
    )


def seconds_owed(world, uid, start, end, forgiven):
    seconds = {world.at(second) for second in range(start, end)}
    return len({each for each in seconds if not any(first <= each < last for first, last in forgiven)})


@pytest.mark.django_db(transaction=True)
def test_ends_of_two_cards_and_the_end_of_a_period_do_not_wait_for_each_other_in_a_circle():
    """Who ends pods of two cards meets who gives back the excess of their runs, in the order of their promises."""
    begins = next_month(clock.now())
    world = Promised(100, began=begins - timedelta(seconds=600))
    make_flavor("zz")
    make_price("zz")
    # The run that was promised first is of the card that comes last.
    Workload.objects.filter(pk=world.work.pk).update(flavor=ResourceFlavor.objects.get(name="zz"))
    world.work.refresh_from_db()
    last, world.work = world.work, world.run()
    world.admit(100)
    pods = []
    for run in (world.work, last):
        world.work = run
        world.pod(0, 300)
        pods.append(world.pod(300))
    for pod in pods:
        pod.finished_at = world.at(500)
    with ThreadPoolExecutor(2) as threads:
        with transaction.atomic():
            PricedCard.objects.select_for_update().get(card="zz")
            ending = threads.submit(alone, lambda: record_usages(pods, now=world.at(610)))
            until_blocked(unless=ending)
            turn = threads.submit(alone, lambda: world.look(world.at(620)))
            until_blocked(2, unless=turn)
        result_of(ending)
        result_of(turn)
    assert world.paid == 200
    assert BudgetReservation.objects.exclude(closed_at=None).count() == 2


def alone(work):
    """In a thread, which has a connection of its own."""
    try:
        return work()
    finally:
        connections.close_all()
