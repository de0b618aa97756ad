"""Labels of a run that exists: what changes with them, and what does not."""

from __future__ import annotations

import pytest

from console.api.workloads import manifests_of
from jobs.models import TrainingRun
from teams.models import AuditEvent
from tests.api.bench import RUNS, Unchanged, problem, row
from tests.factories.submitted import move
from tests.factories.teams import api_client, make_member
from workloads.models import Workload
from workloads.states import Phase


def label(bench, run, labels, **headers):
    return bench.client.patch(f"{RUNS}{run['id']}/", {"labels": labels}, headers=headers)


def found(bench, wanted: str) -> list[str]:
    return [each["id"] for each in bench.client.get(RUNS, {"label": wanted}).json()["results"]]


def test_labels_are_replaced_as_a_whole_and_found_by_at_once(bench):
    run = bench.run(labels={"project": "a", "step": "1"})
    answer = label(bench, run, {"project": "b"})
    assert answer.status_code == 200, answer.content
    assert answer.json()["labels"] == {"project": "b"}
    assert found(bench, "project=b") == [run["id"]]
    assert found(bench, "project=a") == found(bench, "step") == []
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.before, event.after) == (
        "training-run.changed",
        {"labels": {"project": "a", "step": "1"}},
        {"labels": {"project": "b"}},
    )


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.SUCCEEDED])
def test_nothing_in_the_cluster_changes_and_nobody_is_woken(bench, phase):
    run = bench.run(labels={"project": "a"})
    move(row(run), phase)
    Workload.objects.update(next_reconcile_at=None, observed_generation=1)
    manifests = manifests_of(row(run))
    assert label(bench, run, {"project": "b"}).status_code == 200
    changed = row(run)
    assert manifests_of(changed) == manifests
    assert changed.next_reconcile_at is None
    assert changed.generation == changed.observed_generation == 2


def test_a_change_of_labels_hides_no_change_that_is_not_applied_yet(bench):
    run = bench.run()
    Workload.objects.update(generation=3, observed_generation=2)
    label(bench, run, {"project": "b"})
    assert (row(run).generation, row(run).observed_generation) == (4, 2)


def test_copies_take_the_labels_that_the_run_has_now(bench):
    run = bench.run(labels={"project": "a"})
    label(bench, run, {"project": "b"})
    assert bench.client.post(f"{RUNS}{run['id']}/clone/", {}).json()["labels"] == {"project": "b"}
    move(row(run), Phase.SUCCEEDED)
    again = bench.client.post(f"{RUNS}{run['id']}/retry/", {}).json()
    assert again["labels"] == {"project": "b"}
    assert TrainingRun.objects.get(workload=row(again)).spec["labels"] == {"project": "b"}


def test_if_match_keeps_two_people_apart(bench):
    run = bench.run()
    tag = bench.client.get(f"{RUNS}{run['id']}/")["ETag"]
    assert label(bench, run, {"a": "1"}, **{"If-Match": tag}).status_code == 200
    with Unchanged():
        problem(label(bench, run, {"a": "2"}, **{"If-Match": tag}), 412)


def test_labels_and_a_limit_change_together_or_not_at_all(bench):
    run = bench.run()
    body = {"labels": {"a": "1"}, "time_limit_seconds": 600}
    answer = bench.client.patch(f"{RUNS}{run['id']}/", body).json()
    assert (answer["labels"], answer["spec"]["time_limit_seconds"]) == ({"a": "1"}, 600)
    move(row(run), Phase.SUCCEEDED)
    with Unchanged():
        problem(bench.client.patch(f"{RUNS}{run['id']}/", {**body, "labels": {"a": "2"}}), 409, code="ended")


def test_the_same_labels_again_change_nothing(bench):
    run = bench.run(labels={"a": "1"})
    with Unchanged():
        assert label(bench, run, {"a": "1"}).status_code == 200


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"a": 1}, "labels.a"),
        ({"app.kubernetes.io/x": "1"}, "labels.app.kubernetes.io/x"),
        ({f"k{number}": "" for number in range(33)}, "labels"),
        (None, "labels"),
        ("a=1", "labels"),
    ],
)
def test_labels_that_no_submission_could_have_are_refused(bench, labels, field):
    run = bench.run()
    with Unchanged():
        problem(label(bench, run, labels), 422, field)


def test_a_viewer_may_not_label(bench):
    run = bench.run()
    viewer = api_client(make_member("viewer", team=bench.team).user)
    with Unchanged():
        problem(viewer.patch(f"{RUNS}{run['id']}/", {"labels": {"a": "1"}}), 403, code="viewer_only")
