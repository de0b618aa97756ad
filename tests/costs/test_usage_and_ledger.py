"""From pods to lines of the ledger, on the database that keeps them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count

import pytest
from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from costs.ledger import check
from costs.ledger.disputes import reverse
from costs.ledger.postings import ENDED_BEFORE, STILL_THERE, postings_of
from costs.ledger.services import (
    SETTLE_BATCH_MAX,
    record_usage,
    record_usages,
    settle,
    settle_due,
)
from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.prices.services import set_price
from costs.queries import cost_lines, cost_of, costs_of
from costs.reports.queries import ledger_difference
from foundation.errors import Conflict, Invalid
from teams.models import AuditEvent
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.leases import overtaken
from tests.factories.workloads import make_workload
from tests.waiting import result_of, until_blocked
from workloads.models import PodRecord

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
USD = 1_000_000
numbers = count(1)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


class House:
    """One run of a priced flavor: one USD a card and second."""

    def __init__(self, *, priced=True, fraction=Fraction(1)):
        self.flavor = make_flavor(fraction=fraction)
        self.run = make_workload(flavor=self.flavor, units=2)
        if priced:
            make_price()

    def pod(self, start=0, *, units=2, workload=None, **times):
        number = next(numbers)
        return PodRecord.objects.create(
            uid=f"uid-{number}", namespace="ns", name=f"pod-{number}", workload=workload or self.run, attempt=1,
            resource_version="1", created_at=at(start), scheduled_at=at(start), units=units, node_name="a100-0",
            **times,
        )  # fmt: skip

    def ended(self, start, end, **values):
        pod = self.pod(start, finished_at=at(end), **values)
        return record_usage(pod, now=at(end))

    def charged(self, run=None):
        entries = LedgerEntry.objects.filter(workload=run or self.run, account__startswith="team:")
        return sum(entry.amount_micro_usd for entry in entries)


@pytest.fixture
def house():
    return House()


def change_price(usd_per_second, seconds, capacity_type="on-demand"):
    return set_price(
        card="a100-40gb",
        capacity_type=capacity_type,
        micro_usd_per_card_hour=usd_per_second * 3600 * USD,
        valid_from=at(seconds),
        reason="test",
        actor=SETUP,
        now=at(0),
    )


# --- usage


@pytest.mark.parametrize("harm", [{"units": 0}, {"scheduled_at": None}], ids=["no GPU", "on no node"])
def test_a_pod_that_holds_no_gpu_costs_nothing(house, harm):
    pod = house.pod()
    for field, value in harm.items():
        setattr(pod, field, value)
    assert record_usage(pod, now=at(5)) is None
    assert not UsageInterval.objects.exists()


def test_a_pod_is_charged_from_its_place_on_a_node_to_its_end(house):
    usage = house.ended(10, 70)
    assert house.charged() == 2 * 60 * USD
    usage.refresh_from_db()
    assert (usage.started_at, usage.ended_at, usage.settled_until) == (at(10), at(70), at(70))
    assert ledger_difference() == 0


def test_hearing_the_same_twice_or_late_changes_nothing(house):
    pod = house.pod()
    record_usage(pod, now=at(1))
    pod.finished_at = at(30)
    first = record_usage(pod, now=at(31))
    entries = set(LedgerEntry.objects.values_list("pk", flat=True))
    record_usage(pod, now=at(40))
    pod.gone_at = at(50)
    record_usage(pod, now=at(50))
    assert UsageInterval.objects.get() == first
    assert set(LedgerEntry.objects.values_list("pk", flat=True)) == entries
    assert house.charged() == 60 * USD


@pytest.mark.parametrize(
    ("times", "end"),
    [
        ({"finished_at": 40, "deletion_at": 30, "gone_at": 60}, 40),
        ({"deletion_at": 30, "gone_at": 60}, 30),
        ({"deletion_at": 90, "gone_at": 60}, 60),
        ({"gone_at": 60}, 60),
        ({"deletion_at": 30}, None),
    ],
)
def test_the_end_is_the_apis_own_and_for_a_vanished_pod_the_earliest_that_is_certain(house, times, end):
    usage = record_usage(house.pod(**{name: at(value) for name, value in times.items()}), now=at(100))
    assert usage.ended_at == (None if end is None else at(end))
    assert house.charged() == (0 if end is None else 2 * end * USD)


def test_an_end_before_the_start_costs_nothing_and_is_no_error(house):
    usage = house.ended(50, 40)
    assert usage.ended_at == at(50)
    assert house.charged() == 0


def test_fractions_of_a_second_are_not_charged(house):
    pod = house.pod(gone_at=at(10) + timedelta(microseconds=900_000))
    record_usage(pod, now=at(11))
    assert house.charged() == 20 * USD


def test_an_end_that_is_heard_of_after_an_hourly_settlement_takes_the_excess_back(house):
    """The watcher was away while the pod ended; the settlement believed that it ran on."""
    pod = house.pod()
    record_usage(pod, now=at(1))
    assert settle_due(now=at(3700)) == 1
    assert house.charged() == 2 * 3700 * USD
    pod.finished_at = at(3600)
    record_usage(pod, now=at(3800))
    record_usage(pod, now=at(3900))
    assert house.charged() == 2 * 3600 * USD
    assert cost_of(house.run, now=at(4000)).so_far == 2 * 3600 * USD
    assert ledger_difference() == 0
    assert UsageInterval.objects.get().ended_at == at(3600)


def test_an_excess_over_a_price_change_is_taken_back_at_both_prices(house):
    pod = house.pod()
    record_usage(pod, now=at(1))
    change_price(3, 3650)
    settle_due(now=at(3700))
    pod.finished_at = at(3600)
    record_usage(pod, now=at(3800))
    assert house.charged() == 2 * 3600 * USD
    assert ledger_difference() == 0


@pytest.mark.parametrize("settled", [0, 7300])
@pytest.mark.parametrize("missed", [30, 3600, 7200])
@pytest.mark.parametrize("end", [20, 3600, 9000])
def test_a_pod_that_was_wrongly_taken_for_gone_is_charged_for_all_its_seconds_and_no_more(
    settled, missed, end
):
    """However much was posted before and taken back then: no second is lost, none is charged twice."""
    house = House(priced=False, fraction=Fraction(1, 7))
    make_price(micro_usd=3_427_001)
    pod = house.pod(units=1)
    record_usage(pod, now=at(1))
    for hour in range(3600, settled + 1, 3600):
        settle_due(now=at(hour))
    pod.gone_at = at(missed)
    usage = record_usage(pod, now=at(missed))
    assert usage.ended_at == at(missed)
    pod.gone_at = None
    usage = record_usage(pod, now=at(8000))
    assert usage.ended_at is None
    settle(usage, now=at(8000))
    pod.finished_at = at(end)
    record_usage(pod, now=at(9100))
    record_usage(pod, now=at(9200))
    usage.refresh_from_db()
    assert (usage.ended_at, usage.settled_until) == (at(end), at(end))
    exact = Fraction(3_427_001 * end, 7 * 3600)
    assert house.charged() + PricedCard.objects.get().carry == exact
    assert ledger_difference() == 0
    assert cost_of(house.run, now=at(9999)).so_far == house.charged()


def test_an_end_that_turns_out_to_be_earlier_or_later_is_corrected_by_entries_and_none_is_changed(house):
    pod = house.pod(gone_at=at(100))
    record_usage(pod, now=at(100))
    kept = list(LedgerEntry.objects.values().order_by("id"))
    pod.finished_at = at(60)
    record_usage(pod, now=at(110))
    assert house.charged() == 2 * 60 * USD
    pod.finished_at, pod.gone_at = None, at(300)
    record_usage(pod, now=at(310))
    assert house.charged() == 2 * 300 * USD
    assert list(LedgerEntry.objects.values().order_by("id")[: len(kept)]) == kept
    assert {entry.reason for entry in LedgerEntry.objects.all()} == {
        "", "The pod had ended before.", "The pod was still there."
    }  # fmt: skip


def test_what_a_person_has_reversed_is_not_charged_again_by_a_pod_that_comes_back(house):
    pod = house.pod(gone_at=at(100))
    record_usage(pod, now=at(100))
    reverse(LedgerEntry.objects.first(), reason="a gift", actor=SETUP, now=at(110))
    pod.gone_at = None
    record_usage(pod, now=at(120))
    pod.finished_at = at(150)
    record_usage(pod, now=at(160))
    assert house.charged() == 2 * 50 * USD


@pytest.mark.parametrize("reason", [ENDED_BEFORE, STILL_THERE])
def test_a_persons_reason_is_none_of_the_ledgers_own(house, reason):
    house.ended(0, 10)
    with pytest.raises(Invalid) as refused:
        reverse(LedgerEntry.objects.first(), reason=f" {reason}", actor=SETUP, now=at(20))
    assert [each.field for each in refused.value.errors] == ["reason"]
    assert house.charged() == 20 * USD


def test_many_pods_take_as_many_queries_as_one(house):
    numbers = []
    for many in (1, 30):
        pods = [house.pod() for _ in range(many)]
        with CaptureQueriesContext(connection) as opening:
            record_usages(pods, now=at(1))
        for pod in pods:
            pod.finished_at = at(30)
        with CaptureQueriesContext(connection) as closing:
            record_usages(pods, now=at(31))
        with CaptureQueriesContext(connection) as nothing:
            record_usages(pods, now=at(32))
        numbers.append([len(each) for each in (opening, closing, nothing)])
    assert numbers[0] == numbers[1]
    assert house.charged() == 31 * 60 * USD


# --- settling


def test_settling_closes_what_is_still_open_of_a_pod_that_has_ended(house):
    """As a process left it that was killed between the row and its usage: nothing else would ever close it."""
    pod = house.pod()
    record_usage(pod, now=at(0))
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=at(300))
    assert settle_due(now=at(104_400)) == 0
    assert house.charged() == 2 * 300 * USD
    usage = UsageInterval.objects.get()
    assert (usage.ended_at, usage.settled_until) == (at(300), at(300))


def test_a_settling_that_was_overtaken_closes_nothing_any_more(house):
    pod = house.pod()
    record_usage(pod, now=at(0))
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=at(300))
    with overtaken("settle"):
        settle_due(now=at(3000))
    assert (UsageInterval.objects.get().ended_at, house.charged()) == (None, 0)


def test_settling_takes_back_what_was_charged_of_a_pod_that_had_ended_long_before(house):
    pod = house.pod()
    usage = record_usage(pod, now=at(0))
    settle(usage, now=at(104_400))
    PodRecord.objects.filter(pk=pod.pk).update(finished_at=at(300))
    settle_due(now=at(104_401))
    assert house.charged() == 2 * 300 * USD
    assert ledger_difference() == 0


def test_an_open_interval_is_posted_by_the_hour(house):
    record_usage(house.pod(), now=at(0))
    assert settle_due(now=at(3599)) == 0
    assert settle_due(now=at(3600)) == 1
    assert settle_due(now=at(3601)) == 0
    assert house.charged() == 7200 * USD


def test_a_price_change_splits_the_interval(house):
    change_price(3, 60)
    house.ended(0, 100)
    parts = LedgerEntry.objects.filter(account__startswith="team:")
    assert [(row.started_at, row.ended_at, row.amount_micro_usd) for row in parts] == [
        (at(0), at(60), 120 * USD),
        (at(60), at(100), 240 * USD),
    ]
    assert len({row.price_id for row in parts}) == 2
    assert ledger_difference() == 0


def test_spot_has_its_own_price():
    house = House(priced=False)
    make_price()
    make_price(micro_usd=36_000_000, capacity_type="spot")
    spot = make_workload(flavor=house.flavor, capacity_type="spot", units=1)
    house.ended(0, 100, workload=spot, units=1)
    assert house.charged(spot) == USD


def test_without_a_price_the_cost_is_unknown_and_comes_with_the_price():
    house = House(priced=False)
    house.ended(0, 100)
    cost = cost_of(house.run, now=at(200))
    assert (cost.so_far, cost.rate_per_hour, cost.reason) == (None, None, "no price")
    assert settle_due(now=at(200)) == 0
    make_price()
    assert settle_due(now=at(200)) == 1
    assert cost_of(house.run, now=at(200)).so_far == 200 * USD


@pytest.mark.parametrize("settled", [False, True])
def test_what_runs_when_its_card_gets_its_first_price_is_charged_from_then_on(settled):
    house = House(priced=False)
    pod = house.pod()
    record_usage(pod, now=at(0))
    assert settle_due(now=at(4000)) == 0
    assert cost_of(house.run, now=at(4000)).so_far is None
    change_price(1, 5000)
    assert settle_due(now=at(4500)) == 0
    assert cost_of(house.run, now=at(5010)).so_far == 2 * 10 * USD
    if settled:
        assert settle_due(now=at(5100)) == 1
        assert house.charged() == 2 * 100 * USD
    pod.finished_at = at(6000)
    record_usage(pod, now=at(6000))
    assert house.charged() == cost_of(house.run, now=at(9000)).so_far == 2 * 1000 * USD
    assert {row.started_at for row in LedgerEntry.objects.all()} >= {at(5000)}
    usage = UsageInterval.objects.get()
    assert (usage.started_at, usage.settled_until) == (at(0), at(6000))
    assert check.check_all(now=at(99_999)) == []


def test_what_ended_before_the_first_price_waits_for_a_price_of_its_time():
    house = House(priced=False)
    house.ended(0, 100)
    change_price(1, 100)
    assert settle_due(now=at(9000)) == 0
    assert cost_of(house.run, now=at(9000)).so_far is None
    change_price(2, -50)
    assert settle_due(now=at(9000)) == 1
    assert house.charged() == 2 * 2 * 100 * USD


def test_what_came_before_the_first_price_gets_none_when_what_came_after_it_is_in_the_ledger():
    house = House(priced=False)
    change_price(1, 50)
    house.ended(0, 100)
    assert house.charged() == 2 * 50 * USD
    with pytest.raises(Conflict) as refused:
        change_price(2, -50)
    assert refused.value.errors[0].code == "already_billed"
    assert check.check_all(now=at(99_999)) == []


def test_an_end_that_moves_before_the_first_price_takes_all_back_and_one_that_moves_on_charges_it_again():
    house = House(priced=False)
    change_price(1, 50)
    pod = house.pod(gone_at=at(100))
    record_usage(pod, now=at(100))
    pod.gone_at = at(40)
    pod.save()
    record_usage(pod, now=at(110))
    assert house.charged() == 0
    assert check.check_all(now=at(99_999)) == []
    pod.gone_at = at(200)
    pod.save()
    record_usage(pod, now=at(300))
    assert house.charged() == 2 * 150 * USD
    assert check.check_all(now=at(99_999)) == []


def test_usage_that_should_be_in_the_ledger_and_is_not_is_found(house):
    """What is used is posted by the hour; a check that believed what is posted would find no charge missing."""
    Price.objects.update(created_at=at(0))
    pod = house.pod()
    record_usage(pod, now=at(0))
    assert check.check_all(now=at(7100)) == []
    (fault,) = check.check_all(now=at(8200))
    assert (fault.about, fault.key, fault.difference_micro_usd) == ("pod", pod.uid, -2 * 1000 * USD)
    settle_due(now=at(8200))
    assert check.check_all(now=at(8300)) == []


def test_usage_whose_price_was_set_just_now_is_not_missing_yet():
    house = House(priced=False)
    pod = house.pod()
    record_usage(pod, now=at(0))
    make_price()
    Price.objects.update(created_at=at(90_000))
    assert check.check_all(now=at(90_010)) == []
    assert check.check_all(now=at(99_999)) != []


def test_what_has_no_price_does_not_keep_others_from_being_settled():
    house = House(priced=False)
    rows = [
        UsageInterval(
            workload=house.run, team=house.run.team, pod_uid=f"free-{index}", flavor_name="x", card="unpriced",
            capacity_type="on-demand", units=1, fraction_numerator=1, fraction_denominator=1,
            started_at=at(0), ended_at=at(10), settled_until=at(0),
        )
        for index in range(SETTLE_BATCH_MAX + 1)
    ]  # fmt: skip
    UsageInterval.objects.bulk_create(rows)
    make_price()
    record_usage(house.pod(), now=at(0))
    assert settle_due(now=at(3600)) == 1
    assert house.charged() == 7200 * USD


def test_lines_add_up_to_the_exact_cost_of_sevenths():
    house = House(priced=False, fraction=Fraction(1, 7))
    make_price(micro_usd=3_427_000)
    for index in range(50):
        house.ended(index, index + 1, units=1)
    exact = 50 * Fraction(3_427_000, 7 * 3600)
    assert house.charged() + PricedCard.objects.get().carry == exact
    assert house.charged() == exact.numerator // exact.denominator


def test_recomputing_from_the_pods_gives_the_same_lines(house):
    change_price(3, 45)
    for start, end in ((0, 30), (10, 80), (50, 60)):
        house.ended(start, end)

    def told():
        fields = ("account", "pod_uid", "started_at", "ended_at", "price", "units", "amount_micro_usd")
        return sorted(LedgerEntry.objects.filter(posted_at__gte=T0).values_list(*fields))

    before = told()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("DELETE FROM costs_ledgerentry")
            cursor.execute("DELETE FROM costs_usageinterval")
            cursor.execute("UPDATE costs_pricedcard SET carry_numerator = 0, carry_denominator = 1")
            cursor.execute("SET LOCAL session_replication_role = origin")
        for pod in PodRecord.objects.order_by("-pk"):
            record_usage(pod, now=at(500))
        assert told() == before


# --- concurrency


def in_threads(number, work):
    start = threading.Barrier(number)

    def one(index):
        start.wait(30)
        try:
            return work(index)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(number) as pool:
        return [result_of(each) for each in [pool.submit(one, index) for index in range(number)]]


def alone(work):
    """In a thread, which has a connection of its own."""
    try:
        return work()
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_settling_at_once_posts_once(house):
    usage = record_usage(house.pod(), now=at(0))
    posted = in_threads(6, lambda _: len(settle(usage, now=at(100))))
    assert sorted(posted) == [0, 0, 0, 0, 0, 2]
    assert house.charged() == 200 * USD


@pytest.mark.django_db(transaction=True)
def test_the_same_pod_recorded_at_once_is_one_interval_and_one_posting(house):
    pod = house.pod(finished_at=at(10))
    in_threads(6, lambda _: record_usage(pod, now=at(11)))
    assert UsageInterval.objects.count() == 1
    assert house.charged() == 20 * USD


@pytest.mark.django_db(transaction=True)
def test_closing_and_settling_do_not_wait_for_each_other_in_a_circle(house):
    """Both take the card's row first: whoever closes an interval must not hold it while waiting for the card."""
    pod = house.pod()
    usage = record_usage(pod, now=at(0))
    pod.finished_at = at(50)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            PricedCard.objects.select_for_update().get()
            closing = pool.submit(alone, lambda: record_usage(pod, now=at(60)))
            until_blocked(unless=closing)
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
            UsageInterval.objects.select_for_update().get(pk=usage.pk)
        result_of(closing)
    assert house.charged() == 100 * USD


@pytest.mark.django_db(transaction=True)
def test_of_what_is_being_taken_back_of_a_posting_a_person_reverses_the_rest_after_that(house):
    pod = house.pod()
    settle(record_usage(pod, now=at(0)), now=at(100))
    entry, pod.finished_at = LedgerEntry.objects.first(), at(40)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            record_usage(pod, now=at(110))
            reversal = pool.submit(alone, lambda: reverse(entry, reason="a gift", actor=SETUP, now=at(120)))
            until_blocked(unless=reversal)
        team, platform = result_of(reversal)
    assert (team.amount_micro_usd, platform.amount_micro_usd) == (-80 * USD, 80 * USD)
    assert (team.started_at, team.ended_at) == (at(0), at(40))
    assert house.charged() == 0


# --- what the database refuses


def test_the_ledger_is_append_only(house):
    house.ended(0, 10)
    for harm in (
        lambda: LedgerEntry.objects.update(amount_micro_usd=0),
        lambda: LedgerEntry.objects.all().delete(),
        lambda: LedgerEntry.objects.all()._raw_delete("default"),
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            harm()


@pytest.mark.django_db(transaction=True)
def test_a_posting_whose_sides_do_not_add_up_is_refused_at_commit(house):
    house.ended(0, 10)
    entry = LedgerEntry.objects.first()
    entry.pk, entry.pod_uid = None, ""
    with pytest.raises(DatabaseError, match="do not add up"), transaction.atomic():
        entry.save(force_insert=True)


def test_a_second_is_charged_once_to_each_account(house):
    house.ended(0, 10)
    entry = LedgerEntry.objects.first()
    entry.pk = None
    with pytest.raises(IntegrityError, match="ledger_each_second_once"), transaction.atomic():
        entry.save(force_insert=True)


@pytest.mark.parametrize(("start", "until"), [(-10, None), (5, 8), (5, None), (-10, 1), (9, 20)])
def test_overlapping_prices_are_refused_by_the_database(start, until):
    priced = PricedCard.objects.create(card="x", capacity_type="on-demand")
    other = PricedCard.objects.create(card="x", capacity_type="spot")
    facts = {"micro_usd_per_card_hour": 1, "actor": "x", "created_at": T0}
    Price.objects.create(priced=priced, valid_from=at(0), valid_until=at(10), **facts)
    values = {"valid_from": at(start), "valid_until": None if until is None else at(until), **facts}
    with pytest.raises(IntegrityError, match="price_no_overlap"), transaction.atomic():
        Price.objects.create(priced=priced, **values)
    Price.objects.create(priced=other, **values)
    Price.objects.create(priced=priced, valid_from=at(10), valid_until=None, **facts)


@pytest.mark.parametrize(
    ("constraint", "harm"),
    [
        ("price_not_negative", lambda: Price.objects.update(micro_usd_per_card_hour=-1)),
        (
            "price_interval_not_empty",
            lambda: Price.objects.update(valid_until=datetime(2026, 1, 1, tzinfo=UTC)),
        ),
        (
            "priced_card_unique",
            lambda: PricedCard.objects.create(card="a100-40gb", capacity_type="on-demand"),
        ),
        ("usage_not_negative|usage_settled_within", lambda: UsageInterval.objects.update(ended_at=at(-1))),
        ("usage_settled_within", lambda: UsageInterval.objects.update(settled_until=at(11))),
        ("usage_settled_within", lambda: UsageInterval.objects.update(settled_until=at(-1))),
    ],
)
def test_each_rule_is_kept_by_the_database_itself(house, constraint, harm):
    house.ended(0, 10)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        harm()


# --- prices


def test_a_price_cannot_be_put_before_a_later_one_or_under_what_is_billed(house):
    change_price(2, 1000)
    with pytest.raises(Conflict) as refused:
        change_price(3, 500)
    assert refused.value.errors[0].code == "not_latest"
    house.ended(0, 3000)
    with pytest.raises(Conflict) as refused:
        change_price(3, 2000)
    assert refused.value.errors[0].code == "already_billed"
    change_price(3, 3000)
    assert house.charged() == (1000 * 2 + 2000 * 4) * USD


def test_the_same_price_again_is_the_same_row(house):
    assert change_price(2, 1000) == change_price(2, 1000)
    assert Price.objects.count() == 2


def test_a_negative_price_is_refused_by_name():
    with pytest.raises(Invalid) as refused:
        make_price(micro_usd=-1)
    assert refused.value.errors[0].field == "micro_usd_per_card_hour"


# --- corrections


def test_a_reversal_takes_a_posting_back_once(house):
    house.ended(0, 10)
    entry = LedgerEntry.objects.first()
    sides = reverse(entry, reason="wrong", actor=SETUP, now=at(20))
    assert sorted(side.amount_micro_usd for side in sides) == [-20 * USD, 20 * USD]
    assert {side.reason for side in sides} == {"wrong"}
    assert house.charged() == 0
    assert ledger_difference() == 0
    with pytest.raises(Conflict):
        reverse(entry, reason="again", actor=SETUP, now=at(30))
    (audited,) = AuditEvent.objects.filter(action="ledger.reversed", target_id=str(entry.transaction_id))
    assert (audited.team_slug, audited.reason, audited.actor_label) == (entry.team.slug, "wrong", SETUP.label)
    assert audited.after == {"transaction_id": str(sides[0].transaction_id)}
    assert cost_of(house.run, now=at(40)).so_far == 0


def test_what_the_ledger_took_back_itself_is_not_taken_back_again(house):
    pod = house.pod()
    settle(record_usage(pod, now=at(0)), now=at(100))
    pod.finished_at = at(0)
    record_usage(pod, now=at(110))
    assert house.charged() == 0
    posted = LedgerEntry.objects.filter(reverses=None).first()
    with pytest.raises(Conflict) as refused:
        reverse(posted, reason="wrong", actor=SETUP, now=at(120))
    assert refused.value.code == "already_taken_back"
    assert (house.charged(), ledger_difference()) == (0, 0)


def test_a_correction_whose_posting_is_not_given_is_no_posting(house):
    house.ended(0, 10)
    posted = LedgerEntry.objects.first()
    reverse(posted, reason="wrong", actor=SETUP, now=at(20))
    corrections = LedgerEntry.objects.filter(reverses__isnull=False).order_by("id")
    assert corrections.exists()
    assert postings_of(corrections) == []
    (posting,) = postings_of(LedgerEntry.objects.order_by("id"))
    assert posting.first.transaction_id == posted.transaction_id


# --- what is shown


def test_the_cost_ticks_while_it_runs_and_is_the_ledgers_in_the_end(house):
    pod = house.pod()
    record_usage(pod, now=at(0))
    shown = [cost_of(house.run, now=at(seconds)).so_far for seconds in (0, 1, 59, 60)]
    assert shown == [0, 2 * USD, 118 * USD, 120 * USD]
    settle_due(now=at(3600))
    assert cost_of(house.run, now=at(3601)).so_far == 2 * 3601 * USD
    pod.finished_at = at(4000)
    record_usage(pod, now=at(4001))
    for seconds in (4000, 9999):
        assert cost_of(house.run, now=at(seconds)).so_far == 8000 * USD == house.charged()
    (line,) = cost_lines(house.run, now=at(9999)).lines
    assert line.settled


def test_rate_and_limit_come_from_the_price_of_now(house):
    house.run.time_limit_seconds = 7200
    cost = cost_of(house.run, now=at(0))
    assert (cost.so_far, cost.rate_per_hour, cost.at_time_limit) == (0, 7200 * USD, 14_400 * USD)
    change_price(2, 10)
    assert cost_of(house.run, now=at(10)).rate_per_hour == 14_400 * USD


def test_what_it_costs_now_is_of_the_pods_that_run_and_not_of_all_that_may(house):
    house.run.units = 8
    assert cost_of(house.run, now=at(0)).current_rate_per_hour == 0
    first, second = house.pod(0), house.pod(0)
    for pod in (first, second):
        record_usage(pod, now=at(1))
    cost = cost_of(house.run, now=at(10))
    assert (cost.rate_per_hour, cost.current_rate_per_hour) == (8 * 3600 * USD, 4 * 3600 * USD)
    second.finished_at = at(20)
    record_usage(second, now=at(21))
    assert cost_of(house.run, now=at(30)).current_rate_per_hour == 2 * 3600 * USD


def test_a_run_without_gpus_costs_nothing():
    cost = cost_of(make_workload(), now=at(0))
    assert (cost.so_far, cost.rate_per_hour, cost.reason) == (0, 0, "")


def test_the_cost_of_many_takes_as_many_queries_as_of_one(house):
    runs = [make_workload(flavor=house.flavor, team=house.run.team, owner=house.run.owner) for _ in range(8)]
    for run in runs:
        house.ended(0, 10, workload=run)
        house.ended(0, 20, workload=run)
    numbers = []
    for some in (runs[:1], runs):
        with CaptureQueriesContext(connection) as queries:
            costs = costs_of(some, now=at(100))
        numbers.append(len(queries))
        assert {cost.so_far for cost in costs.values()} == {60 * USD}
    assert numbers == [2, 2]
