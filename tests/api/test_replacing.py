"""A submission in the place of one that waits: one call, and only one of the two stands in line."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from teams.models import AuditEvent
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem, row
from tests.factories.submitted import move, run_body
from tests.factories.teams import api_client, make_member, make_team
from tests.web.queue_world import make_queue
from tests.web.world import make_world
from workloads.states import Desired, Phase

pytestmark = pytest.mark.django_db


def test_the_waiting_one_is_cancelled_by_the_same_call(bench):
    old = bench.run(name="old", flavor="a100-40gb")
    new = bench.run(name="new", flavor="a100-40gb", replaces=old["id"])
    assert row(old).desired == Desired.CANCEL
    assert row(new).desired == Desired.RUN
    assert "replaces" not in new["spec"]
    assert set(AuditEvent.objects.values_list("action", "target_id")) >= {
        ("training-run.cancelled", old["id"]),
        ("training-run.submitted", new["id"]),
    }


def test_a_waiting_endpoint_is_replaced_too(bench):
    old = bench.endpoint(name="old")
    bench.endpoint(name="new", replaces=old["id"])
    assert row(old).desired == Desired.CANCEL


@pytest.mark.parametrize("path", ["", "preview/"])
def test_only_what_waits_in_the_same_team_and_is_of_the_same_kind_can_be_replaced(bench, path):
    running, cancelled, endpoint = bench.run(name="a"), bench.run(name="b"), bench.endpoint(name="c")
    move(row(running), Phase.RUNNING)
    bench.client.post(f"{RUNS}{cancelled['id']}/cancel/")
    other = make_team("speech")
    theirs = api_client(make_member(team=other).user).post(RUNS, run_body("speech")).json()
    make_member(team=other, user=bench.user)
    for given in (running["id"], cancelled["id"], endpoint["id"], theirs["id"], str(uuid4()), "x", "1"):
        with Unchanged():
            answer = bench.client.post(f"{RUNS}{path}", run_body("vision", name="new", replaces=given))
        problem(answer, 422, "replaces", code="not_waiting")


@pytest.mark.parametrize("given", [7, True, "", "x" * 37, ["a"], {}])
def test_an_id_that_is_none_is_refused_by_its_field(bench, given):
    with Unchanged():
        problem(bench.client.post(RUNS, run_body("vision", replaces=given)), 422, "replaces")


def test_an_endpoint_that_exists_replaces_nothing(bench):
    endpoint, waiting = bench.endpoint(name="one"), bench.endpoint(name="two")
    answer = bench.client.patch(f"{ENDPOINTS}{endpoint['id']}/", {"replaces": waiting["id"]})
    problem(answer, 422, "replaces", code="read_only")
    assert row(waiting).desired == Desired.RUN


def test_a_submission_that_fails_cancels_nothing(bench):
    old, taken = bench.run(name="old"), bench.run(name="taken")
    with Unchanged():
        answer = bench.client.post(RUNS, run_body("vision", name=taken["name"], replaces=old["id"]))
    problem(answer, 409)
    assert row(old).desired == Desired.RUN


def test_a_preview_without_the_waiting_one_is_what_its_levers_promised():
    world = make_world()
    run = make_queue(world)["bert-large"]
    client = api_client(world.ana)
    card = client.get(f"{RUNS}{run.public_id}/waiting/").json()
    body = {
        "team": "vision",
        "name": "again",
        "image": "registry.example.org/train:1.4",
        "time_limit_seconds": 3600,
    }
    asked = {"flavor": "a100-40gb", "gpus_per_replica": 8, "command": ["python", "train.py"]}
    tried = 0
    for lever in card["levers"]:
        if "ask_for_quota" in lever["change"]:
            continue
        again = {**body, **asked, **lever["change"], "replaces": str(run.public_id)}
        said = client.post(f"{RUNS}preview/", again).json()
        assert said["verdict"] == lever["verdict"]
        for name in ("p50", "p90"):
            ours, promised = (
                datetime.fromisoformat(each) for each in (said["start"][name], lever[f"start_{name}"])
            )
            # Time goes on between the two calls.
            assert abs(ours - promised) < timedelta(minutes=1)
        tried += 1
    assert tried >= 2


def test_whoever_is_replaced_holds_no_place(bench):
    """Eight are free: the one that waits for all of them is judged away, so that its successor starts now."""
    old = bench.run(name="old", flavor="a100-40gb", gpus_per_replica=8)
    again = run_body("vision", name="new", flavor="a100-40gb", gpus_per_replica=8)
    with_both = bench.client.post(f"{RUNS}preview/", again).json()
    alone = bench.client.post(f"{RUNS}preview/", {**again, "replaces": old["id"]}).json()
    assert (with_both["verdict"], alone["verdict"]) == ("wait", "admit")


def test_two_that_replace_the_same_one_are_one(bench):
    old = bench.run(name="old")
    bench.run(name="new", replaces=old["id"])
    answer = bench.client.post(RUNS, run_body("vision", name="newer", replaces=old["id"]))
    problem(answer, 422, "replaces", code="not_waiting")
