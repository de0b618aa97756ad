"""The form of an endpoint loses nothing of a request: what has no input is carried as JSON."""

from __future__ import annotations

import pytest
from django.http import QueryDict
from hypothesis import given, settings

from inference.forms import EndpointForm, values_of
from inference.models import Endpoint
from inference.specs import EndpointSpec
from teams.models import Team
from tests.effort import drawn
from tests.manifest_samples import ENDPOINT_BODIES
from tests.manifest_strategies import endpoint_bodies
from tests.web.test_forms import text

EXAMPLES = drawn(usual=40, landing=100, soak=2_000)
TEAM = Team(slug="vision", name="Vision")
SCALED = {
    "min_replicas": 1,
    "max_replicas": 4,
    "scaling": {"trigger": "cpu", "threshold": 70},
    "run_as_user": 1234,
    "probes": {"liveness": {"path": "/alive"}, "load_budget_seconds": 900},
    "ports": {"metrics": 9100},
    "request_timeout_seconds": 90,
}


def sent(values) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in values.items():
        if name == "sources":
            data.setlist("file_name", [each[0] for each in value])
            data.setlist("file_content", [each[1] for each in value])
        else:
            data[name] = value
    return data


def through_the_form(spec: EndpointSpec) -> EndpointSpec:
    values = {**values_of(spec.to_json()), "team": "vision", "name": spec.name}
    form = EndpointForm(sent(values), teams=[TEAM])
    assert form.is_valid(), form.errors
    return form.serializer.to_spec()


@pytest.mark.parametrize("body", ENDPOINT_BODIES.values(), ids=ENDPOINT_BODIES)
def test_the_samples_pass_through_the_form_as_they_are(body):
    spec = EndpointSpec.from_json(body)
    assert through_the_form(spec) == spec


SCALINGS = (
    SCALED,
    {
        "max_replicas": 3,
        "scale_to_zero": True,
        "scaling": {"trigger": "in-flight", "threshold": 2.5, "cooldown_seconds": 60, "fallback_replicas": 2},
    },
    {
        "max_replicas": 9,
        "scaling": {"trigger": "prometheus", "threshold": 10, "query": "sum(up)", "metric_type": "value"},
    },
    {
        "max_replicas": 5,
        "scaling": {
            "trigger": "cron",
            "schedule": [
                {"start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "timezone": "Europe/Berlin", "replicas": 5}
            ],
        },
    },
)


@pytest.mark.parametrize("scaled", SCALINGS)
def test_what_scales_passes_through_the_form(db, scaled):
    spec = EndpointSpec.from_json({"name": "a", "image": "b:1", **scaled})
    assert through_the_form(spec) == spec


def test_the_usual_ways_to_scale_have_inputs_of_their_own():
    spec = EndpointSpec.from_json({"name": "a", "image": "b:1", **SCALINGS[1]})
    values = values_of(spec.to_json())
    shown = {name: values[name] for name in ("trigger", "threshold", "cooldown", "fallback", "to_zero")}
    assert shown == {
        "trigger": "in-flight",
        "threshold": "2.5",
        "cooldown": "60",
        "fallback": "2",
        "to_zero": True,
    }
    assert values["more"] == ""


@settings(max_examples=EXAMPLES)
@given(body=endpoint_bodies)
def test_any_request_passes_through_the_form(body):
    spec = EndpointSpec.from_json({**body, "image": "b:1"})
    assert through_the_form(spec) == spec


def test_what_the_runtime_fills_in_goes_with_it_and_what_was_said_stays(db):
    triton = EndpointSpec.from_json({"name": "a", "image": "b:1", "runtime": "triton"})
    values = values_of(triton.to_json())
    assert (values["port"], values["readiness_path"], values["more"]) == ("", "", "")
    said = EndpointSpec.from_json({"name": "a", "image": "b:1", "runtime": "triton", "ports": {"http": 9000}})
    assert values_of(said.to_json())["port"] == "9000"


@pytest.mark.django_db(transaction=True)
def test_a_change_on_the_page_leaves_scaling_and_all_else_that_it_does_not_show(ana, world):
    body = {"team": "vision", "name": "a", "image": "b:1", "cpu": "1", "memory": "1Gi", **SCALED}
    assert ana.post("/api/v1/endpoints/", body, content_type="application/json").status_code == 201
    endpoint = Endpoint.objects.get()
    before = endpoint.parsed
    url = f"/endpoints/{endpoint.workload.public_id}/update/"
    assert '<option value="cpu" selected>' in text(ana.get(url))
    values = values_of(endpoint.current.spec) | {"image": "b:2", "made_from": "1"}
    response = ana.post(url, sent(values))
    assert response.status_code == 303, text(response)
    endpoint.refresh_from_db()
    assert endpoint.parsed.to_json() == before.to_json() | {"image": "b:2"}
