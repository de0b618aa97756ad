"""REST says why a run failed, what happened when, and what changed since the one that worked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from foundation import clock
from tests.diagnosis.planted import Planted
from tests.factories.submitted import make_attempt, make_pod, make_run, move
from tests.factories.teams import api_client, make_member, make_team, make_user
from tests.factories.workloads import put_in
from tests.pod_samples import failed
from workloads.models import Attempt, EventRecord, PodRecord, Workload, WorkloadEvent
from workloads.states import Phase

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/training-runs/"


@pytest.fixture
def team():
    return make_team("vision")


@pytest.fixture
def ana(team):
    return make_member("member", team=team, user=make_user("ana")).user


@pytest.fixture
def rest(ana):
    return api_client(ana)


def a_run(team, owner, phase: Phase, *pods: dict[str, Any], **body: Any) -> Workload:
    run = make_run(team, owner, **body)
    make_attempt(run)
    run = put_in(run, phase)
    Planted(run).pods(*pods)
    return run


def test_a_failed_run_tells_its_verdict_with_evidence_and_one_next_step(team, ana, rest):
    run = a_run(team, ana, Phase.FAILED, failed(137, "OOMKilled"))
    answer = rest.get(f"{RUNS}{run.public_id}/diagnosis/").json()
    assert answer["attempt"] == 1
    assert [answer["verdict"]] == answer["findings"]
    verdict = answer["verdict"]
    assert (verdict["id"], verdict["confidence"], verdict["who"]) == ("T1", "certain", "owner")
    assert "more `memory`, such as `4Gi`" in verdict["next_step"]
    assert verdict["repeats"] is True
    (proof,) = verdict["evidence"]
    assert proof["object"] == "Pod a-1-x7k2p"
    assert proof["field"] == "status.containerStatuses[main].state.terminated"
    assert "OOMKilled" in proof["value"]
    assert answer["last_that_worked"] is None


def test_what_does_well_has_no_verdict(team, ana, rest):
    run = make_run(team, ana)
    answer = rest.get(f"{RUNS}{run.public_id}/diagnosis/").json()
    assert answer == {"attempt": 0, "verdict": None, "findings": [], "last_that_worked": None}


def test_an_attempt_is_asked_for_by_its_number(team, ana, rest):
    run = a_run(team, ana, Phase.FAILED, failed(137, "OOMKilled"))
    assert rest.get(f"{RUNS}{run.public_id}/diagnosis/?attempt=1").json()["verdict"]["id"] == "T1"
    assert rest.get(f"{RUNS}{run.public_id}/diagnosis/?attempt=7").status_code == 404
    assert rest.get(f"{RUNS}{run.public_id}/diagnosis/?attempt=x").status_code == 400


def test_the_last_that_worked_is_named_with_what_changed(team, ana, rest):
    env = [{"name": "LR", "value": "0.1"}]
    worked = a_run(team, ana, Phase.SUCCEEDED, name="resnet-1", env=env)
    a_run(team, ana, Phase.SUCCEEDED, name="bert")
    env = [{"name": "LR", "value": "9"}, {"name": "NEW", "value": "1"}]
    broke = a_run(team, ana, Phase.FAILED, failed(1), name="resnet-2", env=env, image="example.org/train:2")
    answer = rest.get(f"{RUNS}{broke.public_id}/diagnosis/").json()
    assert answer["last_that_worked"]["name"] == "resnet-1"
    compared = rest.get(answer["last_that_worked"]["compare"]).json()
    assert (compared["a"]["id"], compared["b"]["id"]) == (str(worked.public_id), str(broke.public_id))
    asked = {item["field"]: (item["a"], item["b"]) for item in compared["asked"]}
    assert asked["env.LR.value"] == ("0.1", "9")
    assert asked["env.NEW.value"] == (None, "1")
    assert asked["image"] == ("example.org/train:1", "example.org/train:2")
    assert set(asked) == {"env.LR.value", "env.NEW.value", "image"}
    met = {item["field"]: (item["a"], item["b"]) for item in compared["met"]}
    assert met["phase"] == ("Succeeded", "Failed")
    assert met["exit_codes"] == (None, "1")


def test_nobody_compares_with_what_they_may_not_see(team, ana, rest):
    eve = make_member("member")
    own, other = make_run(team, ana), make_run(eve.team, eve.user)
    for a, b in ((own, other), (other, own)):
        assert rest.get(f"/api/v1/compare/?a={a.public_id}&b={b.public_id}").status_code == 404
    assert rest.get(f"/api/v1/compare/?a={own.public_id}&b=x").status_code == 400
    assert rest.get(f"/api/v1/compare/?a={own.public_id}").status_code == 400


# --- what happened when


def passed(team, ana, *, pulled: float, name: str, done: bool = True) -> Workload:
    """A run that was submitted an hour ago: 10 s in the queue, 5 s to a node, `pulled` seconds for the image, 2 s to start."""
    run = make_run(team, ana, name=name)
    attempt, _ = make_attempt(run)
    t0 = clock.now() - timedelta(hours=1)
    at = [t0 + timedelta(seconds=seconds) for seconds in (0, 10, 15, 15 + pulled, 17 + pulled, 900)]
    Workload.objects.filter(pk=run.pk).update(created_at=at[0], admitted_at=at[1], started_at=at[4])
    Attempt.objects.filter(pk=attempt.pk).update(created_at=at[1])
    pod = make_pod(run, units=0)
    PodRecord.objects.filter(pk=pod.pk).update(scheduled_at=at[2], started_at=at[4])
    EventRecord.objects.create(
        uid=f"pulled-{name}", namespace="team-vision", object_kind="Pod", object_name=pod.name, object_uid=pod.uid,
        reason="Pulled", message="Successfully pulled image", warning=False, first_at=at[3], last_at=at[3],
    )  # fmt: skip
    if done:
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=at[5])
        put_in(run, Phase.SUCCEEDED, finished_at=at[5])
    return run


def test_steps_are_told_with_what_is_usual_and_what_is_out_of_the_ordinary(team, ana, rest):
    for number in range(4):
        passed(team, ana, pulled=20, name=f"like-{number}")
    run = passed(team, ana, pulled=300, name="slow")
    answer = rest.get(f"{RUNS}{run.public_id}/timeline/").json()
    steps = {step["step"]: step for step in answer["steps"]}
    assert list(steps) == ["submitted", "admitted", "scheduled", "image_pulled", "started", "done"]
    assert [round(step["seconds"]) for step in answer["steps"][:4]] == [10, 5, 300, 2]
    assert steps["done"]["seconds"] is None
    assert (steps["scheduled"]["usual_seconds"], steps["scheduled"]["samples"]) == (20, 4)
    assert [name for name, step in steps.items() if step["outlier"]] == ["scheduled"]
    assert all(step["attempt"] == 1 for step in answer["steps"])


def test_everything_that_was_said_has_an_actor_and_repeated_words_a_count(team, ana, rest):
    run = make_run(team, ana)
    make_attempt(run)
    move(run, Phase.STARTING)
    pod = make_pod(run)
    now = clock.now()
    for number, count in ((1, 3), (2, 4)):
        EventRecord.objects.create(
            uid=f"e{number}", namespace="team-vision", object_kind="Pod", object_name=pod.name, object_uid=pod.uid,
            reason="FailedScheduling", message=f"0/{number} nodes are available", warning=True, count=count,
            source="default-scheduler", first_at=now - timedelta(minutes=number), last_at=now,
        )  # fmt: skip
    entries = rest.get(f"{RUNS}{run.public_id}/timeline/").json()["entries"]
    told = [entry for entry in entries if entry["kubernetes"]]
    assert [(entry["what"], entry["count"], entry["actor"], entry["object"]) for entry in told] == [
        ("FailedScheduling", 7, "default-scheduler", f"Pod {pod.name}")
    ]
    assert told[0]["first_at"] < told[0]["at"]
    assert {entry["what"] for entry in entries if not entry["kubernetes"]} == {
        "Queued",
        "Admitted",
        "Starting",
    }
    assert all(entry["actor"] for entry in entries)


@pytest.mark.parametrize(("part", "most"), [("diagnosis", 12), ("timeline", 12)])
def test_each_asks_a_bounded_number_of_queries(team, ana, rest, part, most, django_assert_max_num_queries):
    for number in range(5):
        passed(team, ana, pulled=20, name=f"like-{number}")
    run = a_run(team, ana, Phase.FAILED, *(failed(1, name=f"w-{index}") for index in range(10)))
    assert WorkloadEvent.objects.filter(workload=run).exists()
    with django_assert_max_num_queries(most):
        assert rest.get(f"{RUNS}{run.public_id}/{part}/").status_code == 200
