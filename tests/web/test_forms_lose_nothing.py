"""The forms of runs and endpoints lose nothing of a request: what has no input is carried as JSON."""

from __future__ import annotations

import json

import pytest
from django.http import QueryDict
from hypothesis import given, settings
from hypothesis import strategies as st

from console.pages.further import combined
from inference.models import Endpoint
from inference.pages.forms import EndpointForm
from inference.pages.forms import values_of as values_of_endpoint
from inference.specs import EndpointSpec
from jobs.forms import TrainingRunForm, values_of
from jobs.models import TrainingRun
from jobs.specs import TrainingRunSpec
from teams.models import Team
from tests.effort import drawn
from tests.manifest_samples import ENDPOINT_BODIES, RUN_BODIES
from tests.manifest_strategies import endpoint_bodies, paths, run_bodies, texts
from tests.web.test_forms import text

EXAMPLES = drawn(usual=15, soak=2_000)
TEAM = Team(slug="vision", name="Vision")
FORMS = {TrainingRunSpec: (TrainingRunForm, values_of), EndpointSpec: (EndpointForm, values_of_endpoint)}


def sent(values) -> QueryDict:
    """What a browser posts of a form with these values."""
    data = QueryDict(mutable=True)
    for name, value in values.items():
        if name == "sources":
            data.setlist("file_name", [each[0] for each in value])
            data.setlist("file_content", [each[1] for each in value])
        else:
            data[name] = value
    return data


def through_the_form(spec: TrainingRunSpec | EndpointSpec) -> TrainingRunSpec | EndpointSpec:
    form_of, written = FORMS[type(spec)]
    values = {**written(spec.to_json()), "team": "vision", "name": spec.name}
    form = form_of(sent(values), teams=[TEAM])
    assert form.is_valid(), form.errors
    return form.serializer.to_spec()


def told(spec: TrainingRunSpec) -> dict:
    """The spec, with its arguments behind its command, where they go in the container anyway."""
    found = spec.to_json()
    return found | {"command": found["command"] + found["args"], "args": []} if found["command"] else found


@pytest.mark.parametrize("body", RUN_BODIES.values(), ids=RUN_BODIES)
def test_the_samples_of_runs_pass_through_the_form_as_they_are(body):
    spec = TrainingRunSpec.from_json(body)
    assert told(through_the_form(spec)) == told(spec)


@pytest.mark.parametrize("body", ENDPOINT_BODIES.values(), ids=ENDPOINT_BODIES)
def test_the_samples_of_endpoints_pass_through_the_form_as_they_are(body):
    spec = EndpointSpec.from_json(body)
    assert through_the_form(spec) == spec


unix_texts = texts.filter(lambda text: "\r" not in text)
odd_bodies = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.just({"request": "1", "limit": "2"}),
        "memory": st.just({"request": "2Gi", "limit": "4Gi"}),
        "config_maps": st.lists(st.fixed_dictionaries({"name": st.just("conf"), "path": paths}), max_size=1),
        "checkpoint": st.just({"path": "/mnt/ckpt", "claim": "ckpt", "interval_seconds": 60}),
        "env": st.just(
            [
                {"name": "A", "value": "one\ntwo"},
                {"name": "TOKEN", "secret": "hf", "key": "token"},
                {"name": "B", "value": "$(A)"},
            ]
        ),
    },
)


@settings(max_examples=EXAMPLES)
@given(body=run_bodies, odd=odd_bodies)
def test_any_run_passes_through_the_form_as_it_is(body, odd):
    files = (body.get("source") or {}).get("files") or {}
    if any("\r" in text for text in files.values()) or any(not name.strip() for name in files):
        return  # a browser sends other ends of lines
    spec = TrainingRunSpec.from_json({**body, **odd})
    assert told(through_the_form(spec)) == told(spec)


def test_what_has_an_input_is_there_and_nothing_else_is_carried():
    values = values_of(TrainingRunSpec.from_json({"name": "a", "image": "b:1", "shm": "8Gi"}).to_json())
    assert (values["image"], values["shm"], values["more"]) == ("b:1", "8Gi", "")


def test_what_has_none_is_carried_alone():
    body = {
        "name": "a",
        "image": "b:1",
        "run_as_user": 0,
        "checkpoint": {"path": "/c", "claim": "x", "interval_seconds": 60},
    }
    values = values_of(TrainingRunSpec.from_json(body).to_json())
    assert json.loads(values["more"]) == {"run_as_user": 0, "checkpoint": {"interval_seconds": 60}}
    assert (values["checkpoint_path"], values["checkpoint_claim"]) == ("/c", "x")


@pytest.mark.parametrize(
    ("command", "written"),
    [(["sh", "-c", "one\ntwo"], "sh -c 'one\ntwo'"), (["run", ""], "run ''"), (["a b"], "'a b'")],
)
def test_a_command_that_is_not_one_argument_a_line_is_written_as_a_shell_takes_it(command, written):
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", "command": command})
    values = values_of(spec.to_json())
    assert (values["command"], values["more"]) == (written, "")
    assert through_the_form(spec) == spec


def test_a_command_that_no_text_can_say_is_carried():
    command = ["run", "one\rtwo"]
    values = values_of(TrainingRunSpec.from_json({"name": "a", "image": "b", "command": command}).to_json())
    assert values["command"] == ""
    assert json.loads(values["more"]) == {"command": command}


def test_arguments_of_the_images_own_command_stay_arguments():
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", "args": ["--lr", "1"]})
    assert through_the_form(spec) == spec


def test_typed_and_carried_parts_make_one_body():
    typed = {"image": "b:1", "env": [], "checkpoint": {"path": "/c"}, "cpu": "4", "gpus_per_replica": 0}
    rest = {
        "env": [1],
        "checkpoint": {"claim": "x"},
        "cpu": "4",
        "image": "c:1",
        "gpus_per_replica": 1,
        "kind": "job",
    }
    body, twice = combined(typed, rest)
    assert body == {**typed, "env": [1], "checkpoint": {"path": "/c", "claim": "x"}, "kind": "job"}
    assert twice == ["image", "gpus_per_replica"]


# --- what scales

SCALED = {
    "min_replicas": 1,
    "max_replicas": 4,
    "scaling": {"trigger": "cpu", "threshold": 70},
    "run_as_user": 1234,
    "probes": {"liveness": {"path": "/alive"}, "load_budget_seconds": 900},
    "ports": {"metrics": 9100},
    "request_timeout_seconds": 90,
}
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
    values = values_of_endpoint(spec.to_json())
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
def test_any_endpoint_passes_through_the_form(body):
    spec = EndpointSpec.from_json({**body, "image": "b:1"})
    assert through_the_form(spec) == spec


def test_what_the_runtime_fills_in_goes_with_it_and_what_was_said_stays(db):
    triton = EndpointSpec.from_json({"name": "a", "image": "b:1", "runtime": "triton"})
    values = values_of_endpoint(triton.to_json())
    assert (values["port"], values["readiness_path"], values["more"]) == ("", "", "")
    said = EndpointSpec.from_json({"name": "a", "image": "b:1", "runtime": "triton", "ports": {"http": 9000}})
    assert values_of_endpoint(said.to_json())["port"] == "9000"


# --- on the page

BASE = {"team": "vision", "name": "a", "image": "b:1", "gpus": "0"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{", "This is not JSON: "),
        ("[1]", "Write an object"),
        ("[" * 19_000, "This is nested too deeply."),
        ('{"image": "c:1"}', "image is given above, too"),
        ('{"colour": "red"}', "colour: There is no such field."),
        ('{"run_as_user": -1}', "run_as_user: Ensure"),
        ('{"env": [{"name": "1"}]}', "env.0.name: "),
        ('{"team": "speech"}', "team is given above, too"),
    ],
)
def test_what_is_wrong_in_the_further_fields_is_said_there(ana, world, more, said):
    response = ana.post("/runs/new/", {**BASE, "more": more})
    page = response.content.decode()
    assert response.status_code == 422
    assert said in page.split('id="id_more_error"')[1][:600]


@pytest.mark.django_db
def test_further_fields_reach_the_run(ana, world):
    Team.objects.update(may_run_as_root=True)
    response = ana.post("/runs/new/", {**BASE, "more": '{"run_as_user": 0, "working_dir": "/srv"}'})
    assert response.status_code == 303
    spec = TrainingRun.objects.get().spec
    assert (spec["run_as_user"], spec["working_dir"]) == (0, "/srv")
    clone = ana.get(f"/runs/new/?from={TrainingRun.objects.get().workload.public_id}").content.decode()
    assert "&#34;working_dir&#34;: &#34;/srv&#34;" in clone


@pytest.mark.django_db(transaction=True)
def test_a_change_on_the_page_leaves_scaling_and_all_else_that_it_does_not_show(ana, world):
    body = {"team": "vision", "name": "a", "image": "b:1", "cpu": "1", "memory": "1Gi", **SCALED}
    assert ana.post("/api/v1/endpoints/", body, content_type="application/json").status_code == 201
    endpoint = Endpoint.objects.get()
    before = endpoint.parsed
    url = f"/endpoints/{endpoint.workload.public_id}/update/"
    assert '<option value="cpu" selected>' in text(ana.get(url))
    values = values_of_endpoint(endpoint.current.spec) | {"image": "b:2", "made_from": "1"}
    response = ana.post(url, sent(values))
    assert response.status_code == 303, text(response)
    endpoint.refresh_from_db()
    assert endpoint.parsed.to_json() == before.to_json() | {"image": "b:2"}
