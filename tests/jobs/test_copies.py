"""What a run takes over from an earlier one, as pure functions."""

from __future__ import annotations

import pytest

from jobs.copies import claim_around, merged
from jobs.specs import TrainingRunSpec
from workloads.naming import next_name, stem_of


def test_edits_are_a_merge_patch():
    stored = {"image": "a", "env": [{"name": "A"}], "labels": {"x": "1", "y": "2"}, "shm": None, "cpu": "2"}
    edits = {
        "env": [],
        "labels": {"x": None, "z": "3"},
        "cpu": {"request": "1", "limit": "4"},
        "image": None,
        "checkpoint": {"path": "/c"},
        "colour": None,
    }
    assert merged(stored, edits) == {
        "env": [],
        "labels": {"y": "2", "z": "3"},
        "cpu": {"request": "1", "limit": "4"},
        "checkpoint": {"path": "/c"},
        "colour": None,
    }
    assert stored["labels"] == {"x": "1", "y": "2"}, "what was given stays as it was"


@pytest.mark.parametrize(
    ("name", "taken", "following"),
    [
        ("resnet50", [], "resnet50-2"),
        ("resnet50", ["resnet50-2", "resnet50-3"], "resnet50-4"),
        ("resnet50-9", [], "resnet50-10"),
        ("resnet-050", [], "resnet-050-2"),
        ("a-0", [], "a-0-2"),
        ("x" * 40, [], "x" * 38 + "-2"),
        ("x" * 38 + "-9", ["x" * 37 + "-10"], "x" * 37 + "-11"),
        ("x" * 37 + "--9", [], "x" * 37 + "-10"),
    ],
)
def test_a_copy_has_the_next_free_name(name, taken, following):
    assert next_name(name, taken) == following
    assert following.startswith(stem_of(name))


def spec(**values) -> TrainingRunSpec:
    return TrainingRunSpec.from_json({"name": "a", "image": "b", **values})


def test_a_path_lies_in_the_nearest_claim_around_it():
    volumes = [{"claim": "outer", "path": "/data"}, {"claim": "inner", "path": "/data/ckpt"}]
    assert claim_around(spec(volumes=volumes), "/data/ckpt/step-1") == "inner"
    assert claim_around(spec(volumes=volumes), "/data/other") == "outer"
    own = spec(checkpoint={"path": "/checkpoints", "claim": "ckpt"})
    assert claim_around(own, "/checkpoints/step-1") == "ckpt"
    assert claim_around(own, "s3://bucket/step-1") is None
    assert claim_around(own, "/checkpoints-old/step-1") is None
