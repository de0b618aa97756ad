"""CPU, memory and storage without end: what a team may ask for beside GPUs, in the words of requests and answers."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.models import PlatformSettings
from quotas.limits import set_policy
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.controller.looks import look
from tests.factories.catalogue import SETUP
from tests.factories.submitted import endpoint_body, run_body
from tests.factories.teams import api_client, make_user
from workloads.models import ClaimRecord, NodeRecord, Workload

VOLUMES = "/api/v1/teams/vision/volumes/"
POLICY = "/api/v1/teams/vision/policy/"
GIB = 1024**3
NEEDS = "This endpoint needs 4096000 CPU cores; team vision may hold 8192 CPU cores at most."


@pytest.fixture
def manager(bench):
    return api_client(make_user(quota_manager=True))


def cap(bench, **ceilings):
    set_policy(team=bench.team, changes=ceilings, actor=SETUP, now=clock.now())


def test_4096_cpus_in_1000_replicas_without_a_gpu_are_not_admitted(bench):
    NodeRecord.objects.all().delete()
    body = endpoint_body("vision", cpu="4096", min_replicas=1000, max_replicas=1000)
    with Unchanged():
        answer = bench.client.post(f"{ENDPOINTS}preview/", body)
    assert answer.status_code == 200, answer.content
    card = answer.json()
    assert (card["verdict"], card["reason"], card["rule"]) == ("wait", "ExceedsMaxQuota", "max-ceiling-cpu")
    assert NEEDS in card["message"]
    assert "cannot start as things are" in card["start"]["unknown_because"]
    assert bench.client.post(ENDPOINTS, body).status_code == 201
    row = Workload.objects.get()
    assert not look(row).admitted
    assert (row.phase, row.reason) == ("Queued", "ExceedsMaxQuota")
    assert NEEDS in row.message


def test_a_claim_of_a_pebibyte_is_not_made(bench):
    with Unchanged():
        answer = bench.client.post(VOLUMES, {"name": "huge", "size": "1Pi", "access_mode": "ReadWriteOnce"})
    (error,) = problem(answer, 409, "size", code="quota_exceeded")["errors"]
    assert error["message"].startswith(
        "The volumes of team vision have 0 of 102400Gi; this one needs 1048576Gi."
    )


def test_volumes_that_anybody_made_count_by_number(bench):
    cap(bench, ceiling_volumes=1)
    ClaimRecord.objects.create(
        uid="there", namespace="team-vision", name="there", phase="Bound", storage_bytes=GIB, observed_at=clock.now()
    )  # fmt: skip
    with Unchanged():
        answer = bench.client.post(VOLUMES, {"name": "second", "size": "1Gi", "access_mode": "ReadWriteOnce"})
    problem(answer, 409, "name", code="quota_exceeded")


def test_a_run_that_fits_alone_waits_beside_what_is_held_and_its_card_says_until_when(bench):
    NodeRecord.objects.all().delete()
    cap(bench, ceiling_cpus=4)
    first = bench.run(cpu="3", memory="1Gi", time_limit_seconds=3600)
    row = Workload.objects.get(public_id=first["id"])
    assert look(row).admitted
    with Unchanged():
        card = bench.client.post(f"{RUNS}preview/", run_body("vision", cpu="2", memory="1Gi")).json()
    assert (card["verdict"], card["reason"]) == ("wait", "WaitingForTeamCeiling")
    assert card["message"] == "Team vision holds 3 of 4 CPU cores that it may hold; this run needs 2."
    assert card["start"]["p90"] is not None
    assert [lever["change"] for lever in card["levers"]] == [{"cpu": "1"}]
    assert {fact["fact"]: fact["value"] for fact in card["evidence"]}["held_cpu"] == 3000


def test_a_manager_sets_ceilings_and_all_see_what_is_held(bench, manager):
    NodeRecord.objects.all().delete()
    before = bench.client.get(POLICY)
    assert before.json()["ceiling_cpus"] is None
    shown = {line["resource"]: line for line in before.json()["ceilings"]}
    assert shown["cpu"] == {"resource": "cpu", "ceiling": "8192", "held": "0", "own": False}
    changed = manager.patch(
        POLICY, {"ceiling_cpus": 128, "ceiling_memory_gib": 512}, headers={"If-Match": before["ETag"]}
    )
    assert changed.status_code == 200
    row = Workload.objects.get(public_id=bench.run(cpu="96", memory="1Gi")["id"])
    assert look(row).admitted
    shown = {line["resource"]: line for line in bench.client.get(POLICY).json()["ceilings"]}
    assert shown["cpu"] == {"resource": "cpu", "ceiling": "128", "held": "96", "own": True}
    assert shown["memory"]["ceiling"] == "512Gi"
    problem(manager.patch(POLICY, {"ceiling_cpus": 1}, headers={"If-Match": before["ETag"]}), 412, code=None)
    problem(bench.client.patch(POLICY, {"ceiling_cpus": 10_000}), 403, code=None)
    assert manager.patch(POLICY, {"ceiling_cpus": None}).json()["ceiling_cpus"] is None


@pytest.mark.parametrize("value", [-1, "many", 1.5, 10**10])
def test_a_ceiling_that_is_no_number_is_refused_by_name(bench, manager, value):
    with Unchanged():
        problem(manager.patch(POLICY, {"ceiling_pods": value}), 422, "ceiling_pods")


def test_an_empty_ceiling_of_the_platform_is_none(bench):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"ceiling_cpus": None})
    shown = {line["resource"]: line for line in bench.client.get(POLICY).json()["ceilings"]}
    assert shown["cpu"]["ceiling"] is None
