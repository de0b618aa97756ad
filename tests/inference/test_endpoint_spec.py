from __future__ import annotations

import pytest

from inference.specs import EndpointSpec

MINIMAL = {"name": "a", "image": "b"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("headroom", "lendable"),
        ("scale_to_zero", False),
        ("rate_limit", {"requests_per_second": None, "burst": None}),
        ("model", {"uri": None}),
        ("runtime_options", {"batch_size": None, "models": []}),
        ("scaling", {}),
        ("runtime", "custom"),
        ("max_replicas", 1),
    ],
)
def test_the_default_of_a_later_field_says_nothing(field, value):
    assert EndpointSpec.from_json({**MINIMAL, field: value}) == EndpointSpec.from_json(MINIMAL)


def test_at_most_as_many_replicas_as_at_least_are_meant_where_nothing_is_said():
    assert EndpointSpec.from_json({**MINIMAL, "min_replicas": 3}).max_replicas == 3


def test_a_request_without_ports_and_probes_serves_on_8080_and_has_ten_minutes_to_load():
    spec = EndpointSpec.from_json(MINIMAL)
    assert spec.ports.named() == {"http": 8080}
    assert spec.probes.readiness.path is None
    assert spec.probes.liveness is None
    assert spec.probes.load_budget_seconds == 600
