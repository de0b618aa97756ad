"""The values of a sweep, the requests of its members, and when members are stopped early."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.early_stop import EarlyStop, Standing, best_of
from jobs.matrix import Matrix, member_spec, range_length, values_of
from jobs.specs import TrainingRunSpec
from tests.factories.submitted import run_body


def matrix(**parameters) -> Matrix:
    return Matrix.from_json({"parameters": parameters})


def test_there_is_a_member_for_every_combination_and_the_last_parameter_changes_first():
    asked = matrix(lr=[0.1, 0.01], seed={"from": 1, "to": 3})
    assert asked.size == 6
    assert list(asked.members())[:4] == [
        {"lr": 0.1, "seed": 1},
        {"lr": 0.1, "seed": 2},
        {"lr": 0.1, "seed": 3},
        {"lr": 0.01, "seed": 1},
    ]


def test_a_range_counts_in_decimal_digits_and_has_both_ends():
    assert values_of({"from": 0.1, "to": 0.5, "step": 0.1}) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert values_of({"from": 5, "to": 1, "step": -2}) == [5, 3, 1]
    assert values_of({"from": 1, "to": 2}) == [1, 2]


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-50, 50).filter(bool))
def test_a_range_has_as_many_values_as_it_says_all_a_step_apart_and_none_beyond_its_end(start, end, step):
    asked = {"from": start, "to": end, "step": step}
    values = values_of(asked)
    assert len(values) == range_length(asked)
    assert all(after - before == step for before, after in pairwise(values))
    assert all(min(start, end) <= value <= max(start, end) for value in values)


def test_values_stand_in_command_arguments_and_variables_and_in_variables_of_their_own():
    body = run_body(
        command=["python", "train.py", "--lr=${{ matrix.lr }}"],
        args=["${{matrix.fast}}", "$HOME ${lr} {{ matrix.lr }}"],
        env=[{"name": "RATE", "value": "r${{ matrix.lr }}"}, {"name": "KEY", "secret": "hf", "key": "token"}],
    )
    spec = member_spec(TrainingRunSpec.from_json(body), {"lr": 0.001, "fast": True}, name="lr-7")
    assert spec.command == ("python", "train.py", "--lr=0.001")
    assert spec.args == ("true", "$HOME ${lr} {{ matrix.lr }}")
    assert {variable.name: variable.value for variable in spec.env if variable.secret is None} == {
        "RATE": "r0.001",
        "MATRIX_LR": "0.001",
        "MATRIX_FAST": "true",
    }
    assert spec.name == "lr-7"


LOSS = EarlyStop("loss", worse_than_median_after=30)


def standing(members: dict[int, dict[str, float]]) -> dict[int, Standing]:
    return {key: Standing(milestones) for key, milestones in members.items()}


def reported(rules: EarlyStop, *reports: tuple[float | None, float]) -> dict[str, float]:
    milestones: dict[str, float] = {}
    for percentage, value in reports:
        milestones = rules.after(milestones, value=value, percentage=percentage)
    return milestones


def test_milestones_keep_the_best_value_at_each_tenth():
    assert reported(LOSS, (1, 0.9), (12, 0.7), (19.9, 0.5), (40, 0.6)) == {"0": 0.9, "10": 0.5, "40": 0.5}
    most = EarlyStop("accuracy", goal="maximize", target=0.9)
    assert reported(most, (10, 0.2), (20, 0.1), (None, 0.3)) == {"10": 0.2, "20": 0.3}


def test_a_report_that_comes_late_loses_nothing_that_was_reported_before():
    assert reported(LOSS, (30.2, 0.1), (29.9, 0.5)) == {"20": 0.5, "30": 0.1}
    assert reported(LOSS, (80, 0.5), (10, 0.2)) == {"10": 0.2, "80": 0.2}
    assert best_of(reported(LOSS, (80, 0.5), (10, 0.2), (90, 0.3))) == 0.2


def test_a_member_that_is_worse_than_the_median_of_the_others_at_the_same_progress_is_stopped():
    members = {
        1: reported(LOSS, (30, 0.4)),
        2: reported(LOSS, (20, 0.4), (40, 0.2)),
        3: reported(LOSS, (30, 0.3), (90, 0.1)),
        4: reported(LOSS, (30, 0.9)),
    }
    stopped = LOSS.stopped(standing(members), live=frozenset(members))
    assert list(stopped) == [4]
    # The second reported nothing at 30 %: it counts by what it had reached before.
    assert "median" in stopped[4]
    assert "0.9" in stopped[4]


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({1: {"30": 0.9}, 2: {"30": 0.1}, 3: {"30": 0.1}}, id="two others say little"),
        pytest.param(
            {1: {"20": 0.9}, 2: {"20": 0.1}, 3: {"20": 0.1}, 4: {"20": 0.1}},
            id="not as far as the rule begins",
        ),
        pytest.param(
            {1: {"50": 0.9}, 2: {"40": 0.1}, 3: {"40": 0.1}, 4: {"40": 0.1}}, id="nobody else has come as far"
        ),
        pytest.param(
            {1: {"30": 0.1}, 2: {"30": 0.1}, 3: {"30": 0.1}, 4: {"30": 0.1}}, id="as good as the others"
        ),
    ],
)
def test_nobody_is_stopped(members):
    assert LOSS.stopped(standing(members), live=frozenset(members)) == {}


@given(st.lists(st.floats(0, 1), min_size=4, max_size=9), st.sampled_from(["minimize", "maximize"]))
def test_who_is_behind_is_behind_the_median_of_the_others_as_statistics_has_it(values, goal):
    rules = EarlyStop("loss", goal=goal, worse_than_median_after=0)
    members = standing({key: {"50": value} for key, value in enumerate(values)})
    worse = {
        key
        for key, value in enumerate(values)
        if rules.better(value, middle := median(values[:key] + values[key + 1 :])) != value
        and value != middle
    }
    assert set(rules.stopped(members, live=frozenset(members))) == worse


def test_two_values_that_look_alike_are_written_out():
    members = standing({1: {"50": 1.0000001}, 2: {"50": 1.0}, 3: {"50": 1.0}, 4: {"50": 1.0}})
    assert "1.0000001 at 50 % is worse than 1.0," in LOSS.stopped(members, live=frozenset({1}))[1]


def test_once_a_member_reaches_the_target_all_others_that_live_are_stopped():
    rules = EarlyStop("accuracy", goal="maximize", target=0.95)
    members = standing({1: {"50": 0.96}, 2: {"90": 0.9}, 3: {}, 4: {"10": 0.1}})
    assert rules.stopped(members, live=frozenset(members)) == {}
    members[1] = Standing({}, reached=0.96)
    assert set(rules.stopped(members, live=frozenset({1, 2, 3}))) == {2, 3}
    assert set(rules.stopped(members, live=frozenset({2}))) == {2}, "it may have ended since"
