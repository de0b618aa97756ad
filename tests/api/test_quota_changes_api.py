"""Many limits changed together over REST: previewed, applied, undone."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas import services
from quotas.models import Quota, QuotaChange
from teams.platform_settings import update_settings
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import SETUP, make_flavor, make_quota
from tests.factories.submitted import make_run, move
from tests.factories.teams import api_client, make_member, make_team, make_user
from workloads.states import Phase

CHANGES = "/api/v1/quota-changes/"
PREVIEW = f"{CHANGES}preview/"


@pytest.fixture
def speech(bench):
    team = make_team("speech")
    make_quota(team, bench.flavor, nominal=4)
    return team


def change(team, nominal, **limits):
    return {"team": team, "flavor": "a100-40gb", "nominal": nominal, **limits}


def body(*changes, **values):
    return {"changes": list(changes), "reason": "move four", **values}


def nominals():
    return dict(Quota.objects.order_by("team__slug").values_list("team__slug", "nominal"))


def test_changes_of_several_teams_are_applied_together(bench, manager, speech):
    answer = manager.post(CHANGES, body(change("vision", 4), change("speech", 8, user_limit=2)))
    assert answer.status_code == 201
    made = answer.json()
    assert (made["reason"], made["evicts"], made["undoes"], made["undone_by"]) == (
        "move four",
        False,
        None,
        None,
    )
    assert "manager" in made["actor"]
    assert [
        (each["team"], each["before"]["nominal"], each["after"]["nominal"]) for each in made["changes"]
    ] == [
        ("vision", 8, 4),
        ("speech", 4, 8),
    ]
    assert nominals() == {"speech": 8, "vision": 4}
    assert manager.get(f"{CHANGES}{made['id']}/").json() == made
    listed = manager.get(CHANGES, {"change_set": made["id"]}).json()["results"]
    assert {each["change_set"] for each in listed} == {made["id"]}
    assert len(listed) == 2


def test_one_wrong_change_stops_all_of_them_and_is_named(bench, manager, speech):
    with Unchanged():
        for wrong, field in (
            (change("nope", 1), "changes.1.team"),
            (change("vision", 1, flavor="nope"), "changes.1.flavor"),
            (change("vision", 1, capacity="reserved"), "changes.1.capacity"),
            (change("vision", 1, used=0), "changes.1.used"),
            (change("vision", 1, lending_limit=5), "changes.1.lending_limit"),
            (change("vision", 1, user_limit="4"), "changes.1.user_limit"),
            ({"team": "vision", "flavor": "a100-40gb"}, "changes.1.nominal"),
        ):
            for url in (CHANGES, PREVIEW):
                problem(manager.post(url, body(change("speech", 8), wrong)), 422, field)


def test_a_body_that_is_no_set_of_changes_is_refused_by_name(bench, manager, speech):
    good = body(change("speech", 8))
    with Unchanged():
        problem(manager.post(CHANGES, good | {"changes": []}), 422, "changes")
        problem(manager.post(CHANGES, good | {"changes": {}}), 422, "changes")
        problem(manager.post(CHANGES, good | {"changes": [change("speech", 8)] * 501}), 422, "changes")
        problem(manager.post(CHANGES, good | {"evicts": "yes"}), 422, "evicts")
        problem(manager.post(CHANGES, good | {"reason": ""}), 422, "reason")
        problem(manager.post(CHANGES, {"changes": good["changes"]}), 422, "reason")
        answer = manager.post(CHANGES, body(change("speech", 8), change("speech", 9)))
        assert problem(answer, 422)["errors"][0]["field"].startswith("changes.1")


def test_a_member_sees_of_a_change_what_concerns_their_team(bench, manager, speech):
    made = manager.post(CHANGES, body(change("vision", 4), change("speech", 8))).json()
    seen = bench.client.get(f"{CHANGES}{made['id']}/").json()
    assert [each["team"] for each in seen["changes"]] == ["vision"]
    assert "speech" not in str(bench.client.get(CHANGES).json())
    others = manager.post(CHANGES, body(change("speech", 1))).json()
    problem(bench.client.get(f"{CHANGES}{others['id']}/"), 404)
    problem(api_client(make_user()).get(f"{CHANGES}{made['id']}/"), 404)


def test_what_was_applied_is_undone_once(bench, manager, speech):
    made = manager.post(CHANGES, body(change("vision", 4, user_limit=1), change("speech", 8))).json()
    undo = f"{CHANGES}{made['id']}/undo/"
    with Unchanged():
        problem(manager.post(undo, {}), 422, "reason")
    answer = manager.post(undo, {"reason": "too early"})
    assert answer.status_code == 201
    assert answer.json()["undoes"] == made["id"]
    assert manager.get(f"{CHANGES}{made['id']}/").json()["undone_by"] == answer.json()["id"]
    assert nominals() == {"speech": 4, "vision": 8}
    assert Quota.objects.get(team=bench.team).user_limit is None
    with Unchanged():
        problem(manager.post(undo, {"reason": "again"}), 409)


def test_what_somebody_changed_since_is_not_undone(bench, manager, speech):
    made = manager.post(CHANGES, body(change("vision", 4), change("speech", 8))).json()
    manager.post("/api/v1/teams/speech/quotas/", {"flavor": "a100-40gb", "nominal": 9, "reason": "x"})
    with Unchanged():
        problem(manager.post(f"{CHANGES}{made['id']}/undo/", {"reason": "x"}), 409)


def test_a_preview_makes_nothing_and_says_what_would_be(bench, manager, speech):
    bench.run(name="waits", flavor="a100-40gb", gpus_per_replica=6)
    with Unchanged():
        answer = manager.post(PREVIEW, {"changes": [change("vision", 4), change("speech", 12)]})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert [
        (each["team"], each["before"]["nominal"], each["after"]["nominal"]) for each in found["changes"]
    ] == [
        ("vision", 8, 4),
        ("speech", 4, 12),
    ]
    (waits,) = found["waits"]
    assert (waits["name"], waits["team"], waits["reason"]) == ("waits", "vision", "ExceedsMaxQuota")
    assert found["starts"] == []
    (promised,) = found["promised"]
    assert (
        promised["flavor"],
        promised["before"],
        promised["after"],
        promised["exist"],
        promised["over"],
    ) == (
        "a100-40gb",
        12,
        16,
        8,
        True,
    )
    assert nominals() == {"speech": 4, "vision": 8}


def test_a_preview_names_who_would_be_evicted_and_applying_asks_them_to_leave(bench, manager, speech):
    update_settings(actor=SETUP, changes={"minimum_run_seconds": 0}, now=clock.now())
    owner = make_member(team=speech).user
    run = make_run(speech, owner, flavor=bench.flavor, gpus_per_replica=4, name="leaves")
    services.claim(workload=run, quota=Quota.objects.get(team=speech), units=4, now=clock.now())
    move(run, Phase.RUNNING)
    cut = body(change("speech", 2), evicts=True)
    found = manager.post(PREVIEW, cut).json()
    assert [each["name"] for each in found["evicted"]] == ["leaves"]
    assert found["evicted"][0]["lost_seconds"] >= 0
    assert manager.post(PREVIEW, cut | {"evicts": False}).json()["evicted"] == []
    assert not run.preemptions.exists()
    made = manager.post(CHANGES, cut).json()
    assert made["evicts"]
    assert run.preemptions.get().cause == "QuotaReduced"


def test_a_change_of_before_sets_has_no_set(bench):
    listed = bench.client.get(CHANGES).json()["results"]
    assert [each["change_set"] for each in listed] == [None]
    assert listed[0]["before"] is None
    assert listed[0]["after"]["nominal"] == 8
    assert QuotaChange.objects.count() == 1


def test_two_flavors_of_one_team_are_changed_in_one_set(bench, manager):
    make_flavor("t4", product=None)
    made = manager.post(CHANGES, body(change("vision", 9), change("vision", 3, flavor="t4")))
    assert made.status_code == 201, made.content
    assert [each["before"] for each in made.json()["changes"]][1] is None
    undone = manager.post(f"{CHANGES}{made.json()['id']}/undo/", {"reason": "x"})
    assert undone.status_code == 201, undone.content
    assert list(Quota.objects.filter(nominal__gt=0).values_list("flavor__name", "nominal")) == [
        ("a100-40gb", 8)
    ]
