"""Which time a page of figures shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import pytest

from foundation.errors import Malformed
from pages.time_ranges import TimeRange, read_range

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


def test_a_time_without_an_offset_is_one_of_the_zone():
    berlin = {"from": "2026-03-01T09:00", "to": "2026-03-01T10:00", "zone": "Europe/Berlin"}
    assert read_range(berlin, now=NOW).begin == datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
    persons = {"from": "2026-03-01T09:00:00", "to": "2026-03-01T10:00"}
    zone = ZoneInfo("Asia/Kolkata")
    assert read_range(persons, now=NOW, zone=zone).begin == datetime(2026, 3, 1, 3, 30, tzinfo=UTC)


def asked_again(query: str) -> TimeRange:
    return read_range(dict(parse_qsl(query)), now=NOW)


def test_a_range_can_be_moved_and_zoomed():
    hour = read_range({"from": "2026-03-01T08:00:00Z", "to": "2026-03-01T09:00:00Z"}, now=NOW)
    spans = {
        name: [f"{end:%H:%M}" for end in (found.begin, found.end)]
        for name in ("earlier", "later", "closer", "wider")
        for found in [asked_again(getattr(hour, name))]
    }
    assert spans == {
        "earlier": ["07:30", "08:30"],
        "later": ["08:30", "09:30"],
        "closer": ["08:15", "08:45"],
        "wider": ["07:30", "09:30"],
    }


def test_what_cannot_be_shown_is_not_offered():
    now = read_range({}, now=NOW)
    assert now.later == ""
    assert asked_again(now.wider).end == now.end
    short = read_range({"from": "2026-03-01T08:00:00Z", "to": "2026-03-01T08:06:00Z"}, now=NOW)
    assert short.closer == ""
    week = read_range({"range": "7d"}, now=NOW)
    assert week.wider == ""
    assert asked_again(week.earlier).slots == week.slots


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"range": "3h"}, "range"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-03-01T25:00"}, "from"),
        ({"from": "0001-01-01T00:00", "zone": "Asia/Tokyo"}, "from"),
        ({"from": "2026-03-01T09:00", "zone": "Europe/Nowhere"}, "zone"),
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
