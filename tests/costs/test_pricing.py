from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.pricing import PriceSpan, Segment, accrued, exact_cost, lines, priced_segments, rate_per_hour

START = datetime(2026, 10, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def span(start, until, price=3_600_000_000, number=1):
    return PriceSpan(number, price, at(start), None if until is None else at(until))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([span(0, None)], [(10, 100, 1)]),
        ([span(0, 50, number=1), span(50, None, number=2)], [(10, 50, 1), (50, 100, 2)]),
        ([span(50, None, number=2), span(0, 50, number=1)], [(10, 50, 1), (50, 100, 2)]),
        ([span(0, 10, number=1), span(10, None, number=2)], [(10, 100, 2)]),
        ([span(0, 100, number=1), span(100, None, number=2)], [(10, 100, 1)]),
        ([span(0, 30), span(40, None, number=2)], [(10, 30, 1), (40, 100, 2)]),
        ([span(11, None)], [(11, 100, 1)]),
        ([span(100, None)], []),
        ([span(0, 10)], []),
        ([], []),
    ],
)
def test_an_interval_is_cut_at_price_changes_and_what_has_no_price_is_left_out(spans, expected):
    found = [
        (segment.start, segment.end, segment.span.price_id)
        for segment in priced_segments(at(10), at(100), spans)
    ]
    assert found == [(at(start), at(end), number) for start, end, number in expected]


def test_an_empty_interval_has_no_segment():
    assert list(priced_segments(at(5), at(5), [span(0, None)])) == []
    assert list(priced_segments(at(9), at(5), [span(0, None)])) == []


def test_a_seventh_of_a_card_for_a_second():
    segment = Segment(at(0), at(1), span(0, None, price=3_427_000))
    assert exact_cost(segment, Fraction(1, 7)) == Fraction(3_427_000, 7 * 3600)


cards = st.builds(Fraction, st.integers(1, 64), st.integers(1, 56))
prices = st.integers(0, 10**10)


@st.composite
def histories(draw):
    """Intervals under prices that change without a gap."""
    cuts = sorted(draw(st.sets(st.integers(1, 10_000), max_size=4)))
    bounds = [0, *cuts, None]
    spans = [span(a, b, draw(prices), number) for number, (a, b) in enumerate(pairwise(bounds))]
    pairs = st.tuples(st.integers(0, 9000), st.integers(0, 4000)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    )
    return spans, draw(st.lists(st.tuples(pairs, cards), min_size=1, max_size=8))


def price_all(spans, intervals, carry=Fraction(0)):
    posted = []
    for (start, end), amount in intervals:
        made, carry = lines(list(priced_segments(at(start), at(end), spans)), amount, carry)
        posted += made
    return posted, carry


@given(histories())
def test_lines_and_what_is_carried_are_the_exact_cost_to_the_last_fraction(history):
    spans, intervals = history
    posted, carry = price_all(spans, intervals)
    exact = sum(
        (
            exact_cost(segment, amount)
            for (start, end), amount in intervals
            for segment in priced_segments(at(start), at(end), spans)
        ),
        Fraction(0),
    )
    assert sum(line.amount_micro_usd for line in posted) + carry == exact
    assert 0 <= carry < 1
    assert all(line.amount_micro_usd >= 0 for line in posted)


@given(histories(), st.data())
def test_the_order_of_settling_changes_the_sum_by_less_than_one_micro(history, data):
    spans, intervals = history
    shuffled = data.draw(st.permutations(intervals))
    sums = [
        sum(line.amount_micro_usd for line in price_all(spans, each)[0]) for each in (intervals, shuffled)
    ]
    assert abs(sums[0] - sums[1]) <= 1


@given(histories(), st.integers(0, 4000))
def test_settling_in_two_steps_costs_what_it_costs_in_one(history, cut):
    spans, intervals = history
    (start, end), amount = intervals[0]
    middle = min(start + cut, end)
    once = price_all(spans, [((start, end), amount)])
    twice = price_all(spans, [((start, middle), amount), ((middle, end), amount)])
    total = [sum(line.amount_micro_usd for line in posted) + carry for posted, carry in (once, twice)]
    assert total[0] == total[1]


@given(histories())
def test_segments_cover_the_interval_without_gap_or_overlap(history):
    spans, intervals = history
    for (start, end), _ in intervals:
        segments = list(priced_segments(at(start), at(end), spans))
        if start == end:
            assert segments == []
            continue
        assert (segments[0].start, segments[-1].end) == (at(start), at(end))
        for before, after in pairwise(segments):
            assert before.end == after.start
        for segment in segments:
            assert segment.start < segment.end
            assert segment.span.start <= segment.start
            assert segment.span.until is None or segment.end <= segment.span.until


@given(histories())
def test_what_is_shown_before_it_is_posted_is_never_more_than_what_is_posted(history):
    spans, intervals = history
    (start, end), amount = intervals[0]
    segments = list(priced_segments(at(start), at(end), spans))
    posted, _ = lines(segments, amount, Fraction(0))
    assert accrued(segments, amount) == sum(line.amount_micro_usd for line in posted)


@given(cards, prices)
def test_the_rate_is_rounded_to_the_nearest_micro(amount, price):
    assert abs(rate_per_hour(amount, price) - amount * price) <= Fraction(1, 2)
