"""Templates, and requests that name one."""

from __future__ import annotations

import pytest
from django.test import Client, RequestFactory

from foundation import clock
from foundation.errors import NotFound, PreconditionFailed
from foundation.http.etag import expected_versions
from foundation.models import PlatformSettings
from jobs.catalogue import delete_template, set_template
from jobs.models import RunTemplate, TrainingRun
from teams.models import AuditEvent
from tests.api.bench import RUNS, Unchanged, problem
from tests.factories.submitted import move, run_body
from tests.factories.teams import ACTOR, PASSWORD, make_user
from workloads.models import Workload
from workloads.states import Phase

TEMPLATES = "/api/v1/templates/"
SMALL = {
    "name": "small",
    "title": "One GPU",
    "description": "For a first try.",
    "defaults": {
        "image": "example.org/train:1",
        "flavor": "a100-40gb",
        "memory": "16Gi",
        "run_as_user": 1001,
        "time_limit_seconds": 600,
        "checkpoint": {"path": "/checkpoints", "interval_seconds": 60},
    },
    "minimum": {"gpus_per_replica": 1},
    "maximum": {"gpus_per_replica": 2, "time_limit_seconds": 3600},
    "locked": ["image", "run_as_user"],
}


@pytest.fixture
def small(bench, admin):
    answer = admin.post(TEMPLATES, SMALL)
    assert answer.status_code == 200, answer.content
    return answer.json()


def body(**values):
    bare = {key: value for key, value in run_body("vision").items() if key != "image"}
    return {**bare, "template": "small", "checkpoint": {"claim": "ckpt"}, **values}


# --- what a template is


def test_a_template_is_made_read_changed_and_deleted(bench, admin, small):
    policy = {"idle_warn_minutes": None, "idle_stop_minutes": None}
    assert small == {**SMALL, **policy, "enabled": True, "order": 100, "version": 1}
    assert bench.client.get(f"{TEMPLATES}small/").json() == small
    assert bench.client.get(TEMPLATES).json()["results"] == [small]
    assert admin.post(TEMPLATES, SMALL).json()["version"] == 1, "nothing was different"
    changed = admin.patch(f"{TEMPLATES}small/", {"maximum": {"gpus_per_replica": 4}}).json()
    assert (changed["version"], changed["maximum"]) == (2, {"gpus_per_replica": 4})
    assert changed["defaults"] == SMALL["defaults"]
    assert admin.delete(f"{TEMPLATES}small/").status_code == 204
    problem(bench.client.get(f"{TEMPLATES}small/"), 404)
    actions = (
        AuditEvent.objects.filter(target_kind="template").order_by("id").values_list("action", flat=True)
    )
    assert list(actions) == ["template.changed", "template.changed", "template.deleted"]


def test_a_quota_manager_changes_no_template(manager, small):
    with Unchanged():
        problem(manager.post(TEMPLATES, {**SMALL, "title": "Other"}), 403)
        problem(manager.patch(f"{TEMPLATES}small/", {"title": "Other"}), 403)
        problem(manager.delete(f"{TEMPLATES}small/"), 403)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"defaults": {"image": "UPPER"}}, "defaults.image", "invalid_image"),
        ({"defaults": {"colour": "red"}}, "defaults.colour", "unknown_field"),
        ({"defaults": {"team": "vision"}}, "defaults.team", "unknown_field"),
        ({"defaults": {"template": "small"}}, "defaults.template", "unknown_field"),
        ({"defaults": {"env": [{"value": "x"}]}}, "defaults.env.0.name", "required"),
        ({"defaults": {"memory": "lots"}}, "defaults.memory", "invalid_quantity"),
        ({"defaults": {"shm": "8Gi", "checkpoint": 7}}, "defaults.checkpoint", "invalid"),
        ({"defaults": {"flavor": "h900"}}, "defaults.flavor", "unknown_flavor"),
        (
            {"defaults": {"volumes": [{"claim": "a", "path": "/x"}, {"claim": "b", "path": "/x"}]}},
            "defaults.volumes.1.path",
            "duplicate",
        ),
        ({"defaults": []}, "defaults", "not_a_dict"),
        ({"minimum": {"image": 1}}, "minimum.image", "unknown_field"),
        ({"minimum": {"gpus_per_replica": "two"}}, "minimum.gpus_per_replica", "invalid"),
        ({"minimum": {"gpus_per_replica": None}}, "minimum.gpus_per_replica", "invalid"),
        ({"minimum": {"gpus_per_replica": -1}}, "minimum.gpus_per_replica", "min_value"),
        ({"maximum": {"cpu": {"limit": "4"}}}, "maximum.cpu", "invalid"),
        ({"maximum": {"cpu": "many"}}, "maximum.cpu", "invalid_quantity"),
        ({"maximum": {"template_version": 4}}, "maximum.template_version", "unknown_field"),
        ({"minimum": {"replicas": 3}, "maximum": {"replicas": 2}}, "minimum.replicas", "minimum_above_maximum"),
        ({"locked": ["colour"]}, "locked.0", "unknown_field"),
        ({"locked": ["name"], "defaults": {"name": "x"}}, "locked.0", "unknown_field"),
        ({"name": "Not A Name"}, "name", "invalid_name"),
        ({"title": ""}, "title", "blank"),
        ({"order": -1}, "order", "min_value"),
        ({"colour": "red"}, "colour", "unknown_field"),
    ],
)  # fmt: skip
def test_a_template_that_no_run_could_be_made_of_is_refused(bench, admin, change, field, code):
    with Unchanged():
        problem(admin.post(TEMPLATES, {"name": "x", "title": "X", **change}), 422, field, code=code)


def test_half_a_request_is_a_good_template(bench, admin):
    """The user brings the claim of the checkpoints, the flavor of the GPUs, the memory around /dev/shm."""
    defaults = {"gpus_per_replica": 8, "shm": "64Gi", "checkpoint": {"interval_seconds": 60}}
    assert admin.post(TEMPLATES, {"name": "x", "title": "X", "defaults": defaults}).status_code == 200


# --- a request that names one


def test_a_run_begins_with_what_the_template_says(bench, small):
    answer = bench.client.post(RUNS, body(memory="32Gi"))
    assert answer.status_code == 201, answer.content
    spec = answer.json()["spec"]
    assert (spec["image"], spec["memory"], spec["run_as_user"]) == ("example.org/train:1", "32Gi", 1001)
    assert spec["checkpoint"] == {"path": "/checkpoints", "claim": "ckpt", "interval_seconds": 60}
    assert (spec["template"], spec["template_version"]) == ("small", 1)
    preview = bench.client.post(f"{RUNS}preview/", body(name="other"))
    assert preview.json()["quota"]["after"]["used"] == 2, "the one before it, which starts now, and itself"


@pytest.mark.parametrize(
    ("values", "field", "code", "said"),
    [
        ({"image": "example.org/train:2"}, "image", "locked", "Template small sets image to example.org/train:1; it cannot"),
        ({"run_as_user": 0}, "run_as_user", "locked", "cannot be changed"),
        ({"gpus_per_replica": 3}, "gpus_per_replica", "above_maximum", "from 1 to 2; this asks for 3"),
        ({"gpus_per_replica": 0}, "gpus_per_replica", "below_minimum", "from 1 to 2; this asks for 0"),
        ({"time_limit_seconds": 3601}, "time_limit_seconds", "above_maximum", "up to 3600"),
        ({"template": "large"}, "template", "unknown_template", "There is: small."),
        ({"template": ["small"], "image": "a:1", "checkpoint": None}, "template", "invalid", "text"),
        ({"template_version": 2}, "template_version", "changed", "version 1 now"),
        ({"template_version": True}, "template_version", "changed", "version 1 now"),
        ({"template": None, "image": "a:1", "checkpoint": None, "template_version": 1}, "template", "required", "name it"),
    ],
)  # fmt: skip
def test_what_the_template_does_not_allow_is_refused_with_the_rule(bench, small, values, field, code, said):
    with Unchanged():
        answer = problem(bench.client.post(RUNS, body(**values)), 422, field, code=code)
    assert said in answer["errors"][0]["message"]


def test_all_that_is_wrong_is_told_at_once(bench, small):
    sent = body(image="example.org/train:2", memory="lots", colour="red")
    for path in (RUNS, f"{RUNS}preview/"):
        problem(bench.client.post(path, sent), 422, "image", "memory", "colour")


def test_the_limit_of_the_platform_is_held_against_the_templates(bench, admin):
    """A time limit that nobody gave is the platform's, which may be longer than the template allows."""
    bounds = {"maximum": {"time_limit_seconds": 60}}
    admin.post(TEMPLATES, {"name": "short", "title": "Short", **bounds})
    default = PlatformSettings.current().default_time_limit_seconds
    answer = problem(bench.client.post(RUNS, run_body("vision", template="short")), 422, "time_limit_seconds")
    assert f"this asks for {default}" in answer["errors"][0]["message"]


def test_a_template_that_is_disabled_is_none(bench, admin, small):
    admin.patch(f"{TEMPLATES}small/", {"enabled": False})
    answer = problem(bench.client.post(RUNS, body()), 422, "template", code="unknown_template")
    assert "There is: none." in answer["errors"][0]["message"]


def test_no_template_is_no_template(bench, small):
    for nothing in (None, ""):
        run = bench.run(template=nothing)
        assert (run["spec"]["template"], run["spec"]["template_version"]) == (None, None)


def test_a_retry_is_what_the_run_was_and_a_clone_what_the_template_is_now(bench, admin, small):
    run = bench.client.post(RUNS, body()).json()
    move(Workload.objects.get(public_id=run["id"]), Phase.SUCCEEDED)
    newer = {**SMALL["defaults"], "image": "example.org/train:2", "memory": "8Gi"}
    admin.patch(f"{TEMPLATES}small/", {"defaults": newer})
    again = bench.client.post(f"{RUNS}{run['id']}/retry/").json()
    assert again["spec"] == run["spec"]
    copy = bench.client.post(f"{RUNS}{run['id']}/clone/").json()["spec"]
    assert (copy["image"], copy["memory"], copy["template_version"]) == ("example.org/train:2", "16Gi", 2)
    url = f"{RUNS}{run['id']}/clone/"
    problem(bench.client.post(url, {"image": "example.org/train:1"}), 422, "image", code="locked")
    free = bench.client.post(url, {"image": "example.org/mine:1", "template": None}).json()["spec"]
    assert (free["image"], free["template"], free["template_version"]) == ("example.org/mine:1", None, None)


def test_a_run_outlives_its_template(bench, admin, small):
    run = bench.client.post(RUNS, body()).json()
    admin.delete(f"{TEMPLATES}small/")
    assert bench.client.get(f"{RUNS}{run['id']}/").json()["spec"] == run["spec"]
    assert TrainingRun.objects.get().parsed.template == "small"
    problem(bench.client.post(f"{RUNS}{run['id']}/clone/"), 422, "template", code="unknown_template")


# --- the admin site


@pytest.fixture
def console(bench):
    make_user("root", platform_admin=True)
    client = Client()
    assert client.login(username="root", password=PASSWORD)
    return client


FORM = {
    "name": "tiny",
    "title": "Tiny",
    "description": "",
    "defaults": '{"image": "a:1"}',
    "minimum": "{}",
    "maximum": '{"replicas": 1}',
    "locked": '["image"]',
    "enabled": "on",
    "order": "5",
}


def test_templates_are_edited_in_the_admin_site(console):
    added = console.post("/admin/jobs/runtemplate/add/", FORM)
    assert added.status_code == 302, added.content.decode()
    template = RunTemplate.objects.get()
    assert (template.locked, template.version, template.order) == (["image"], 1, 5)
    url = f"/admin/jobs/runtemplate/{template.pk}/"
    assert console.post(f"{url}change/", {**FORM, "title": "Tinier"}).status_code == 302
    template.refresh_from_db()
    assert (template.title, template.version) == ("Tinier", 2)
    assert console.post(f"{url}delete/", {"post": "yes"}).status_code == 302
    assert not RunTemplate.objects.exists()
    assert AuditEvent.objects.filter(target_kind="template", actor_label="root").count() == 3


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"defaults": '{"image": "UPPER"}'}, "defaults", "image: Write an image"),
        ({"locked": '["memory"]'}, "locked", "only with a value among the defaults"),
        ({"maximum": '{"replicas": 0}'}, "maximum", "replicas: "),
        ({"minimum": "[]"}, "minimum", "object"),
        ({"defaults": "{"}, "defaults", "JSON"),
        ({"defaults": '{"image": "a:1", "flavor": "h900"}'}, "", "There is no such flavor"),
    ],
)
def test_the_admin_site_refuses_what_rest_refuses(console, change, field, said):
    response = console.post("/admin/jobs/runtemplate/add/", {**FORM, **change}, follow=True)
    page = response.content.decode()
    assert said in page
    assert not field or f'id="id_{field}_error"' in page or f"field-{field}" in page
    assert not RunTemplate.objects.exists()


def test_a_second_time_the_same_template_changes_nothing(bench):
    values = {**SMALL, "actor": ACTOR, "now": clock.now()}
    assert set_template(**values)[1]
    with Unchanged():
        assert not set_template(**values)[1]


# --- what becomes of a run afterwards


def test_a_limit_of_the_template_holds_for_a_run_that_exists(bench, small):
    run = bench.client.post(RUNS, body()).json()
    path = f"{RUNS}{run['id']}/"
    assert bench.client.patch(path, {"time_limit_seconds": 3600}).json()["spec"]["time_limit_seconds"] == 3600
    with Unchanged():
        problem(bench.client.patch(path, {"time_limit_seconds": 3601}), 422, "time_limit_seconds")


def test_a_locked_field_cannot_be_changed_afterwards(bench, admin):
    locked = {**SMALL, "locked": ["image", "time_limit_seconds"]}
    assert admin.post(TEMPLATES, locked).status_code == 200
    path = f"{RUNS}{bench.client.post(RUNS, body()).json()['id']}/"
    with Unchanged():
        problem(bench.client.patch(path, {"time_limit_seconds": 900}), 422, "time_limit_seconds")
    assert bench.client.patch(path, {"priority": "low"}).status_code == 200


def test_a_template_that_is_gone_forbids_nothing(bench, admin, small):
    path = f"{RUNS}{bench.client.post(RUNS, body()).json()['id']}/"
    RunTemplate.objects.all().delete()
    assert bench.client.patch(path, {"time_limit_seconds": 7200}).status_code == 200


def test_a_template_that_is_gone_is_neither_deleted_again_nor_brought_back(admin, small):
    stale = RunTemplate.objects.get(name="small")
    tag = admin.get(f"{TEMPLATES}small/")["ETag"]
    assert admin.delete(f"{TEMPLATES}small/").status_code == 204
    with pytest.raises(NotFound):
        delete_template(template=stale, actor=ACTOR, now=clock.now())
    seen = expected_versions(RequestFactory().patch("/", headers={"If-Match": tag}))
    with pytest.raises(PreconditionFailed):
        set_template(name="small", title="Back", actor=ACTOR, now=clock.now(), expected_versions=seen)
    assert admin.post(TEMPLATES, {"name": "small", "title": "Another"}).status_code == 200
    problem(admin.patch(f"{TEMPLATES}small/", {"title": "x"}, headers={"If-Match": tag}), 412)
