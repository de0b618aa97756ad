from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from cluster import kinds, labels, names, quantities
from cluster.errors import ClusterRejected

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
NUMBERS = st.from_regex(r"\A[+-]?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})\Z")
LIMIT = 2**63 - 1


@given(NUMBERS, st.sampled_from(SUFFIXES))
def test_a_quantity_means_what_the_official_client_says_it_means(number, suffix):
    expected = parse_quantity(number + suffix)
    if abs(expected) > LIMIT:
        with pytest.raises(ValueError, match="larger"):
            quantities.parse(number + suffix)
    else:
        assert abs(quantities.parse(number + suffix) - expected) <= abs(expected) * Decimal("1e-26")


@given(st.text(max_size=12))
def test_no_text_is_taken_for_a_quantity_that_the_official_client_refuses(text):
    if quantities.validate(text) is None:
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("1E", "1e18"),
        ("2Gi", str(2 * 2**30)),
        ("5.", "5"),
        (3, "3"),
    ],
)
def test_quantities_are_read_exactly(text, value):
    assert quantities.parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    ["", "Gi", "1 Gi", "1gi", "1KiB", "0x1", "NaN", "Infinity", "1_000", "\u0661", "1\n", "1e999", "10E"],
)
def test_what_is_no_quantity_is_refused_with_a_sentence(text):
    assert quantities.validate(text)


def test_a_negative_quantity_may_not_be_requested():
    assert quantities.validate("-1") == "a quantity must not be negative"


@given(st.text(max_size=80), st.from_regex(r"\A[0-9a-f]{8}\Z"), st.integers(0, 9999))
def test_every_object_name_is_valid_deterministic_and_its_own(name, short_id, attempt):
    made = names.object_name(workload_name=name, short_id=short_id, attempt=attempt)
    assert re.fullmatch(r"[a-z][a-z0-9-]*", made)
    assert len(made) <= 40
    assert made.endswith(f"-{short_id}-{attempt}")
    assert made == names.object_name(workload_name=name, short_id=short_id, attempt=attempt)


def test_a_readable_name_stays_readable():
    assert (
        names.object_name(workload_name="ResNet_50 v2", short_id="0a1b2c3d", attempt=2)
        == "resnet-50-v2-0a1b2c3d-2"
    )
    assert names.object_name(workload_name="3d", short_id="0a1b2c3d", attempt=1) == "w-3d-0a1b2c3d-1"


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "../secrets", "a%2fb", "a?x", "a#", "a b", "ü", "a\n"]
)
def test_no_name_leaves_its_place_in_a_path(name):
    for given_names in ({"namespace": name, "name": "x"}, {"namespace": "x", "name": name}):
        with pytest.raises(ClusterRejected, match="not a name"):
            kinds.JOB.path(**given_names)


def test_paths_are_those_of_the_api():
    assert kinds.POD.path(namespace="a", name="b", sub="log") == "/api/v1/namespaces/a/pods/b/log"
    assert kinds.JOB.path() == "/apis/batch/v1/jobs"
    assert kinds.NODE.path(name="n-1") == "/api/v1/nodes/n-1"


def test_a_manifest_without_a_name_or_of_an_unknown_kind_is_refused():
    with pytest.raises(ClusterRejected, match="generateName"):
        kinds.ref_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}})
    with pytest.raises(ClusterRejected, match="does not know"):
        kinds.find("v1", "Binding")


def test_labels_and_selectors_agree():
    made = labels.workload_labels(workload_id="w", attempt=1, team="t", kind="run")
    wanted = dict(
        part.split("=")
        for part in labels.selector(workload_id="w", attempt=1, team="t", kind="run").split(",")
    )
    assert wanted == made
    assert labels.selector() == "app.kubernetes.io/managed-by=ml-portal"
