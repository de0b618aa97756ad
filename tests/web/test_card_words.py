from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.pages.words import change_words, held_words, readable, start_words
from foundation.number_words import cores_words, span_words

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CURRENT = {
    "cpu": "15950m",
    "gpus_per_replica": 8,
    "flavor": "a100",
    "capacity": "on-demand",
    "time_limit_seconds": 86400,
}


@pytest.mark.parametrize(
    ("early", "late", "words"),
    [
        (0, 0, "now"),
        (-30, -10, "now"),
        (0, 40, "within 40s"),
        (31, 33, "in about 35s"),
        (30, 94, "in 30s to 1m 35s"),
        (1200, 2700, "in 20m to 45m"),
        (1230, 2675, "in 20m to 45m"),
        (1200, 1210, "in about 20m"),
        (7140, 7195, "in about 2h"),
        (3000, 7800, "in 50m to 2h 10m"),
        (7200, 14400, "in 2h to 4h"),
        (50, 1500, "within 25m"),
        (100_000, 300_000, "in 1d 3h to 3d 12h"),
    ],
)
def test_a_start_is_a_range_that_holds_the_estimate(early, late, words):
    p50, p90 = NOW + timedelta(seconds=early), NOW + timedelta(seconds=late)
    assert start_words(p50, p90, now=NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (90, "1m 30s"), (5400, "1h 30m"), (183_600, "2d 3h")],
)
def test_a_span_has_two_units_at_most(seconds, words):
    assert span_words(seconds) == words


def test_a_sentence_says_long_times_in_hours():
    said = "This run may run for 172800 s; team vision allows at most 3600 s on a100 (spot), not 7 sheep."
    assert (
        readable(said)
        == "This run may run for 2d; team vision allows at most 1h on a100 (spot), not 7 sheep."
    )


@pytest.mark.parametrize(
    ("millicores", "words"),
    [
        (0, "0 cores"),
        (1, "0.1 cores"),
        (1000, "1 core"),
        (3600, "3.6 cores"),
        (3649, "3.6 cores"),
        (15_950, "16 cores"),
    ],
)
def test_cpu_is_said_in_cores_and_never_as_nothing(millicores, words):
    assert cores_words(millicores) == words


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.9, "9 of 10 past estimates held"),
        (0.3, "3 of 10 past estimates held"),
        (0.0, "0 of 10 past estimates held"),
        (0.939, "93 % of past estimates held"),
        (0.9999, "99 % of past estimates held"),
        (1.0, "all past estimates held"),
    ],
)
def test_the_hit_rate_is_never_said_better_than_it_was(rate, words):
    assert held_words(rate) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus_per_replica": 1}, "1 GPU instead of 8"),
        ({"flavor": "t4-shared"}, "t4-shared instead of a100"),
        ({"flavor": "t4", "capacity": "spot"}, "t4 instead of a100 and spot instead of on-demand"),
        ({"time_limit_seconds": 3600}, "A time limit of 1h instead of 1d"),
        ({"max_replicas": 1}, "At most 1 replica"),
        ({"ask_for_quota": 1}, "1 more unit of quota"),
        ({"cpu": "12300m"}, "12.3 cores instead of 15.95"),
        ({"cpu": "1", "memory": "4Gi"}, "1 core instead of 15.95 and 4Gi of memory"),
    ],
)
def test_a_change_is_said_beside_what_is_asked_for_now(change, words):
    assert change_words(change, CURRENT) == words
