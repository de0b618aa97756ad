"""The page about serving: its requests are requests, and its objects hold what its tables say."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from inference.runtimes import PRESETS
from inference.serializers import EndpointSerializer, RuntimeOptionsSerializer
from portal.reference_manifests import found
from portal.reference_serving import build, page
from portal.serving_examples import EXAMPLES

by_title = pytest.mark.parametrize("example", EXAMPLES, ids=[example.title for example in EXAMPLES])


@by_title
def test_each_request_is_one_that_rest_takes(example):
    body = EndpointSerializer(data=copy.deepcopy(dict(example.body)))
    assert body.is_valid(), body.errors


@by_title
def test_the_object_holds_what_each_row_says(example):
    made = {manifest["kind"]: manifest for manifest in build(example).all()}
    for row in example.rows:
        assert found(made[row.of or "Deployment"], row) == row.holds, row.asks


def test_a_row_that_does_not_hold_stops_the_page(monkeypatch):
    first = EXAMPLES[0]
    wrong = replace(first, rows=[replace(first.rows[0], of="Service", holds="elsewhere")])
    monkeypatch.setattr("portal.reference_serving.EXAMPLES", (wrong,))
    with pytest.raises(ValueError, match="elsewhere"):
        page()


def test_every_option_belongs_to_a_runtime_and_every_runtime_says_only_what_there_is():
    known = set(RuntimeOptionsSerializer().fields)
    assert known == {name for preset in PRESETS.values() for name in preset.options}
    assert {name for preset in PRESETS.values() for name in preset.refused_options} <= known


@by_title
def test_the_api_server_knows_every_field_and_warns_of_none(real_bench, example):
    served = real_bench.client.served_kinds()
    for manifest in build(example).all():
        if example.shows == manifest["kind"] and (manifest["apiVersion"], manifest["kind"]) not in served:
            pytest.skip(f"the cluster serves no {example.shows}")
        assert real_bench.client.warnings_of(real_bench.moved(manifest)) == ()
