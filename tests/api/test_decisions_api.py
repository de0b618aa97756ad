"""Stored verdicts over REST: listed, shown and judged again, without the names of others."""

from __future__ import annotations

import json

import pytest

from foundation import clock
from policy.judge import judge
from policy.verdicts import PreemptionCause, Victim
from quotas.decisions import Receipt, record
from quotas.limits import set_policy
from quotas.models import SupplyRecord
from quotas.snapshots import pool_snapshot_of
from teams.actors import Actor
from tests.api.bench import problem
from tests.factories.catalogue import make_quota
from tests.factories.submitted import make_run
from tests.factories.teams import api_client, make_member, make_team, make_user
from workloads.models import Workload


@pytest.fixture
def hidden(bench):
    """Another team that waits for the same nodes."""
    team = make_team("hidden-team")
    make_quota(team, bench.flavor, nominal=4)
    member = make_member(team=team, user=make_user("hidden-owner"))
    make_run(team, member.user, flavor=bench.flavor, gpus_per_replica=1, name="hidden-run")
    return member


@pytest.fixture
def run(bench):
    return Workload.objects.get(public_id=bench.run(flavor="a100-40gb", gpus_per_replica=2)["id"])


def decide(run, **changes):
    """The run is judged now, and the receipt kept."""
    now = clock.now()
    snapshot = pool_snapshot_of(flavor=run.flavor, capacity_type=run.capacity_type, now=now, focus=run)
    verdict = judge(snapshot, str(run.public_id))
    for name, value in changes.items():
        object.__setattr__(verdict, name, value)
    record(receipts=[Receipt(run, verdict)], snapshot=snapshot, now=now)
    return run.decisions.latest("id")


def url(decision, tail=""):
    return f"/api/v1/decisions/{decision.public_id}/{tail}"


def test_a_decision_shows_its_verdict_with_the_numbers(bench, run):
    decision = decide(run)
    shown = bench.client.get(url(decision)).json()
    assert shown["id"] == str(decision.public_id)
    assert shown["workload"] == str(run.public_id)
    assert (shown["verdict"], shown["reason"], shown["rule"]) == (
        decision.verdict,
        decision.reason,
        decision.rule,
    )
    assert shown["message"]
    assert (shown["policy"], shown["revision"]) == (decision.policy, decision.revision)
    assert shown["supply_digest"] == decision.supply_id
    assert all(set(each) == {"fact", "value", "unit"} for each in shown["evidence"])


def test_the_inputs_give_the_same_verdict_again(bench, run):
    decision = decide(run)
    found = bench.client.get(url(decision, "replay/")).json()
    assert found["same"] is True
    assert found["unknown_because"] is None
    assert found["supply"] is None
    assert found["decision"] == bench.client.get(url(decision)).json()
    assert found["replayed"] == {name: found["decision"][name] for name in found["replayed"]}


def test_a_verdict_that_the_inputs_do_not_give_is_not_the_same(bench, run):
    decision = decide(run, message="Because I say so.")
    found = bench.client.get(url(decision, "replay/")).json()
    assert found["same"] is False
    assert found["decision"]["message"] == "Because I say so."
    assert found["replayed"]["message"] != "Because I say so."


def test_inputs_that_have_expired_are_said_to_be_gone(bench, run):
    decision = decide(run)
    SupplyRecord.objects.all().delete()
    found = bench.client.get(url(decision, "replay/"), {"supply": "true"}).json()
    assert (found["same"], found["replayed"], found["supply"]) == (False, None, None)
    assert found["unknown_because"]
    assert found["decision"]["supply_digest"] is None


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("value", ["1", "true"])
def test_the_inputs_are_shown_without_the_names_of_others(bench, run, value):
    found = bench.client.get(url(decide(run), "replay/"), {"supply": value}).json()
    assert found["same"] is True
    assert "hidden" not in json.dumps(found)
    waiters = {each["team"]: each for each in found["supply"]["waiters"]}
    assert waiters["vision"]["id"] == str(run.public_id)
    (other,) = (each for team, each in waiters.items() if team != "vision")
    assert other["team"].startswith("another team")
    assert (other["id"], other["owner"]) == (None, None)


def test_a_team_that_shows_its_name_is_named_and_its_runs_are_not(bench, run, hidden):
    set_policy(team=hidden.team, changes={"shows_name": True}, actor=Actor.system("tests"), now=clock.now())
    found = bench.client.get(url(decide(run), "replay/"), {"supply": "true"}).json()
    waiters = {each["team"]: each for each in found["supply"]["waiters"]}
    assert waiters["hidden-team"]["id"] is None
    assert "hidden-owner" not in json.dumps(found)


def test_a_victim_of_another_team_has_no_name_for_who_does_not_know_the_team(bench, run, hidden):
    victim = Victim("a-run-of-theirs", "hidden-team", 60, PreemptionCause.IN_COHORT_RECLAMATION)
    decision = decide(run, victims=(victim,))
    shown = bench.client.get(url(decision)).json()
    assert shown["victims"] == [
        {"id": None, "team": "another team", "lost_seconds": 60, "cause": "InCohortReclamation"}
    ]
    manager = api_client(make_user(quota_manager=True))
    assert manager.get(url(decision)).json()["victims"][0]["id"] == "a-run-of-theirs"


def test_decisions_of_a_run_are_listed_newest_first_in_pages(bench, run):
    run.decisions.all().delete()
    made = [str(decide(run).public_id) for _ in range(3)]
    path = f"/api/v1/training-runs/{run.public_id}/decisions/"
    page = bench.client.get(path, {"limit": 2}).json()
    rest = bench.client.get(page["next"]).json()
    assert [each["id"] for each in (*page["results"], *rest["results"])] == made[::-1]
    assert page["results"][0] == bench.client.get(f"/api/v1/decisions/{made[2]}/").json()
    problem(bench.client.get(path, {"verdict": "admit"}), 400, "verdict")


def test_decisions_of_an_endpoint_are_listed(bench):
    endpoint = Workload.objects.get(public_id=bench.endpoint(flavor="a100-40gb", gpus_per_replica=1)["id"])
    endpoint.decisions.all().delete()
    decision = decide(endpoint)
    path = f"/api/v1/endpoints/{endpoint.public_id}/decisions/"
    assert [each["id"] for each in bench.client.get(path).json()["results"]] == [str(decision.public_id)]
    problem(bench.client.get(f"/api/v1/training-runs/{endpoint.public_id}/decisions/"), 404)


def test_a_wrong_parameter_of_a_replay_is_refused_by_name(bench, run):
    decision = decide(run)
    problem(bench.client.get(url(decision, "replay/"), {"supply": "yes"}), 400, "supply")
    problem(bench.client.get(url(decision, "replay/"), {"inputs": "1"}), 400, "inputs")
    problem(bench.client.get(url(decision), {"supply": "1"}), 400, "supply")
