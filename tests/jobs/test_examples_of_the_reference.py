"""The pages about manifests of the field and about serving: their requests are requests, and their objects hold what
their tables say."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from docs.generate import manifests, serving, serving_examples, training_examples
from docs.generate.manifests import value_at
from inference.runtimes import PRESETS
from inference.serializers import EndpointSerializer
from inference.serving_serializers import RuntimeOptionsSerializer
from jobs.serializers import TrainingRunSerializer

EXAMPLES = {
    each.title: (each, page, serializer)
    for page, serializer, examples in (
        (manifests, TrainingRunSerializer, training_examples.EXAMPLES),
        (serving, EndpointSerializer, serving_examples.EXAMPLES),
    )
    for each in examples
}
by_title = pytest.mark.parametrize(("example", "page", "serializer"), EXAMPLES.values(), ids=EXAMPLES)


@by_title
def test_each_request_is_one_that_rest_takes(example, page, serializer):
    body = serializer(data=copy.deepcopy(dict(example.body)))
    assert body.is_valid(), body.errors


@by_title
def test_the_object_holds_what_each_row_says_and_what_is_not_there_is_not_found(example, page, serializer):
    made = page.build(example)
    for row in example.rows:
        assert row.at
        assert row.holds is not None
        where = next(each for each in made.all() if each["kind"] == row.of) if row.of else made.primary
        assert value_at(where, row) == row.holds, row.asks
    nowhere = replace(example.rows[0], at=("spec", "nowhere", 0, {"name": "x"}))
    assert value_at(made.primary, nowhere) is None


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        (manifests, {"holds": "elsewhere"}),
        (serving, {"of": "Service", "holds": "elsewhere"}),
    ],
    ids=["manifests", "serving"],
)
def test_a_row_that_does_not_hold_stops_the_page(monkeypatch, page, wrong):
    first = page.EXAMPLES[0]
    monkeypatch.setattr(page, "EXAMPLES", (replace(first, rows=[replace(first.rows[0], **wrong)]),))
    with pytest.raises(ValueError, match="elsewhere"):
        page.page()


def test_every_option_belongs_to_a_runtime_and_every_runtime_says_only_what_there_is():
    known = set(RuntimeOptionsSerializer().fields)
    assert known == {name for preset in PRESETS.values() for name in preset.options}
    assert {name for preset in PRESETS.values() for name in preset.refused_options} <= known


@by_title
def test_the_api_server_knows_every_field_and_warns_of_none(real_bench, example, page, serializer):
    served = real_bench.client.served_kinds()
    for manifest in page.build(example).all():
        if example.shows == manifest["kind"] and (manifest["apiVersion"], manifest["kind"]) not in served:
            pytest.skip(f"the cluster serves no {example.shows}")
        assert real_bench.client.warnings_of(real_bench.moved(manifest)) == ()
