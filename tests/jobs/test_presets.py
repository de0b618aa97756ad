"""The rules of a template, as pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given

from jobs.presets import Preset, contradictions, fill, limits_in_words, outside
from jobs.specs import TrainingRunSpec
from tests.manifest_strategies import run_bodies

CHECKPOINT = {"path": "/checkpoints", "interval_seconds": 600}


def codes(problems):
    return [(path, fault.code) for path, fault in problems]


def stored(**values):
    return TrainingRunSpec.from_json({"name": "a", "image": "b", **values}).to_json()


def test_a_default_fills_what_is_left_out_or_null():
    preset = Preset(
        name="small", defaults={"image": "train:1", "cpu": "4", "env": [{"name": "A", "value": "b"}]}
    )
    filled, problems = fill(preset, {"name": "x", "cpu": None, "env": []})
    assert filled == {"name": "x", "image": "train:1", "cpu": "4", "env": []}
    assert problems == []


def test_checkpoint_and_labels_are_filled_key_by_key():
    preset = Preset(name="spot", defaults={"checkpoint": CHECKPOINT, "labels": {"a": "1", "b": "2"}})
    sent = {"checkpoint": {"claim": "ckpt", "interval_seconds": None}, "labels": {"b": "3"}}
    filled, _ = fill(preset, sent)
    assert filled["checkpoint"] == {"claim": "ckpt", **CHECKPOINT}
    assert filled["labels"] == {"a": "1", "b": "3"}
    assert fill(preset, {"checkpoint": "no object"})[0]["checkpoint"] == "no object", (
        "for the serializer to refuse"
    )


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("image", "train:1", "train:1"),
        ("memory", "16Gi", {"request": "16Gi", "limit": "16Gi"}),
        ("memory", "16Gi", {"limit": "16384Mi"}),
        ("cpu", {"request": "1", "limit": "2"}, {"limit": "2", "request": "1"}),
        ("cpu", "1", 1),
        ("checkpoint", CHECKPOINT, {**CHECKPOINT, "claim": None}),
        ("env", [{"name": "A", "value": "b"}], [{"name": "A", "value": "b", "secret": None}]),
        ("gpus_per_replica", 2, 2),
    ],
)
def test_a_locked_field_may_be_sent_as_it_is(name, value, sent):
    filled, problems = fill(Preset(name="fixed", defaults={name: value}, locked=[name]), {name: sent})
    assert problems == []
    assert filled[name] == value


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("image", "train:1", "train:2"),
        ("image", "train:1", ""),
        ("image", "train:1", 7),
        ("memory", "16Gi", "16G"),
        ("memory", "16Gi", "lots"),
        ("cpu", {"request": "1", "limit": "2"}, "2"),
        ("checkpoint", CHECKPOINT, {"claim": "mine"}),
        ("labels", {"a": "1"}, {"a": "1", "b": "2"}),
        ("labels", {"a": "1"}, {}),
        ("command", ["python"], ["python", "-c"]),
        ("command", ["1"], [1]),
        ("gpus_per_replica", 1, True),
        ("gang", True, 1),
    ],
)
def test_a_locked_field_with_another_value_is_refused_and_stays_the_templates(name, value, sent):
    filled, problems = fill(Preset(name="fixed", defaults={name: value}, locked=[name]), {name: sent})
    assert codes(problems) == [(name, "locked")]
    assert problems[0][1].message.startswith(f"Template fixed sets {name} to ")
    assert problems[0][1].message.endswith("; it cannot be changed.")
    assert filled[name] == value


def test_limits_hold_for_the_whole_request_also_for_what_nobody_gave():
    preset = Preset(
        name="small",
        minimum={"replicas": 2, "shm": "1Gi", "run_as_user": 1},
        maximum={"memory": "1Gi", "time_limit_seconds": 3600, "checkpoint.interval_seconds": 60},
    )
    found = outside(
        preset,
        stored(time_limit_seconds=7200, run_as_user=0, checkpoint={"path": "/c", "interval_seconds": 61}),
    )
    assert codes(found) == [
        ("replicas", "below_minimum"),
        ("shm", "below_minimum"),
        ("run_as_user", "below_minimum"),
        ("memory", "above_maximum"),
        ("time_limit_seconds", "above_maximum"),
        ("checkpoint.interval_seconds", "above_maximum"),
    ]
    said = dict(found)
    assert said["replicas"].message == "Template small asks for replicas of at least 2; this asks for 1."
    assert said["shm"].message == "Template small asks for shm of at least 1Gi; this request gives none."
    assert said["memory"].message == "Template small allows memory up to 1Gi; this asks for 2Gi."


def test_limits_are_inclusive_and_read_quantities():
    preset = Preset(
        name="a", minimum={"cpu": "500m", "memory": "1Gi"}, maximum={"cpu": 4, "memory": "1024Mi"}
    )
    assert outside(preset, stored(cpu="0.5", memory="1Gi")) == []
    assert outside(preset, stored(cpu="4000m", memory="1Gi")) == []
    assert codes(outside(preset, stored(cpu="4001m", memory="1Gi"))) == [("cpu", "above_maximum")]


def test_a_request_is_held_to_the_minimum_and_a_limit_to_the_maximum():
    preset = Preset(name="a", minimum={"cpu": "2"}, maximum={"cpu": "4"})
    assert codes(outside(preset, stored(cpu={"request": "1", "limit": "4"}))) == [("cpu", "below_minimum")]
    assert codes(outside(preset, stored(cpu={"request": "2", "limit": "5"}))) == [("cpu", "above_maximum")]
    assert limits_in_words(preset, "cpu") == "Template a allows cpu from 2 to 4"


def test_what_contradicts_itself_in_a_template_is_named():
    preset = Preset(
        name="a",
        defaults={"replicas": 9, "cpu": {"limit": "1"}, "image": None},
        minimum={"replicas": 4, "cpu": "2", "max_retries": 3},
        maximum={"replicas": 8, "max_retries": 2},
        locked=["replicas", "image", "shm"],
    )
    assert sorted(codes(contradictions(preset))) == [
        ("defaults.cpu", "below_minimum"),
        ("defaults.replicas", "above_maximum"),
        ("locked.1", "no_default"),
        ("locked.2", "no_default"),
        ("minimum.max_retries", "minimum_above_maximum"),
    ]


@given(body=run_bodies)
def test_a_template_made_of_a_request_fills_nothing_into_it_and_refuses_nothing(body):
    spec = TrainingRunSpec.from_json(body).to_json()
    given = {name: value for name, value in spec.items() if value is not None}
    preset = Preset(name="same", defaults=given, locked=sorted(given))
    filled, problems = fill(preset, body)
    sent = {name for name, value in body.items() if value not in (None, "") and value != given.get(name)}
    assert {path for path, _ in problems} <= sent
    assert TrainingRunSpec.from_json(filled).to_json() == spec
