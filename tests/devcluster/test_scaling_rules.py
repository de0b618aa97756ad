"""Windows, policies and schedules, which on a cluster would take minutes to be seen."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from devcluster.controllers.cron import parse
from devcluster.controllers.stabilize import Ask, Memory, decide

DEFAULT_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DEFAULT_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def behavior(up=None, down=None):
    return {"scaleUp": DEFAULT_UP | (up or {}), "scaleDown": DEFAULT_DOWN | (down or {})}


def ask(desired, current, now=1000.0, least=1, most=100):
    return Ask(now, current, desired, least, most)


@pytest.mark.parametrize(
    ("desired", "current", "replicas", "reason"),
    [
        (3, 1, 3, "DesiredWithinRange"),
        (50, 1, 4, "ScaleUpLimit"),
        (50, 10, 20, "ScaleUpLimit"),
        (0, 3, 1, "TooFewReplicas"),
        (300, 60, 100, "TooManyReplicas"),
    ],
)
def test_without_a_behavior_it_at_most_doubles(desired, current, replicas, reason):
    verdict = decide(Memory(), ask(desired, current), None)
    assert (verdict.replicas, verdict.limited[1]) == (replicas, reason)


def test_the_way_down_waits_for_five_minutes():
    memory = Memory([(1000.0, 5)])
    for now, replicas in ((1100.0, 5), (1299.0, 5), (1301.0, 1)):
        verdict = decide(memory, ask(1, 5, now), None)
        assert verdict.replicas == replicas
        assert verdict.able[0] == ("ReadyForNewScale" if replicas == 1 else "ScaleDownStabilized")


def test_the_windows_of_a_behavior_hold_both_ways():
    rules = behavior(up={"stabilizationWindowSeconds": 60}, down={"stabilizationWindowSeconds": 10})
    memory = Memory([(1000.0, 2)])
    verdict = decide(memory, ask(6, 2, 1030.0), rules)
    assert (verdict.replicas, verdict.able[0]) == (2, "ScaleUpStabilized")
    assert decide(memory, ask(6, 2, 1061.0), rules).replicas == 6
    verdict = decide(memory, ask(1, 6, 1065.0), rules)
    assert (verdict.replicas, verdict.able[0]) == (6, "ScaleDownStabilized")
    assert decide(memory, ask(1, 6, 1072.0), rules).replicas == 1


def test_policies_count_what_was_done_in_their_period():
    rules = behavior(up={"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]})
    memory = Memory()
    verdict = decide(memory, ask(9, 1), rules)
    assert (verdict.replicas, verdict.limited) == (
        3, (True, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"),
    )  # fmt: skip
    memory.scaled(1000.0, 1, 3, rules)
    assert decide(memory, ask(9, 3, 1030.0), rules).replicas == 3
    assert decide(memory, ask(9, 3, 1061.0), rules).replicas == 5


def test_the_smallest_change_and_none_can_be_chosen():
    both = [
        {"type": "Pods", "value": 1, "periodSeconds": 15},
        {"type": "Percent", "value": 50, "periodSeconds": 15},
    ]
    down = {"stabilizationWindowSeconds": 0, "policies": both}
    assert decide(Memory(), ask(1, 8), behavior(down=down)).replicas == 4
    assert decide(Memory(), ask(1, 8), behavior(down=down | {"selectPolicy": "Min"})).replicas == 7
    assert decide(Memory(), ask(1, 8), behavior(down=down | {"selectPolicy": "Disabled"})).replicas == 8


NOW = datetime(2026, 3, 28, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("* * * * *", "2026-03-28 23:31"),
        ("0 8 * * 1-5", "2026-03-30 08:00"),
        ("*/20 6-7 * * *", "2026-03-29 06:00"),
        ("15 0 1 */6 ?", "2026-07-01 00:15"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 12 13 * fri", "2026-04-03 12:00"),
        ("30 23 28 3 *", "2027-03-28 23:30"),
    ],
)
def test_when_a_schedule_is_next_due(schedule, due):
    found = parse(schedule).next(NOW)
    assert f"{found:%Y-%m-%d %H:%M}" == due


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* 5-2 * * *", "x * * * *", "*/0 * * * *", "* * 0 * *"]
)
def test_nonsense_is_no_schedule(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)
