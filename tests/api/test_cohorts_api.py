"""Cohorts over REST: who may know of whom, who may change what, and what is no tree."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas import services
from teams.models import Team
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import make_quota
from tests.factories.submitted import make_run
from tests.factories.teams import api_client, make_member, make_team, make_user

COHORTS = "/api/v1/cohorts/"


@pytest.fixture
def cohorts(manager):
    """research, and language below it; team vision is in research."""
    assert manager.post(COHORTS, {"name": "research"}).status_code == 201
    assert manager.post(COHORTS, {"name": "language", "parent": "research"}).status_code == 201
    assert manager.patch("/api/v1/teams/vision/", {"cohort": "research"}).status_code == 200


def cohort(client, name):
    return client.get(f"{COHORTS}{name}/").json()


def test_a_cohort_is_made_and_teams_join_it(bench, manager):
    made = manager.post(COHORTS, {"name": "research"})
    assert made.status_code == 201
    assert made.json() == cohort(bench.client, "research")
    assert made["Location"].endswith("/api/v1/cohorts/research/")
    assert (made.json()["parent"], made.json()["teams"]) == (None, [])
    assert manager.patch("/api/v1/teams/vision/", {"cohort": "research"}).json()["cohort"] == "research"
    assert cohort(bench.client, "research")["teams"] == ["vision"]
    assert manager.patch("/api/v1/teams/vision/", {"cohort": ""}).json()["cohort"] == ""
    assert cohort(bench.client, "research")["teams"] == []


@pytest.mark.usefixtures("cohorts")
def test_everybody_sees_the_cohorts_and_only_their_own_teams_in_them(bench, manager):
    make_team("hidden", cohort_name="research")
    listed = bench.client.get(COHORTS).json()["results"]
    assert [(each["name"], each["parent"], each["teams"]) for each in listed] == [
        ("language", "research", []),
        ("research", None, ["vision"]),
    ]
    assert cohort(manager, "research")["teams"] == ["hidden", "vision"]
    assert cohort(api_client(make_user()), "research")["teams"] == []
    assert len(bench.client.get(COHORTS, {"parent": "research"}).json()["results"]) == 1
    assert bench.client.get(COHORTS, {"name": "nope"}).json()["results"] == []


@pytest.mark.usefixtures("cohorts")
def test_what_a_team_does_not_use_the_others_of_its_cohort_borrow(bench, manager):
    other = make_team("speech", cohort_name="research")
    quota = make_quota(other, bench.flavor, nominal=4)
    quotas = "/api/v1/teams/speech/quotas/"
    assert manager.get(quotas).json()["results"][0]["ceiling"] == 12
    answer = manager.post(quotas, {"flavor": "a100-40gb", "borrowing_limit": 3, "reason": "x"})
    assert (answer.json()["ceiling"], answer.json()["cohort"]) == (7, "research")
    run = make_run(other, make_member(team=other).user, flavor=bench.flavor, gpus_per_replica=6)
    services.claim(workload=run, quota=quota, units=6, now=clock.now())
    (theirs,) = manager.get(quotas).json()["results"]
    (ours,) = bench.client.get("/api/v1/teams/vision/quotas/").json()["results"]
    assert (theirs["used"], theirs["borrowed"], theirs["available"], theirs["over_use"]) == (6, 2, 1, 0)
    assert (ours["used"], ours["lent"], ours["available"]) == (0, 2, 6)


@pytest.mark.usefixtures("cohorts")
def test_a_cohorts_own_limits_are_set_in_parts(bench, manager):
    url = f"{COHORTS}language/limits/"
    body = {"flavor": "a100-40gb", "borrowing_limit": 3, "reason": "x"}
    answer = manager.post(url, body)
    assert answer.status_code == 200
    assert (answer.json()["borrowing_limit"], answer.json()["lending_limit"]) == (3, None)
    answer = manager.post(url, {"flavor": "a100-40gb", "lending_limit": 2, "reason": "y"}).json()
    assert (answer["borrowing_limit"], answer["lending_limit"]) == (3, 2)
    assert bench.client.get(url).json()["results"] == [answer]
    with Unchanged():
        for name in ("borrowing_limit", "lending_limit"):
            problem(manager.post(url, body | {name: "1.5"}), 422, name)
        problem(manager.post(url, body | {"flavor": "nope"}), 422, "flavor", code="unknown_flavor")
        problem(manager.post(url, body | {"capacity": "reserved"}), 422, "capacity")
        problem(manager.post(f"{COHORTS}nope/limits/", body), 404)
        problem(bench.client.get(f"{COHORTS}nope/limits/"), 404)


@pytest.mark.usefixtures("cohorts")
@pytest.mark.parametrize("parent", ["language", "research"])
def test_a_cohort_is_never_below_itself(bench, manager, parent):
    with Unchanged():
        problem(manager.patch(f"{COHORTS}research/", {"parent": parent}), 422, "parent", code="cycle")


@pytest.mark.usefixtures("cohorts")
def test_a_cohort_moves_and_goes_when_nobody_is_in_it(bench, manager):
    with Unchanged():
        problem(manager.delete(f"{COHORTS}research/"), 409)
    assert manager.patch(f"{COHORTS}language/", {"parent": None}).json()["parent"] is None
    assert manager.patch(f"{COHORTS}language/", {"parent": "research"}).json()["parent"] == "research"
    assert manager.delete(f"{COHORTS}language/").status_code == 204
    problem(manager.get(f"{COHORTS}language/"), 404)


@pytest.mark.usefixtures("cohorts")
def test_a_wrong_cohort_is_refused_by_name(bench, manager):
    with Unchanged():
        for wrong in ("", "Big", "a b", "x" * 64, 5, None, True):
            problem(manager.post(COHORTS, {"name": wrong}), 422, "name")
        problem(manager.post(COHORTS, {"name": "research"}), 409)
        problem(
            manager.post(COHORTS, {"name": "new", "parent": "nope"}), 422, "parent", code="unknown_cohort"
        )
        problem(manager.post(COHORTS, {"name": "new", "parent": 5}), 422, "parent")
        problem(manager.patch(f"{COHORTS}research/", {"parent": "nope"}), 422, "parent")
        problem(manager.patch(f"{COHORTS}research/", {"name": "new"}), 422, "name")
        problem(manager.patch("/api/v1/teams/vision/", {"cohort": "nope"}), 422, "cohort")
        problem(manager.patch("/api/v1/teams/vision/", {"cohort": 5}), 422, "cohort")


@pytest.mark.usefixtures("cohorts")
def test_only_managers_change_who_is_in_a_cohort(bench, manager):
    clients = [bench.client, api_client(bench.lead)]
    with Unchanged():
        for client in clients:
            problem(client.patch("/api/v1/teams/vision/", {"cohort": ""}), 403)
        # A quota manager moves teams between cohorts, and manages nothing else of them.
        problem(manager.patch("/api/v1/teams/vision/", {"name": "Mine"}), 403)
        problem(manager.patch("/api/v1/teams/vision/", {"cohort": "", "name": "Mine"}), 403)
        problem(manager.patch("/api/v1/teams/vision/", {"cohort": "", "pod_security": "restricted"}), 403)
    assert Team.objects.get().cohort_name == "research"


@pytest.mark.usefixtures("cohorts")
def test_a_lead_renames_the_team_and_leaves_its_cohort_alone(bench):
    renamed = api_client(bench.lead).patch("/api/v1/teams/vision/", {"name": "Sight"}).json()
    assert (renamed["name"], renamed["cohort"]) == ("Sight", "research")


def test_a_change_of_nothing_moves_nothing(manager):
    for name in ("above", "below"):
        assert manager.post(COHORTS, {"name": name}).status_code == 201
    assert manager.patch(f"{COHORTS}below/", {"parent": "above"}).status_code == 200
    problem(manager.patch(f"{COHORTS}below/", {}, headers={"If-Match": '"99"'}), 412)
    assert manager.patch(f"{COHORTS}below/", {}).json()["parent"] == "above"
