from __future__ import annotations

import pytest
from hypothesis import given

from foundation.errors import Invalid
from inference.specs import NOT_YET_SUPPORTED, EndpointSpec
from tests.manifest_strategies import endpoint_bodies

MINIMAL = {"name": "a", "image": "b"}
LATER = {
    "template": "big",
}


def with_value(path: str, value: object) -> dict:
    head, _, rest = path.partition(".")
    return {**MINIMAL, head: {rest: value} if rest else value}


@given(body=endpoint_bodies)
def test_a_spec_survives_being_stored(body):
    spec = EndpointSpec.from_json(body)
    assert EndpointSpec.from_json(spec.to_json()) == spec


def test_every_later_field_has_a_case():
    assert set(LATER) == set(NOT_YET_SUPPORTED)


@pytest.mark.parametrize("path", LATER)
def test_a_field_that_is_not_supported_yet_is_refused_by_name(path):
    with pytest.raises(Invalid) as caught:
        EndpointSpec.from_json(with_value(path, LATER[path]))
    assert [(error.field, error.code) for error in caught.value.errors] == [
        (path.replace("*", "0"), "not_yet_supported")
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("headroom", "lendable"),
        ("scale_to_zero", False),
        ("rate_limit", {"requests_per_second": None, "burst": None}),
        ("model.uri", None),
        ("runtime_options", {"batch_size": None, "models": []}),
        ("scaling", {}),
        ("runtime", "custom"),
        ("max_replicas", 1),
    ],
)
def test_the_default_of_a_later_field_says_nothing(path, value):
    assert EndpointSpec.from_json(with_value(path, value)) == EndpointSpec.from_json(MINIMAL)


def test_at_most_as_many_replicas_as_at_least_are_meant_where_nothing_is_said():
    assert EndpointSpec.from_json({**MINIMAL, "min_replicas": 3}).max_replicas == 3


def test_a_request_without_ports_and_probes_serves_on_8080_and_has_ten_minutes_to_load():
    spec = EndpointSpec.from_json(MINIMAL)
    assert spec.ports.named() == {"http": 8080}
    assert spec.probes.readiness.path is None
    assert spec.probes.liveness is None
    assert spec.probes.load_budget_seconds == 600
