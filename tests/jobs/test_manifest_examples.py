"""The page about manifests of the field: its requests are requests, and its objects hold what its tables say."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from jobs.serializers import TrainingRunSerializer
from portal.manifest_examples import EXAMPLES
from portal.reference_manifests import build, found, page

TITLES = [example.title for example in EXAMPLES]
by_title = pytest.mark.parametrize("example", EXAMPLES, ids=TITLES)


@by_title
def test_each_request_is_one_that_rest_takes(example):
    body = TrainingRunSerializer(data=copy.deepcopy(dict(example.body)))
    assert body.is_valid(), body.errors


@by_title
def test_the_object_holds_what_each_row_says(example):
    made = build(example).primary
    assert {row.asks: found(made, row) for row in example.rows} == {
        row.asks: row.holds for row in example.rows
    }


@by_title
def test_every_row_points_at_something_and_what_is_not_there_is_not_found(example):
    made = build(example).primary
    assert all(row.at and row.holds is not None for row in example.rows)
    assert found(made, replace(example.rows[0], at=("spec", "nowhere", 0, {"name": "x"}))) is None


def test_a_row_that_does_not_hold_stops_the_page(monkeypatch):
    first = EXAMPLES[0]
    wrong = replace(first, rows=[replace(first.rows[0], holds="elsewhere")])
    monkeypatch.setattr("portal.reference_manifests.EXAMPLES", (wrong,))
    with pytest.raises(ValueError, match="elsewhere"):
        page()


@pytest.mark.parametrize("example", EXAMPLES, ids=TITLES)
def test_the_api_server_knows_every_field_and_warns_of_none(real_bench, example):
    for manifest in build(example).all():
        assert real_bench.client.warnings_of(real_bench.moved(manifest)) == ()
