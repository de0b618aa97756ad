"""What is told beforehand is what the ledger will say: quotes against the lines of such a run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.ledger.services import record_usage, settle_due
from costs.models import LedgerEntry, PricedCard
from costs.prices.services import set_price
from costs.pricing import PriceSpan, by_day, lines, priced_segments, quote
from costs.queries import cost_of
from tests.effort import seeds
from tests.factories.catalogue import SETUP, make_flavor
from tests.factories.workloads import make_workload
from workloads.models import PodRecord

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
DAY = 86_400
numbers = count(1)

fractions = st.sampled_from(
    [
        Fraction(1),
        *(Fraction(slices, 7) for slices in (1, 2, 3, 4)),
        *(Fraction(1, n) for n in (2, 3, 4, 8, 10, 48)),
    ]
)
prices = st.integers(0, 20_000_000)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


@st.composite
def plans(draw):
    """A run: what each pod holds, how many there are, for how long, by prices of which some change on the way."""
    cards = draw(fractions) * draw(st.integers(1, 16))
    seconds = draw(st.integers(1, 4 * DAY))
    cuts = sorted(draw(st.sets(st.integers(1, 4 * DAY), max_size=3)))
    bounds = [-DAY, *cuts, None]
    spans = [
        PriceSpan(number, draw(prices), at(first), None if last is None else at(last))
        for number, (first, last) in enumerate(pairwise(bounds))
    ]
    return cards, draw(st.integers(1, 8)), seconds, spans


def posted(pods, carry):
    """The amounts of the lines of all pods, one pod after another, as settling writes them, and what is carried then."""
    amounts = []
    for cards, segments in pods:
        made, carry = lines(list(by_day(segments)), cards, carry)
        amounts += [line.amount_micro_usd for line in made]
    return amounts, carry


@given(plans())
def test_a_quote_is_what_the_lines_of_such_a_run_add_up_to(plan):
    cards, pods, seconds, spans = plan
    segments = list(priced_segments(T0, at(seconds), spans))
    amounts, _ = posted([(cards, segments)] * pods, Fraction(0))
    assert quote(cards * pods, T0, seconds, spans) == sum(amounts)


@given(plans(), st.fractions(min_value=0, max_value=Fraction(999, 1000), max_denominator=1000))
def test_what_was_carried_before_makes_a_micro_usd_of_difference_at_most(plan, carry):
    cards, pods, seconds, spans = plan
    segments = list(priced_segments(T0, at(seconds), spans))
    amounts, _ = posted([(cards, segments)] * pods, carry)
    assert sum(amounts) - quote(cards * pods, T0, seconds, spans) in {0, 1}


@given(plans(), plans())
def test_lines_of_others_between_them_make_less_than_a_micro_usd_of_difference_a_line(plan, other):
    cards, pods, seconds, spans = plan
    segments = list(priced_segments(T0, at(seconds), spans))
    theirs = list(priced_segments(T0, at(other[2]), spans))
    carry, own = Fraction(0), []
    for _ in range(pods):
        amounts, carry = posted([(cards, segments)], carry)
        own += amounts
        _, carry = posted([(other[0], theirs)], carry)
    assert abs(sum(own) - quote(cards * pods, T0, seconds, spans)) <= len(own)


@pytest.mark.parametrize(
    ("spans", "seconds", "expected"),
    [
        ([], 10, None),
        ([], 0, 0),
        ([PriceSpan(1, 3_600, at(0), at(5))], 10, None),
        ([PriceSpan(1, 3_600, at(5), None)], 10, None),
        ([PriceSpan(1, 3_600, at(0), at(4)), PriceSpan(2, 3_600, at(5), None)], 10, None),
        ([PriceSpan(1, 3_600, at(0), at(5)), PriceSpan(2, 7_200, at(5), None)], 10, 15),
        ([PriceSpan(1, 3_599, at(0), None)], 1, 0),
    ],
)
def test_a_quote_knows_the_prices_to_come_and_says_nothing_where_there_is_none(spans, seconds, expected):
    assert quote(Fraction(1), T0, seconds, spans) == expected


def test_a_part_of_a_second_of_the_start_does_not_count():
    spans = [PriceSpan(1, 3_600, at(0), None)]
    assert quote(Fraction(1), at(0.9), 10, spans) == 10


# --- on the ledger


def price(micro, moment):
    return set_price(
        card="a100-40gb",
        capacity_type="on-demand",
        micro_usd_per_card_hour=micro,
        valid_from=moment,
        reason="test",
        actor=SETUP,
        now=at(-DAY),
    )


def run_pods(run, pods, seconds):
    for number in range(pods):
        pod = PodRecord.objects.create(
            uid=f"quoted-{next(numbers)}", namespace="ns", name=f"pod-{number}", workload=run, attempt=1,
            resource_version="1", created_at=T0, scheduled_at=T0, units=run.units // pods, node_name="a100-0",
        )  # fmt: skip
        record_usage(pod, now=T0)
    for hour in range(1, seconds // 3600 + 1):
        settle_due(now=at(hour * 3600))
    for pod in run.pods.all():
        pod.finished_at = at(seconds)
        pod.save()
        record_usage(pod, now=at(seconds))


@pytest.mark.django_db
@pytest.mark.parametrize("seed", seeds(usual=0, matrix=4, soak=200))
def test_the_quote_of_a_run_is_what_the_ledger_charges_when_it_takes_exactly_as_long(seed):
    rng = random.Random(seed)
    pods, seconds = rng.randint(1, 4), rng.randint(1, 3 * DAY)
    fraction = rng.choice([Fraction(1), Fraction(1, 7), Fraction(3, 7), Fraction(1, 4), Fraction(1, 10)])
    price(rng.randint(1, 10_000_000), at(-DAY))
    if rng.random() < 0.7:
        price(rng.randint(1, 10_000_000), at(rng.randint(1, seconds + 1)))
    run = make_workload(flavor=make_flavor(fraction=fraction), units=pods * rng.choice([1, 2, 8]))
    run.time_limit_seconds = seconds
    run.save()
    quoted = cost_of(run, now=T0).at_time_limit
    run_pods(run, pods, seconds)
    charged = sum(
        LedgerEntry.objects.filter(account__startswith="team:").values_list("amount_micro_usd", flat=True)
    )
    assert quoted == charged
    assert PricedCard.objects.get().carry < 1
    run.started_at = T0
    assert cost_of(run, now=at(seconds)).at_time_limit == charged, "and it is what it was said to be"
