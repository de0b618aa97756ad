from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.pages.words import change_words, held_words, readable, span_words, start_words

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CURRENT = {"gpus_per_replica": 8, "flavor": "a100", "capacity": "on-demand", "time_limit_seconds": 86400}


@pytest.mark.parametrize(
    ("early", "late", "words"),
    [
        (0, 0, "now"),
        (-30, -10, "now"),
        (0, 40, "within 40 s"),
        (31, 33, "in about 35 s"),
        (30, 94, "in 30 s to 1 min 35 s"),
        (1200, 2700, "in 20 to 45 min"),
        (1230, 2675, "in 20 to 45 min"),
        (1200, 1210, "in about 20 min"),
        (7140, 7195, "in about 2 h"),
        (3000, 7800, "in 50 min to 2 h 10 min"),
        (7200, 14400, "in 2 to 4 h"),
        (50, 1500, "within 25 min"),
        (100_000, 300_000, "in 1 d 3 h to 3 d 12 h"),
    ],
)
def test_a_start_is_a_range_that_holds_the_estimate(early, late, words):
    p50, p90 = NOW + timedelta(seconds=early), NOW + timedelta(seconds=late)
    assert start_words(p50, p90, now=NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (5400, "1 h 30 min"), (183_600, "2 d 3 h")],
)
def test_a_span_has_two_units_at_most(seconds, words):
    assert span_words(seconds) == words


def test_a_sentence_says_long_times_in_hours():
    said = "This run may run for 172800 s; team vision allows at most 3600 s on a100 (spot), not 7 sheep."
    assert (
        readable(said)
        == "This run may run for 2 d; team vision allows at most 1 h on a100 (spot), not 7 sheep."
    )


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
        ({"time_limit_seconds": 3600}, "A time limit of 1 h instead of 1 d"),
        ({"max_replicas": 1}, "At most 1 replica"),
        ({"ask_for_quota": 1}, "1 more unit of quota"),
    ],
)
def test_a_change_is_said_beside_what_is_asked_for_now(change, words):
    assert change_words(change, CURRENT) == words
