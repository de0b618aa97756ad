"""Which time a page of figures shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from foundation.errors import Malformed
from pages.time_ranges import read_range

NOW = datetime(2026, 3, 1, 10, 17, 42, tzinfo=UTC)


def test_the_last_hour_is_what_nobody_asks_for():
    found = read_range({}, now=NOW)
    assert (found.name, found.step, found.slots) == ("1h", timedelta(minutes=1), 60)
    assert (found.begin, found.end) == (
        NOW.replace(hour=9, minute=18, second=0),
        NOW.replace(minute=18, second=0),
    )
    assert found.query == "range=1h"


@pytest.mark.parametrize("name", ["1h", "6h", "24h", "7d"])
def test_a_range_has_a_bounded_number_of_slots_and_reaches_over_now(name):
    found = read_range({"range": name}, now=NOW)
    assert found.slots <= 101
    assert found.end >= NOW
    assert read_range({"range": name}, now=NOW + timedelta(seconds=10)).begin == found.begin


def test_two_moments_are_a_range_that_can_be_asked_for_again():
    found = read_range({"from": "2026-03-01T08:03:00Z", "to": "2026-03-01T09:00:00Z"}, now=NOW)
    assert found.begin == datetime(2026, 3, 1, 8, 3, tzinfo=UTC)
    assert found.end == datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    assert found.query == "from=2026-03-01T08%3A03%3A00Z&to=2026-03-01T09%3A00%3A00Z"


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"range": "3h"}, "range"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-03-01T09:00:00Z"}, "from"),
        ({"from": "2026-03-01T09:00:00Z", "to": "2026-03-01T09:01:00Z"}, "to"),
        ({"from": "2026-03-01T09:00:00Z", "to": "2026-03-01T08:00:00Z"}, "to"),
        ({"from": "2026-02-01T09:00:00Z"}, "from"),
        ({"from": "9999-12-31T23:59:59Z"}, "to"),
        ({"from": "9999-12-31T20:00:00Z", "to": "9999-12-31T23:59:59Z"}, "to"),
    ],
)
def test_nonsense_is_refused_at_its_argument(asked, field):
    with pytest.raises(Malformed) as refused:
        read_range(asked, now=NOW)
    assert refused.value.errors[0].field == field
