"""What a version of a spec changes, and what pods notice of it."""

from __future__ import annotations

import pytest

from inference.changes import Effect, changes_between, same_pods
from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from tests.manifest_samples import placement

BASE = {"name": "a", "image": "b:1", "flavor": "a100", "gpus_per_replica": 1}


def spec(**fields):
    return EndpointSpec.from_json({**BASE, **fields})


def changed(**fields):
    return changes_between(spec().to_json(), spec(**fields).to_json())


@pytest.mark.parametrize(
    ("fields", "field", "before", "after", "effect"),
    [
        ({"image": "b:2"}, "image", "b:1", "b:2", "rollout"),
        ({"min_replicas": 2, "max_replicas": 2}, "max_replicas", 1, 2, "size"),
        ({"priority": "high"}, "priority", "normal", "high", "rollout"),
        ({"flavor": "h100"}, "flavor", "a100", "h100", "fixed"),
        ({"gpus_per_replica": 2}, "gpus_per_replica", 1, 2, "fixed"),
        ({"rollout": {"strategy": "replace"}}, "rollout.strategy", "surge", "replace", "next-rollout"),
        ({"labels": {"a.b/c": "d"}}, "labels", {}, {"a.b/c": "d"}, "rollout"),
        ({"ports": {"http": 9}}, "ports.http", 8080, 9, "rollout"),
    ],
)
def test_a_change_is_named_with_what_it_does(fields, field, before, after, effect):
    found = changed(**fields)[0]
    assert (found.field, found.before, found.after, found.effect.value) == (field, before, after, effect)


def test_what_is_empty_is_as_good_as_missing():
    assert changes_between({"args": [], "model": {"claim": None}}, {"args": None, "model": None}) == []


def test_fields_that_are_gone_are_changes():
    (found,) = changes_between({"x": {"y": 1, "z": 2}}, {"x": {"z": 2}})
    assert (found.field, found.before, found.after) == ("x.y", 1, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"min_replicas": 3, "max_replicas": 3},
        {"rollout": {"strategy": "replace", "max_downtime_seconds": 9, "when_blocked": "wait"}},
    ],
)
def test_what_pods_do_not_notice_leaves_their_template_as_it_is(fields):
    cpu = {"flavor": None, "gpus_per_replica": 0}
    before, after = spec(**cpu), spec(**cpu, **fields)
    where = placement("a", "endpoint")
    templates = [
        build_endpoint(each, where, replicas=each.min_replicas, revision=1).primary["spec"]["template"]
        for each in (before, after)
    ]
    assert same_pods(before.to_json(), after.to_json())
    assert templates[0] == templates[1]


def test_every_effect_is_one_that_the_reference_names():
    assert {each.value for each in Effect} == {"rollout", "size", "routing", "next-rollout", "fixed"}
