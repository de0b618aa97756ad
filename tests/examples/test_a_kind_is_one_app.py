"""A kind of workload is one app: this one is submitted, admitted, run, paid for, listed and cancelled, and nothing below it
knows of it.
"""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from controller.reconcile.adapters import WorkloadAdapter, adapter_for
from controller.watch.watcher import Watcher
from quotas.models import Quota
from tests.architecture.sources import PACKAGES, ROOT, layer_order, tracked_texts
from tests.factories.teams import api_client
from tests.web.conftest import signed_in
from workloads.models import Workload

EXAMPLE = Path(__file__).parent / "batch_inference"
LINES_MAX = 900
BATCHES = "/api/v1/batch-inferences/"
commits = pytest.mark.django_db(transaction=True)


def body(bench, **values):
    return {
        "team": bench.team.slug, "name": "answers", "image": "example.org/model:1", "command": ["python", "answer.py"],
        "flavor": bench.flavor.name, "gpus_per_replica": 2, "replicas": 2, "cpu": "1", "memory": "1Gi",
        "dataset": "/data/images", "results": "/data/answers", "time_limit_seconds": 600, **values,
    }  # fmt: skip


def filled_in(bench, **values):
    """What a browser sends of the form."""
    return {
        "team": bench.team.slug, "name": "answers", "image": "example.org/model:1", "command": "python answer.py",
        "flavor": bench.flavor.name, "capacity": "on-demand", "gpus": "2", "replicas": "2", "cpu": "1", "memory": "1Gi",
        "dataset": "/data/images", "results": "/data/answers", "time_limit": "1h", "priority": "normal", **values,
    }  # fmt: skip


def submitted(bench, client, **values):
    response = client.post(BATCHES, body(bench, **values))
    assert response.status_code == 201, response.content
    return Workload.objects.get(public_id=response.json()["id"])


def steered(**values):
    """What tells the clock of the cluster how the pods go."""
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def ended(workload):
    return workload.is_final


# --- what a portal does with it


@commits
def test_it_is_submitted_by_rest_admitted_run_to_its_end_and_paid_for(bench):
    client = api_client(bench.member)
    batch = submitted(bench, client, env=steered(BED_RUN_SECONDS=2))
    assert batch.units == 4
    bench.turn(batch)
    assert Quota.objects.get().used == 4
    bench.until(batch, ended)
    assert (batch.phase, batch.reason, batch.attempts.count()) == ("Succeeded", "Completed", 1)
    assert Quota.objects.get().used == 0
    pods = list(batch.pods.all())
    assert [pod.units for pod in pods] == [2, 2]
    held = sum(
        pod.units * int((pod.ended_at.replace(microsecond=0) - pod.scheduled_at).total_seconds())
        for pod in pods
    )
    own = f"{BATCHES}{batch.public_id}/"
    paid = client.get(f"{own}cost/").json()
    assert int(paid["so_far"]["amount_micro_usd"]) == held * 1_000_000 > 0
    assert [line["settled"] for line in paid["lines"]] == [True, True]
    assert [each["id"] for each in client.get(BATCHES).json()["results"]] == [str(batch.public_id)]
    shown = client.get(own).json()
    assert (shown["kind"], shown["spec"]["dataset"]) == ("batch-inference", "/data/images")
    assert shown["url"].endswith(f"/batches/{batch.public_id}/")
    assert {client.get(link).status_code for link in shown["links"].values()} == {200}
    assert "mlflow" not in shown["links"]


@commits
def test_it_is_checked_and_submitted_on_its_page_shown_listed_and_cancelled(bench):
    browser = signed_in(bench.member)
    form = browser.get("/batches/new/").content.decode()
    assert "Submit batch" in form
    checked = browser.post("/batches/new/", filled_in(bench, action="check")).content.decode()
    assert "Starts now" in checked
    assert "At its time limit" in checked
    response = browser.post("/batches/new/", filled_in(bench, action="submit"))
    assert response.status_code == 303, response.content.decode()
    batch = Workload.objects.get()
    assert (response["Location"], batch.time_limit_seconds) == (f"/batches/{batch.public_id}/", 3600)
    bench.until(batch, lambda batch: batch.phase == "Running")
    page = browser.get(response["Location"]).content.decode()
    assert "/data/images" in page
    assert f'action="/batches/{batch.public_id}/cancel/"' in page
    assert f'href="/batches/{batch.public_id}/"' in browser.get("/batches/").content.decode()
    for tab in ("logs", "events", "pods", "cost", "manifests", "spec"):
        assert browser.get(f"{response['Location']}?tab={tab}").status_code == 200
    assert browser.post(f"/batches/{batch.public_id}/cancel/").status_code == 303
    bench.until(batch, ended)
    assert (batch.phase, Quota.objects.get().used) == ("Cancelled", 0)


@commits
def test_who_waits_is_told_why_and_what_would_start_it(bench):
    client, browser = api_client(bench.member), signed_in(bench.member)
    first = submitted(bench, client, name="first", gpus_per_replica=3)
    second = submitted(bench, client, name="second", working_dir="/srv", max_retries=2)
    bench.turn(first)
    bench.turn(second)
    card = client.get(f"{BATCHES}{second.public_id}/waiting/").json()
    assert (card["verdict"], card["reason"]) == ("wait", "WaitingForQuota")
    assert "this batch needs 4" in second.message
    assert {"replicas": 1} in [lever["change"] for lever in card["levers"]]
    page = browser.get(f"/batches/{second.public_id}/").content.decode()
    assert "Why it waits" in page
    assert f"/batches/new/?from={second.public_id}" in page
    # Other pages, which know nothing of it, lead to it too.
    held = browser.get(f"/teams/{bench.team.slug}/").content.decode()
    assert f'href="/batches/{first.public_id}/"' in held
    assert "batch</span>" in held
    again = browser.get(f"/batches/new/?from={second.public_id}&replaces=1").content.decode()
    assert f'<a href="/batches/{second.public_id}/">second</a>, which still waits' in again
    assert 'value="/data/images"' in again
    (rest,) = re.findall(r'<textarea name="more"[^>]*>([^<]*)</textarea>', again)
    assert json.loads(html.unescape(rest)) == {"working_dir": "/srv", "max_retries": 2}
    smaller = filled_in(
        bench, name="third", replicas="1", replaces=second.public_id, more='{"max_retries": 2}'
    )
    assert browser.post("/batches/new/", smaller).status_code == 303
    bench.turn(second)
    third = bench.turn(Workload.objects.get(name="third"))
    assert (second.phase, third.phase, third.max_retries) == ("Cancelled", "Admitted", 2)


@commits
def test_what_fails_is_tried_again_and_says_why(bench):
    client = api_client(bench.member)
    batch = submitted(bench, client, max_retries=1, env=steered(BED_RUN_SECONDS=0.2, BED_EXIT_CODE=3))
    bench.until(batch, ended)
    assert (batch.phase, batch.attempts.count(), batch.retries_used) == ("Failed", 2, 1)
    assert {attempt.exit_code for attempt in batch.attempts.all()} == {3}


@commits
def test_nobody_reaches_its_pods_as_it_takes_no_requests(bench):
    bench.turn(submitted(bench, api_client(bench.member)))
    namespace = bench.team.namespace_name
    opening = bench.client.get(
        ObjectRef("networking.k8s.io/v1", "NetworkPolicy", namespace, "mlportal-endpoint-ingress")
    )
    (chosen,) = opening["spec"]["podSelector"]["matchExpressions"]
    assert (chosen["key"], chosen["operator"], chosen["values"]) == ("mlportal.dev/kind", "In", ["endpoint"])


def test_the_jobs_of_two_kinds_are_watched_once(portal_with_example):
    watched = [thread.kind for thread in Watcher(lambda: None).threads]
    assert watched.count(kinds.JOB) == 1
    assert watched.count(kinds.DEPLOYMENT) == 1


def test_its_adapter_has_what_every_kind_has_and_nothing_else(portal_with_example):
    own = {name for name in vars(type(adapter_for("batch-inference"))) if not name.startswith("_")}
    assert own == {"kind", "primaries", "asked", "manifests", "observe"}
    assert WorkloadAdapter.__abstractmethods__ == {"asked", "manifests", "observe"}


# --- what it takes


def test_nothing_below_it_names_it():
    below = (*PACKAGES, "templates", "static", "deploy")
    named = [
        name
        for name, text in tracked_texts()
        if name.split("/")[0] in below
        and not name.endswith(".md")
        and ("batch-inference" in text or "batch_inference" in text)
    ]
    assert named == []


def test_it_imports_only_what_stands_below_the_kinds():
    order = layer_order()
    siblings = {name for name, rank in order.items() if rank >= order["jobs"]}
    imported = {
        name.split(".")[0]
        for path in EXAMPLE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names] if isinstance(node, ast.Import) else []
        )
    }  # fmt: skip
    assert {"controller", "console", "workloads"} <= imported
    assert imported & siblings == set()


def test_it_is_as_short_as_the_recipe_says():
    files = [*EXAMPLE.glob("*.py"), *EXAMPLE.rglob("*.html")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert lines < LINES_MAX
    assert f"less than {LINES_MAX} lines" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
