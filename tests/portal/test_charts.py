"""Time series as a drawing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pages.charts import ChartSeries, Mark, draw, number_words, table_of, zone_words

BEGIN = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def drawn(*values, marks=(), **more):
    series = [ChartSeries(name="requests", look="a", values=values, **more)]
    return draw("Requests", begin=BEGIN, step=MINUTE, slots=len(values), series=series, marks=marks)


def test_the_axis_ends_at_a_round_number_above_the_largest_value():
    tops = {top: drawn(top).y_ticks[-1].text for top in (0.3, 1, 1.1, 3, 7, 23, 51, 180, 2400)}
    assert tops == {
        0.3: "1", 1: "1", 1.1: "1.25", 3: "3", 7: "8", 23: "25", 51: "60", 180: "200", 2400: "2,500",
    }  # fmt: skip
    assert [tick.text for tick in drawn(4).y_ticks] == ["0", "1", "2", "3", "4"]
    assert [tick.place for tick in drawn(4).y_ticks] == [
        "100.000%",
        "75.000%",
        "50.000%",
        "25.000%",
        "0.000%",
    ]


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (1, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (5, ["0", "1", "2", "3", "4", "5"]),
        (6, ["0", "2", "4", "6"]),
        (11, ["0", "5", "10", "15"]),
        (12_000, ["0", "5,000", "10,000", "15,000"]),
    ],
)
def test_counts_have_whole_ticks(most, texts):
    series = [ChartSeries(name="ready", look="a", values=[most])]
    chart = draw("Replicas", begin=BEGIN, step=MINUTE, slots=1, series=series, whole=True)
    assert [tick.text for tick in chart.y_ticks] == texts


def test_a_gap_parts_the_line_and_draws_nothing():
    chart = drawn(1, 1, None, 0, 1)
    assert [path.d for path in chart.paths] == ["M100.0 0.00L300.0 0.00", "M700.0 100.00L900.0 0.00"]
    assert [slot.left for slot in chart.slots] == ["0.000%", "20.000%", "60.000%", "80.000%"]


def test_a_step_holds_until_the_next():
    (path,) = drawn(1, 2, stepped=True).paths
    assert path.d == "M0.0 50.00L500.0 50.00L500.0 0.00L1000.0 0.00"


def test_one_lonely_value_can_be_seen():
    (path,) = drawn(None, 1, None).paths
    assert path.d == "M333.3 0.00L666.7 0.00"


def test_an_area_ends_on_the_ground():
    area, line = drawn(1, 1, filled=True).paths
    assert area.d == line.d + "L750.0 100L250.0 100Z"


def test_a_slot_tells_its_time_and_every_value():
    chart = draw(
        "Replicas",
        begin=BEGIN,
        step=MINUTE,
        slots=2,
        series=[
            ChartSeries(name="ready", look="a", values=[1, 2]),
            ChartSeries(name="wanted", look="b", values=[None, 3]),
        ],
        unit=" pods",
    )
    assert [slot.text for slot in chart.slots] == [
        "2026-03-01 10:00 UTC\nready: 1 pods",
        "2026-03-01 10:01 UTC\nready: 2 pods\nwanted: 3 pods",
    ]


def test_marks_outside_the_time_are_left_out():
    marks = [Mark(at=BEGIN + MINUTE * minute, text=str(minute)) for minute in (-1, 0, 1, 2, 3)]
    assert [(mark.place, mark.text) for mark in drawn(1, 1, marks=marks).marks] == [
        ("0.000%", "2026-03-01 10:00:00 UTC\n0"),
        ("50.000%", "2026-03-01 10:01:00 UTC\n1"),
        ("100.000%", "2026-03-01 10:02:00 UTC\n2"),
    ]


@pytest.mark.parametrize(
    ("minutes", "texts"),
    [
        (5, ["10:00", "10:01", "10:02", "10:03", "10:04", "10:05"]),
        (60, ["10:00", "10:10", "10:20", "10:30", "10:40", "10:50", "11:00"]),
        (24 * 60, ["12:00", "18:00", "02 Mar", "06:00"]),
        (7 * 24 * 60, ["03 Mar", "05 Mar", "07 Mar"]),
    ],
)
def test_times_stand_at_round_moments(minutes, texts):
    chart = draw("x", begin=BEGIN, step=MINUTE, slots=minutes, series=[])
    assert [tick.text for tick in chart.x_ticks] == texts


@pytest.mark.parametrize(
    ("zone", "begin", "minutes", "texts"),
    [
        ("Asia/Kolkata", BEGIN, 60, ["15:30", "15:40", "15:50", "16:00", "16:10", "16:20", "16:30"]),
        ("America/New_York", BEGIN, 24 * 60, ["06:00", "12:00", "18:00", "02 Mar"]),
        # The night in which its clocks go forward: the hours stay round.
        (
            "Europe/Berlin",
            datetime(2026, 3, 28, 20, tzinfo=UTC),
            720,
            ["22:00", "29 Mar", "03:00", "04:00", "06:00", "08:00", "10:00"],
        ),
    ],
)
def test_times_are_round_in_the_zone_of_the_person(zone, begin, minutes, texts):
    chart = draw("x", begin=begin, step=MINUTE, slots=minutes, series=[], zone=ZoneInfo(zone))
    assert [tick.text for tick in chart.x_ticks] == texts


def test_what_a_pointer_shows_names_the_zone():
    series = [ChartSeries(name="ready", look="a", values=[1])]
    marks = [Mark(at=BEGIN, text="Scaled 1 → 3")]
    chart = draw(
        "x", begin=BEGIN, step=MINUTE, slots=1, series=series, marks=marks, zone=ZoneInfo("Europe/Berlin")
    )
    assert chart.slots[0].text == "2026-03-01 11:00 CET\nready: 1"
    assert chart.marks[0].text == "2026-03-01 11:00:00 CET\nScaled 1 → 3"
    assert zone_words(ZoneInfo("Asia/Kathmandu"), BEGIN) == "UTC+05:45"


def test_drawings_are_one_table_that_says_what_happened_too():
    replicas = drawn(1, None, 3)
    latency = draw(
        "Latency",
        begin=BEGIN,
        step=MINUTE,
        slots=3,
        series=[ChartSeries(name="p95", look="b", values=[20])],
        unit=" ms",
    )
    mark = Mark(at=BEGIN + timedelta(seconds=125), text="Scaled 1 → 3")
    table = table_of([replicas, latency], [mark], step=MINUTE, zone=ZoneInfo("Europe/Berlin"))
    assert table.heads == ("Requests: requests", "Latency: p95")
    assert table.zone == "CET"
    assert [(row.at, row.cells, row.happened) for row in table.rows] == [
        ("2026-03-01 11:02", ("3", ""), "Scaled 1 → 3"),
        ("2026-03-01 11:00", ("1", "20 ms"), ""),
    ]


def test_nothing_known_is_said():
    assert drawn(None, None).empty
    assert draw("x", begin=BEGIN, step=MINUTE, slots=1, series=[]).empty
    assert not drawn(None, 0).empty


def test_numbers_have_as_many_digits_as_tell_something():
    assert [number_words(each) for each in (0, 0.1234, 1.5, 12.345, 100.4, 12345)] == [
        "0", "0.123", "1.5", "12.3", "100", "12,345",
    ]  # fmt: skip


def test_a_series_may_end_before_the_drawing_does():
    series = [ChartSeries(name="x", look="a", values=[1, 1])]
    (path,) = draw("x", begin=BEGIN, step=MINUTE, slots=4, series=series).paths
    assert path.d == "M125.0 0.00L375.0 0.00"
