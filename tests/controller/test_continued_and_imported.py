"""Runs that go on from earlier ones, and objects of the cluster that become requests, on an API server."""

from __future__ import annotations

import pytest

from cluster import kinds
from tests.controller.test_reconcile_faults import environment, report
from tests.factories.teams import api_client
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = "/api/v1/training-runs/"


def test_a_run_continues_from_the_checkpoint_of_one_that_failed(bench):
    run = bench.running(env={"BED_RUN_SECONDS": 3, "BED_EXIT_CODE": 1})
    assert report(run, 1, "/checkpoints/100") == 201
    client = api_client(bench.member)
    url = f"{RUNS}{run.public_id}/retry/"
    early = client.post(url, {"from_checkpoint": True}, format="json")
    assert (early.status_code, early.json()["errors"][0]["code"]) == (409, "not_ended")
    bench.until(run, lambda run: run.phase == "Failed")
    made = client.post(url, {"from_checkpoint": True}, format="json").json()
    again = Workload.objects.get(public_id=made["id"])
    bench.until(again, lambda run: run.attempts.filter(number=1).exclude(object_uid="").exists())
    (job,) = bench.own(again, kinds.JOB)
    assert environment(job)["PORTAL_RESUME_FROM"] == "/checkpoints/100"
    assert again.attempts.get(number=1).resumed_from == "/checkpoints/100"


def test_a_job_as_the_api_server_shows_it_becomes_the_request_that_made_it(bench):
    asked = {"args": ["--lr", "0.1"], "shm": "512Mi", "max_retries": 0, "labels": {"project": "x"}}
    run = bench.running(env={"BED_RUN_SECONDS": 30}, **asked)
    (shown,) = bench.own(run, kinds.JOB)
    shown |= {"apiVersion": "batch/v1", "kind": "Job"}
    client = api_client(bench.member)
    answer = client.post(f"{RUNS}import/", {"manifest": shown}, format="json")
    assert answer.status_code == 200, answer.json()
    found = answer.json()
    assert found["problems"] == []
    before = run.training_run.spec
    read = {
        name: found["request"][name]
        for name in ("image", "command", "flavor", "gpus_per_replica", *asked)
        if name in found["request"]
    }
    assert read == {name: before[name] for name in read}
    assert set(asked) - {"max_retries"} <= set(read)
    made = client.post(
        RUNS, {**found["request"], "name": "read-back", "time_limit_seconds": 600}, format="json"
    )
    assert made.status_code == 201, made.json()
    same = {name: value for name, value in before.items() if name not in {"name", "working_dir"}}
    assert {name: made.json()["spec"][name] for name in same} == same
