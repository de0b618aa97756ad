"""Runs that repeat earlier ones: with edits, and from their checkpoints."""

from __future__ import annotations

import pytest
from django.test import Client

from controller.reconcile.gather_placement import placement_of
from jobs.models import TrainingRun
from teams.models import AuditEvent
from tests.api.bench import RUNS, Unchanged, problem, row
from tests.factories.submitted import make_attempt, make_reports, move
from tests.factories.teams import make_member, make_team
from workloads.models import Workload
from workloads.states import Phase

CHECKPOINT = {"path": "/checkpoints", "claim": "ckpt"}
SAVED = "/checkpoints/step-1"


def ended(bench, *, phase: Phase = Phase.SUCCEEDED, path: str = SAVED, **values):
    """A run that has reported a checkpoint and ended."""
    run = bench.run(**{"checkpoint": CHECKPOINT, **values})
    attempt, _ = make_attempt(row(run))
    make_reports(attempt, path=path)
    move(row(run), phase)
    return run


def clone(bench, run, **edits):
    return bench.client.post(f"{RUNS}{run['id']}/clone/", edits)


def resume_point(run) -> str | None:
    return placement_of(row(run), object_name="x", attempt=1).resume_from


def test_a_clone_is_the_same_request_under_the_next_name(bench):
    run = bench.run(name="resnet50", args=["--lr", "0.1"], env=[{"name": "A", "value": "b"}])
    first, second = clone(bench, run), clone(bench, run)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first["Location"] == f"http://testserver{RUNS}{first.json()['id']}/"
    assert [first.json()["name"], second.json()["name"]] == ["resnet50-2", "resnet50-3"]
    assert first.json()["spec"] == {**run["spec"], "name": "resnet50-2"}
    assert TrainingRun.objects.get(workload=row(first.json())).origin == row(run)
    assert resume_point(first.json()) is None


def test_edits_change_what_they_name_and_nothing_else(bench):
    run = bench.run(labels={"a": "1", "b": "2"}, max_retries=3, cpu="2", checkpoint=CHECKPOINT)
    edits = {
        "name": "other",
        "cpu": {"request": "1", "limit": "4"},
        "labels": {"a": None},
        "max_retries": None,
        "checkpoint": {"interval_seconds": 60},
    }
    spec = clone(bench, run, **edits).json()["spec"]
    assert spec == {
        **run["spec"],
        "name": "other",
        "cpu": {"request": "1", "limit": "4"},
        "labels": {"b": "2"},
        "max_retries": 0,
        "checkpoint": {**CHECKPOINT, "interval_seconds": 60},
    }


def test_an_edit_that_is_wrong_is_refused_by_name(bench):
    run = bench.run(checkpoint=CHECKPOINT)
    with Unchanged():
        for edits, field in (
            ({"image": "UPPER"}, "image"),
            ({"image": None}, "image"),
            ({"memory": "lots"}, "memory"),
            ({"colour": "red"}, "colour"),
            ({"colour": None}, "colour"),
            ({"checkpoint": {"claim": None}}, "checkpoint.path"),
            ({"from_checkpoint": "yes"}, "from_checkpoint"),
            ({"from_checkpoint": None}, "from_checkpoint"),
            ({"gpus_per_replica": 64, "flavor": "a100-40gb"}, "gpus_per_replica"),
        ):
            problem(clone(bench, run, **edits), 422, field)
        for nothing in ([], "text", 7):
            problem(bench.client.post(f"{RUNS}{run['id']}/clone/", nothing, format="json"), 422)


def test_a_clone_goes_to_another_team_only_where_one_may_submit(bench):
    run = bench.run()
    make_member("viewer", team=make_team("seen"), user=bench.user)
    make_member(team=make_team("mine"), user=bench.user)
    make_team("hidden")
    with Unchanged():
        problem(clone(bench, run, team="seen"), 403)
        problem(clone(bench, run, team="hidden"), 404, "team")
    copy = clone(bench, run, team="mine").json()
    assert copy["team"] == "mine"
    browser = Client()
    browser.force_login(bench.user)
    page = browser.get(f"/runs/{copy['id']}/").content.decode()
    assert run["id"] not in page, "members of one team are not told of the other's runs"


def test_a_clone_with_an_idempotency_key_is_made_once(bench):
    run = bench.run()
    url, headers = f"{RUNS}{run['id']}/clone/", {"Idempotency-Key": "one"}
    first = bench.client.post(url, {"max_retries": 1}, headers=headers)
    again = bench.client.post(url, {"max_retries": 1}, headers=headers)
    assert first.json()["id"] == again.json()["id"]
    problem(bench.client.post(url, {"max_retries": 2}, headers=headers), 422)
    assert Workload.objects.count() == 2


# --- from a checkpoint


def test_a_retry_from_the_checkpoint_goes_on_where_the_run_left_off(bench):
    run = ended(bench)
    plain = bench.client.post(f"{RUNS}{run['id']}/retry/").json()
    assert resume_point(plain) is None
    move(row(plain), Phase.SUCCEEDED)
    answer = bench.client.post(f"{RUNS}{run['id']}/retry/", {"from_checkpoint": True})
    assert answer.status_code == 201
    again = answer.json()
    assert again["spec"] == run["spec"]
    assert resume_point(again) == SAVED
    listed = bench.client.get(f"{RUNS}{again['id']}/checkpoints/").json()["results"]
    assert [(each["attempt"], each["path"]) for each in listed] == [(0, SAVED)]
    audited = AuditEvent.objects.filter(target_id=again["id"], action="training-run.submitted").get()
    assert audited.after == {"name": run["name"], "origin": run["id"], "resume_from": SAVED}


def test_what_the_new_run_saves_itself_is_newer_than_what_it_began_with(bench):
    again = bench.client.post(f"{RUNS}{ended(bench)['id']}/retry/", {"from_checkpoint": True}).json()
    attempt, _ = make_attempt(row(again))
    make_reports(attempt, path="/checkpoints/step-2")
    assert placement_of(row(again), object_name="x", attempt=2).resume_from == "/checkpoints/step-2"
    move(row(again), Phase.SUCCEEDED)
    third = bench.client.post(f"{RUNS}{again['id']}/retry/", {"from_checkpoint": True}).json()
    assert resume_point(third) == "/checkpoints/step-2"


def test_a_run_that_saved_nothing_itself_hands_on_what_it_began_with(bench):
    again = bench.client.post(f"{RUNS}{ended(bench)['id']}/retry/", {"from_checkpoint": True}).json()
    move(row(again), Phase.SUCCEEDED)
    third = bench.client.post(f"{RUNS}{again['id']}/retry/", {"from_checkpoint": True}).json()
    assert resume_point(third) == SAVED


def test_a_clone_goes_on_with_more_memory(bench):
    copy = clone(bench, ended(bench), memory="64Gi", from_checkpoint=True).json()
    assert copy["spec"]["memory"] == "64Gi"
    assert resume_point(copy) == SAVED


@pytest.mark.parametrize("verb", ["retry", "clone"])
def test_there_must_be_a_checkpoint_of_a_run_that_has_ended(bench, verb):
    alive = ended(bench, phase=Phase.RUNNING)
    bare = bench.run()
    move(row(bare), Phase.SUCCEEDED)
    with Unchanged():
        for run, code in ((alive, "not_ended"), (bare, "no_checkpoint")):
            answer = bench.client.post(f"{RUNS}{run['id']}/{verb}/", {"from_checkpoint": True})
            problem(answer, 409, "from_checkpoint", code=code)


@pytest.mark.parametrize(
    "edits",
    [
        {"checkpoint": None},
        {"checkpoint": {"claim": "other"}},
        {"checkpoint": {"path": "/elsewhere"}},
        {"checkpoint": None, "volumes": [{"claim": "other", "path": "/checkpoints"}]},
    ],
)
def test_a_clone_that_does_not_mount_the_checkpoint_cannot_go_on_from_it(bench, edits):
    run = ended(bench)
    with Unchanged():
        problem(clone(bench, run, from_checkpoint=True, **edits), 422, "from_checkpoint", code="not_mounted")


def test_a_clone_may_mount_the_checkpoint_in_another_way(bench):
    edits = {"checkpoint": None, "volumes": [{"claim": "ckpt", "path": "/checkpoints"}]}
    assert resume_point(clone(bench, ended(bench), from_checkpoint=True, **edits).json()) == SAVED


def test_another_team_has_not_the_claim_but_may_have_the_bucket(bench):
    make_member(team=make_team("mine"), user=bench.user)
    near = ended(bench)
    with Unchanged():
        answer = clone(bench, near, team="mine", from_checkpoint=True)
        problem(answer, 422, "from_checkpoint", code="not_mounted")
    far = ended(bench, name="far", path="s3://bucket/step-1")
    assert resume_point(clone(bench, far, team="mine", from_checkpoint=True).json()) == "s3://bucket/step-1"
