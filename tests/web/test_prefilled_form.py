"""The form loses nothing of a request: what has no input is carried as JSON."""

from __future__ import annotations

import json

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.page_further import combined
from jobs.forms import TrainingRunForm, values_of
from jobs.specs import TrainingRunSpec
from teams.models import Team
from tests.effort import drawn
from tests.manifest_samples import RUN_BODIES
from tests.manifest_strategies import paths, run_bodies, texts

EXAMPLES = drawn(usual=40, landing=100, soak=2_000)
TEAM = Team(slug="vision", name="Vision")


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


def through_the_form(spec: TrainingRunSpec) -> TrainingRunSpec:
    values = {**values_of(spec.to_json()), "team": "vision", "name": spec.name}
    form = TrainingRunForm(sent(values), teams=[TEAM])
    assert form.is_valid(), form.errors
    return form.serializer.to_spec()


def told(spec: TrainingRunSpec) -> dict:
    """The spec, with its arguments behind its command, where they go in the container anyway."""
    found = spec.to_json()
    return found | {"command": found["command"] + found["args"], "args": []} if found["command"] else found


@pytest.mark.parametrize("body", RUN_BODIES.values(), ids=RUN_BODIES)
def test_the_samples_pass_through_the_form_as_they_are(body):
    spec = TrainingRunSpec.from_json(body)
    assert told(through_the_form(spec)) == told(spec)


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


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=EXAMPLES)
@given(body=run_bodies, odd=odd_bodies)
def test_any_request_passes_through_the_form_as_it_is(body, odd):
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


# --- on the page

BASE = {"team": "vision", "name": "a", "image": "b:1", "gpus": "0"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{", "This is not JSON."),
        ("[1]", "Write an object"),
        ("[" * 100_000, "This is not JSON."),
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
    from jobs.models import TrainingRun

    response = ana.post("/runs/new/", {**BASE, "more": '{"run_as_user": 0, "working_dir": "/srv"}'})
    assert response.status_code == 303
    spec = TrainingRun.objects.get().spec
    assert (spec["run_as_user"], spec["working_dir"]) == (0, "/srv")
    clone = ana.get(f"/runs/new/?from={TrainingRun.objects.get().workload.public_id}").content.decode()
    assert "&quot;working_dir&quot;: &quot;/srv&quot;" in clone
