from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation import clock, ids, money
from tests.months import into_month

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_now_is_aware_and_utc():
    assert clock.now().utcoffset() == timedelta(0)


def test_a_frozen_clock_answers_the_moment_in_utc_and_thaws_again():
    with clock.freeze(NOON.astimezone(timezone(timedelta(hours=2)))):
        assert clock.now() == NOON
        assert clock.now().utcoffset() == timedelta(0)
    assert clock.now() > NOON


def test_a_frozen_clock_thaws_after_an_error():
    with pytest.raises(RuntimeError), clock.freeze(NOON):
        raise RuntimeError
    assert clock.now() != NOON


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (datetime(2026, 11, 30, 23, 59, tzinfo=UTC), datetime(2026, 11, 15, 12, 59, tzinfo=UTC)),
        (datetime(2026, 12, 1, 0, 0, tzinfo=UTC), datetime(2026, 12, 15, 12, 0, tzinfo=UTC)),
        (datetime(2027, 2, 28, 0, 30, tzinfo=UTC), datetime(2027, 2, 15, 12, 30, tzinfo=UTC)),
        (datetime(2026, 11, 29, 20, 59, tzinfo=UTC), datetime(2026, 11, 29, 20, 59, tzinfo=UTC)),
        (datetime(2026, 11, 29, 21, 0, tzinfo=UTC), datetime(2026, 11, 29, 12, 0, tzinfo=UTC)),
        (datetime(2026, 12, 2, 2, 59, tzinfo=UTC), datetime(2026, 12, 2, 12, 59, tzinfo=UTC)),
        (datetime(2026, 12, 2, 3, 0, tzinfo=UTC), datetime(2026, 12, 2, 3, 0, tzinfo=UTC)),
    ],
)
def test_the_clock_of_tests_keeps_away_from_midnight_and_the_ends_of_a_month(now, then):
    assert now + into_month(now) == then


def test_a_naive_moment_cannot_freeze_the_clock():
    with pytest.raises(ValueError, match="aware"), clock.freeze(NOON.replace(tzinfo=None)):
        pass


def test_freezing_inside_a_freeze_comes_back_to_the_outer_moment():
    with clock.freeze(NOON):
        with clock.freeze(NOON + timedelta(hours=1)):
            assert clock.now() == NOON + timedelta(hours=1)
        assert clock.now() == NOON


def test_public_ids_are_version_7_and_sort_by_time():
    with clock.freeze(NOON):
        early = ids.new_public_id()
    with clock.freeze(NOON + timedelta(milliseconds=1)):
        late = ids.new_public_id()
    assert early.version == late.version == 7
    assert early < late


def test_short_ids_of_one_moment_differ():
    with clock.freeze(NOON):
        shorts = {ids.short_id(ids.new_public_id()) for _ in range(200)}
    assert len(shorts) == 200
    assert all(len(each) == 8 for each in shorts)


@pytest.mark.parametrize(
    ("micro", "usd"),
    [
        (0, "0.000000"),
        (1234, "0.001234"),
        (-1234, "-0.001234"),
        (5_000_000_000, "5000.000000"),
        (-1_500_000, "-1.500000"),
    ],
)
def test_an_amount_in_json_is_exact(micro, usd):
    assert money.as_json(micro) == {"amount_micro_usd": micro, "usd": usd}


def test_no_price_is_none_in_json():
    assert money.as_json(None) is None


@pytest.mark.parametrize(
    ("micro", "places", "shown"),
    [
        (1_234_500_000, 2, "$1,234.50"),
        (5_000, 2, "$0.01"),
        (4_999, 2, "<$0.01"),
        (1, 2, "<$0.01"),
        (49, 4, "<$0.0001"),
        (499_999, 0, "<$1"),
        (0, 2, "$0.00"),
        (-4_999, 2, ">-$0.01"),
        (-5_000, 2, "-$0.01"),
        (995_000, 2, "$1.00"),
        (123_456, 4, "$0.1235"),
        (1_500_000, 0, "$2"),
    ],
)
def test_amounts_for_people_round_half_away_from_zero(micro, places, shown):
    assert money.format_usd(micro, places) == shown


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_what_json_shows_is_exact(micro):
    shown = money.as_json(micro)
    assert shown is not None
    assert Decimal(shown["usd"]).scaleb(money.DECIMALS) == micro == shown["amount_micro_usd"]
