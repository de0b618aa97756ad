"""What the card of one that waits for money says that would start it, done as it says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from controller.admission import scheduler
from controller.services import change
from controller.waiting_card import card_of
from foundation import clock
from quotas.models import Pool
from teams.actors import Actor
from tests.controller.looks import look
from tests.costs.budget_world import USD, Purse
from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.submitted import make_endpoint, make_run
from tests.factories.workloads import put_in
from workloads.models import ResourceFlavor
from workloads.states import Phase, Reason

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_month")]


class Counter:
    """A purse of $1,000 of which $665 are promised, so that another run of ten minutes waits; spot costs half as much, and a
    T4 a tenth.
    """

    def __init__(self):
        self.purse = Purse(1_000)
        make_quota(self.purse.team, self.purse.flavor, 8, capacity_type="spot")
        spot = {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}}
        ResourceFlavor.objects.update(capacity={"on-demand": {}, "spot": spot})
        make_node("spot-0", **{"karpenter.sh/capacity-type": "spot"})
        make_price(capacity_type="spot", micro_usd=1_800 * USD)
        self.t4 = make_flavor("t4", product="Tesla-T4")
        make_node("t4-0", product="Tesla-T4")
        make_quota(self.purse.team, self.t4, 8)
        make_price("t4", micro_usd=360 * USD)
        look(self.purse.run(600, name="first"))
        self.run = self.submit()
        look(self.run)
        assert self.run.reason == Reason.WAITING_FOR_BUDGET

    def submit(self, **changes):
        fields = {"flavor": self.purse.flavor, "gpus_per_replica": 1, "time_limit_seconds": 600}
        return make_run(self.purse.team, self.purse.member, **fields | changes)

    def offers(self, workload=None):
        card = card_of(workload or self.run, named=frozenset(), now=clock.now())
        return {tuple(offer.change.items()): offer for offer in card.offers}


def limit(run, seconds):
    with transaction.atomic():
        change(
            workload=run,
            priority=None,
            time_limit_seconds=seconds,
            actor=Actor.of_user(run.owner),
            now=clock.now(),
        )


def passes():
    """Those over the pools that are due, as the sweep of every second makes them."""
    due = Pool.objects.filter(due_at__isnull=False)
    assert due
    for pool in due:
        scheduler.pass_over(pool, now=clock.now() + timedelta(seconds=1))


@pytest.fixture
def counter():
    return Counter()


def test_the_card_offers_less_time_a_cheaper_flavor_spot_and_more_money(counter):
    offers = counter.offers()
    assert set(offers) == {
        (("time_limit_seconds", 270),),
        (("ask_for_budget", 330 * USD),),
        (("flavor", "t4"),),
        (("capacity", "spot"),),
    }
    assert all(offer.lever.verdict.admitted for offer in offers.values())
    costs = {next(iter(offer.change)): offer.at_time_limit for offer in offers.values()}
    assert costs == {
        "time_limit_seconds": 270 * USD,
        "ask_for_budget": 600 * USD,
        "flavor": 60 * USD,
        "capacity": 300 * USD,
    }


def test_the_shorter_time_limit_starts_it_and_a_second_more_does_not(counter):
    limit(counter.run, 271)
    assert not look(counter.run).admitted
    limit(counter.run, 270)
    assert look(counter.run).admitted
    assert counter.purse.left == 0


@pytest.mark.parametrize(("cheaper", "granted"), [("t4", 66.5), ("spot", 332.5)])
def test_what_is_cheaper_starts_in_its_place(counter, cheaper, granted):
    change = {"flavor": counter.t4} if cheaper == "t4" else {"capacity": "spot"}
    run = counter.submit(**change)
    assert look(run).admitted
    assert counter.purse.granted(run) == granted


def test_what_a_manager_gives_on_top_starts_it_with_all_of_its_time(counter):
    counter.purse.on_top(330)
    passes()
    counter.run.refresh_from_db()
    assert counter.run.phase == Phase.ADMITTED
    assert (counter.purse.granted(counter.run), counter.purse.left) == (665, 0)


def test_an_endpoint_is_told_how_much_more_its_hour_needs(counter):
    put_in(counter.run, Phase.CANCELLED)
    endpoint = make_endpoint(
        counter.purse.team, counter.purse.member, flavor=counter.purse.flavor, gpus_per_replica=1
    )
    assert not look(endpoint).admitted
    offers = counter.offers(endpoint)
    assert offers[("ask_for_budget", (3_600 - 335) * USD),].lever.verdict.admitted
    counter.purse.on_top(3_600 - 335)
    passes()
    endpoint.refresh_from_db()
    assert endpoint.phase == Phase.ADMITTED


def test_nothing_of_money_is_offered_to_what_waits_for_something_else(counter):
    counter.purse.on_top(100_000)
    for _ in range(8):
        run = counter.submit(gpus_per_replica=8)
        look(run)
    assert run.phase == Phase.QUEUED
    assert run.reason != Reason.WAITING_FOR_BUDGET
    assert not any("ask_for_budget" in dict(change) for change in counter.offers(run))
