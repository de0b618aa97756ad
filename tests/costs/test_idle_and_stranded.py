"""What nobody holds of a node is posted too: with what pods pay it is what the node costs, to the unit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count

import pytest
from django.db import connection

from costs import tasks
from costs.ledger import check, idle
from costs.ledger.disputes import reverse
from costs.ledger.entries import NOT_SEEN
from costs.ledger.services import record_usage, settle_due
from costs.models import IdleSpan, LedgerEntry, Price, PricedCard, SupplyCursor, SupplyMark, UsageInterval
from costs.prices.services import set_price
from foundation import clock
from foundation.errors import Conflict
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.leases import run_out
from tests.factories.workloads import make_workload
from workloads.models import NodeInterval, PodRecord

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
USD = 1_000_000
CARD = "a100-40gb"
numbers = count(1)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def node(start=0, end=None, *, cards=1, offered=None, name="n-0", **values):
    offered = Fraction(cards if offered is None else offered)
    return NodeInterval.objects.create(
        node_uid=f"uid-{name}", node_name=name, card=CARD, capacity_type="on-demand", cards=cards,
        offered_numerator=offered.numerator, offered_denominator=offered.denominator,
        started_at=at(start), ended_at=None if end is None else at(end), **values,
    )  # fmt: skip


class Bed:
    """Shares of a card that costs one USD a second."""

    def __init__(self, fraction=Fraction(1), *, priced=True):
        self.flavor = make_flavor(CARD, fraction=fraction)
        self.run = make_workload(flavor=self.flavor, units=1)
        if priced:
            make_price()

    def pod(self, start=0, end=None, *, units=1, name="n-0"):
        number = next(numbers)
        pod = PodRecord.objects.create(
            uid=f"pod-{number}", namespace="ns", name=f"pod-{number}", workload=self.run, attempt=1, units=units,
            resource_version="1", created_at=at(start), scheduled_at=at(start), node_name=name,
            finished_at=None if end is None else at(end),
        )  # fmt: skip
        record_usage(pod, now=at(end or start))
        return pod


@pytest.fixture
def bed():
    return Bed()


def sweep(seconds):
    """Claim and count all that has settled by then."""
    settle_due(now=at(seconds))
    for _ in range(3):
        idle.sweep(now=at(seconds))


def account(prefix):
    rows = LedgerEntry.objects.filter(account__startswith=prefix)
    return sum(row.amount_micro_usd for row in rows)


def faults():
    return [(row.about, row.key, row.difference_micro_usd) for row in check.check_all(now=at(99_999))]


def test_four_quarters_for_an_hour_cost_a_card_hour_and_nothing_is_idle():
    bed = Bed(Fraction(1, 4))
    node()
    for _ in range(4):
        bed.pod(0, 3600)
    sweep(7200)
    assert (account("team:"), account("idle:")) == (3600 * USD, 0)


def test_of_three_quarters_the_fourth_is_idle():
    bed = Bed(Fraction(1, 4))
    node(0, 3600)
    for _ in range(3):
        bed.pod(0, 3600)
    sweep(7200)
    assert (account("team:"), account("idle:"), account("stranded:")) == (2700 * USD, 900 * USD, 0)
    assert account("supply:") == -3600 * USD
    assert faults() == []


def test_what_no_profile_can_use_of_a_cut_card_is_stranded():
    """A card cut in 3g + 3g: the last seventh belongs to no profile."""
    bed = Bed(Fraction(3, 7))
    node(0, 3600, offered=Fraction(6, 7))
    bed.pod(0, 3600)
    sweep(7200)
    exact = 3600 * USD
    shares = (account("team:"), account("idle:"), account("stranded:"))
    assert sum(shares) + PricedCard.objects.get().carry == exact
    assert [round(share * 7 / exact, 6) for share in shares] == [3, 3, 1]
    assert faults() == []


def test_an_hour_is_counted_when_it_has_settled_and_once(bed):
    node()
    sweep(3600)
    assert account("idle:") == 0
    sweep(3600 + 600)
    assert account("idle:") == 3600 * USD
    lines = LedgerEntry.objects.count()
    sweep(4300)
    assert LedgerEntry.objects.count() == lines
    (line,) = LedgerEntry.objects.filter(account__startswith="idle:")
    assert (line.node_name, line.started_at, line.ended_at) == ("n-0", at(0), at(3600))


def test_usage_that_is_heard_of_late_is_idle_no_more(bed):
    node(0, 3600)
    sweep(7200)
    assert account("idle:") == 3600 * USD
    bed.pod(600, 1200)
    assert SupplyMark.objects.exists()
    sweep(7300)
    assert (account("idle:"), account("team:")) == (3000 * USD, 600 * USD)
    assert not SupplyMark.objects.exists()
    assert {row.reason for row in LedgerEntry.objects.filter(reverses__isnull=False)} == {idle.CORRECTED}
    assert faults() == []


def test_usage_that_ended_before_it_was_thought_leaves_the_rest_idle(bed):
    node(0, 7200)
    pod = bed.pod(0)
    sweep(7900)
    assert (account("idle:"), account("team:")) == (0, 7900 * USD)
    pod.finished_at = at(1800)
    pod.save()
    record_usage(pod, now=at(8000))
    sweep(8000)
    assert (account("idle:"), account("team:")) == (5400 * USD, 1800 * USD)
    assert faults() == []


def test_a_node_of_which_is_heard_late_is_counted_late(bed):
    node(0, 3600)
    sweep(7200)
    node(1800, 3600, name="n-1", cards=2)
    sweep(7300)
    assert account("idle:") == (3600 + 2 * 1800) * USD
    NodeInterval.objects.filter(node_name="n-1").update(ended_at=at(2700))
    sweep(7400)
    assert account("idle:") == (3600 + 2 * 900) * USD
    assert faults() == []


def test_a_node_that_was_there_before_all_others_is_counted_however_late_it_is_heard_of(bed):
    node(9000, 10800)
    bed.pod(600, 1200, name="n-1")
    sweep(12_000)
    node(300, 1500, name="n-1")
    node(8900, 9000, name="n-2")
    sweep(12_100)
    assert (account("idle:"), account("team:")) == ((1800 + 600 + 100) * USD, 600 * USD)
    assert faults() == []
    sweep(12_200)
    assert SupplyCursor.objects.get().began_at == at(300)
    assert not SupplyMark.objects.exists()


def test_what_nobody_watched_of_a_node_is_paid_by_nobody_and_says_so(bed):
    node(0, 1800)
    node(1800, 3600, certain=False)
    sweep(7200)
    (line,) = LedgerEntry.objects.filter(account="platform:adjustment")
    assert (line.amount_micro_usd, account("idle:")) == (1800 * USD, 1800 * USD)
    assert line.reason == "Nobody watched the node in this time, so it is not known whether it was there."


def test_more_held_than_there_is_shows_and_takes_nothing_from_the_sum(bed):
    node(0, 3600)
    bed.pod(0, 3600)
    bed.pod(1800, 3600)
    sweep(7200)
    (line,) = LedgerEntry.objects.filter(account="platform:adjustment")
    assert line.amount_micro_usd == -1800 * USD
    assert line.reason == idle.REASONS[IdleSpan.Kind.OVERHELD]
    assert account("supply:") == -3600 * USD
    assert idle.overheld_card_seconds() == 1800


def test_a_pod_on_a_card_that_is_not_offered_any_more_holds_it_still(bed):
    node(0, 3600, cards=2, offered=1)
    bed.pod(0, 1800, units=2)
    sweep(7200)
    assert account("team:") == 3600 * USD
    assert (account("idle:"), account("stranded:"), account("platform:")) == (1800 * USD, 1800 * USD, 0)
    assert faults() == []


def test_a_price_change_and_midnight_cut_what_is_idle(bed):
    set_price(
        card=CARD, capacity_type="on-demand", micro_usd_per_card_hour=2 * 3600 * USD, valid_from=at(1800),
        reason="test", actor=SETUP, now=at(0),
    )  # fmt: skip
    node(0, 3600)
    sweep(7200)
    assert account("idle:") == (1800 + 2 * 1800) * USD
    assert LedgerEntry.objects.filter(account__startswith="idle:").count() == 2


def test_without_a_price_nothing_is_posted_until_there_is_one():
    Bed(priced=False)
    node(0, 3600)
    sweep(7200)
    assert not LedgerEntry.objects.exists()
    make_price()
    sweep(7300)
    assert account("idle:") == 3600 * USD
    assert faults() == []


def test_marks_of_cards_without_a_price_do_not_stay_and_the_first_price_counts_their_time_all_the_same():
    bed = Bed(priced=False)
    node(0, 3600)
    sweep(7200)
    bed.pod(0, 1200)
    assert SupplyMark.objects.exists()
    sweep(7300)
    assert not SupplyMark.objects.exists()
    make_price()
    sweep(7400)
    assert (account("team:"), account("idle:")) == (1200 * USD, 2400 * USD)
    assert not SupplyMark.objects.exists()
    assert faults() == []


def test_a_disputed_line_is_paid_by_the_platform_whatever_turns_out_later(bed):
    node(0, 3600)
    pod = bed.pod(0, 3600)
    sweep(7200)
    line = LedgerEntry.objects.get(account__startswith="team:")
    reverse(line, reason="The node was broken.", actor=SETUP, now=at(7300))
    assert (account("team:"), account("platform:")) == (0, 3600 * USD)
    pod.finished_at = at(1800)
    pod.save()
    record_usage(pod, now=at(7400))
    sweep(7400)
    assert (account("team:"), account("platform:"), account("idle:")) == (0, 1800 * USD, 1800 * USD)
    assert faults() == []


@pytest.mark.django_db(transaction=True)
def test_beat_counts_by_itself(bed):
    node(0, 3600)
    for seconds in (4300, 4600):
        with clock.freeze(at(seconds)):
            tasks.sweep_supply()
        run_out()
    assert account("idle:") == 3600 * USD
    assert SupplyCursor.objects.get().swept_until == at(3600)


# --- what nobody saw


def lost_from_sight(bed, *, seen, gone):
    pod = bed.pod(0)
    pod.seen_until, pod.gone_at = at(seen), at(gone)
    pod.save()
    record_usage(pod, now=at(gone))
    return pod


@pytest.mark.parametrize("posted", [0, 3600, 7000])
def test_a_team_pays_until_the_pod_was_seen_last_and_the_platform_until_it_was_missed(bed, posted):
    node(0, 7200)
    pod = bed.pod(0)
    if posted:
        settle_due(now=at(posted))
    pod.seen_until, pod.gone_at = at(1000), at(5000)
    pod.save()
    record_usage(pod, now=at(7100))
    sweep(7800)
    assert (account("team:"), account("platform:"), account("idle:")) == (1000 * USD, 4000 * USD, 2200 * USD)
    rows = LedgerEntry.objects.filter(account="platform:adjustment", amount_micro_usd__gt=0)
    assert {row.reason for row in rows} == {NOT_SEEN}
    assert faults() == []


def test_what_turns_up_later_gives_the_time_back_to_the_team(bed):
    node(0, 7200)
    pod = lost_from_sight(bed, seen=1000, gone=5000)
    pod.gone_at = None
    record_usage(pod, now=at(5100))
    assert (account("team:"), account("platform:")) == (5000 * USD, 0)
    pod.finished_at = at(2000)
    pod.save()
    record_usage(pod, now=at(5200))
    sweep(7800)
    assert (account("team:"), account("platform:"), account("idle:")) == (2000 * USD, 0, 5200 * USD)
    assert faults() == []


def test_of_what_nobody_saw_a_team_has_nothing_to_dispute(bed):
    pod = lost_from_sight(bed, seen=1000, gone=5000)
    for first, code in (("team:", "already_reversed"), ("platform:", "no_team_pays")):
        entry = LedgerEntry.objects.get(account__startswith=first, pod_uid=pod.uid, reverses=None)
        if code == "already_reversed":
            reverse(entry, reason="Nothing came of it.", actor=SETUP, now=at(5100))
        with pytest.raises(Conflict) as refused:
            reverse(entry, reason="again", actor=SETUP, now=at(5200))
        assert refused.value.code == code
    assert (account("team:"), account("platform:")) == (0, 5000 * USD)


# --- phases


def test_lines_are_cut_where_the_pod_began_to_run_and_to_stop(bed):
    pod = bed.pod(0)
    # It was given 40 seconds to end at second 90, and took ten.
    pod.started_at, pod.deletion_asked_at, pod.deletion_at, pod.finished_at = at(30), at(90), at(130), at(100)
    record_usage(pod, now=at(100))
    rows = LedgerEntry.objects.filter(account__startswith="team:").order_by("started_at")
    assert [(row.phase, row.started_at, row.ended_at) for row in rows] == [
        ("starting", at(0), at(30)),
        ("running", at(30), at(90)),
        ("stopping", at(90), at(100)),
    ]
    pod.finished_at = at(95)
    record_usage(pod, now=at(110))
    back = LedgerEntry.objects.get(account__startswith="team:", reverses__isnull=False)
    assert (back.phase, back.amount_micro_usd) == ("stopping", -5 * USD)


# --- the check


@pytest.fixture
def busy(bed):
    node(0, 3600, cards=2)
    pods = [bed.pod(0, 3600), bed.pod(600, 1200)]
    sweep(7200)
    assert faults() == []
    return pods


def test_without_the_row_of_a_pod_its_lines_are_proved_by_nothing(busy):
    PodRecord.objects.filter(pk=busy[1].pk).delete()
    assert faults() == [("pod", busy[1].uid, 600 * USD)]
    assert check.difference() == 600 * USD


def test_a_row_that_was_sealed_may_go(busy):
    assert check.seal([busy[1].uid]) == {busy[1].uid}
    PodRecord.objects.filter(pk=busy[1].pk).delete()
    assert faults() == []


def test_what_differs_is_not_sealed(busy):
    PodRecord.objects.filter(pk=busy[1].pk).update(finished_at=at(1300))
    assert check.seal([busy[1].uid]) == set()
    assert faults() == [("pod", busy[1].uid, -100 * USD)]
    record_usage(PodRecord.objects.get(pk=busy[1].pk), now=at(7300))
    sweep(7300)
    assert faults() == []


def test_usage_behind_the_ledgers_back_is_found(busy):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        UsageInterval.objects.filter(pod_uid=busy[1].uid).update(ended_at=at(1100), settled_until=at(1100))
        cursor.execute("SET LOCAL session_replication_role = origin")
    ((about, key, by),) = faults()
    assert (about, by) == ("node", -100 * USD)
    assert key.startswith("n-0, ")


def test_what_a_pod_holds_and_nobody_is_charged_for_is_not_what_the_node_cost(bed):
    node(0, 3600)
    pod = bed.pod(0, 3600)
    sweep(7200)
    Price.objects.update(created_at=at(0))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        UsageInterval.objects.filter(pod_uid=pod.uid).update(settled_until=at(1000))
        cursor.execute("SET LOCAL session_replication_role = origin")
    found = faults()
    assert [(about, by) for about, key, by in found if about == "node"] == [("node", -2600 * USD)]


def test_an_amount_that_was_changed_by_hand_is_found(busy):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE costs_pricedcard SET carry_numerator = carry_numerator + 1, carry_denominator = 1"
        )
        cursor.execute("SET LOCAL session_replication_role = origin")
    assert faults() == [("lane", "a100-40gb (on-demand)", 1)]


def test_a_pod_without_usage_is_found(busy):
    PodRecord.objects.create(
        uid="unseen", namespace="ns", name="unseen", workload=busy[0].workload, attempt=1, units=1,
        resource_version="1", created_at=at(0), scheduled_at=at(0), node_name="n-0", finished_at=at(5),
    )  # fmt: skip
    assert faults() == [("pod", "unseen", 1)]
