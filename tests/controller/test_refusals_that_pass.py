"""The cluster refuses for a while what it takes later: a right, a webhook, its credentials. Nothing fails of that."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster import kinds
from controller.reconcile.act import REFUSED_RETRY_SECONDS
from foundation import clock
from quotas.models import Quota
from tests.controller.endpoints import change, ready, states
from workloads.models import Attempt

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]

FORBIDDEN = 'jobs.batch is forbidden: User "portal" cannot create resource "jobs"'
CALLING = 'Internal error occurred: failed calling webhook "kueue.x-k8s.io": connection refused'
DENIED = 'admission webhook "policy.example.org" denied the request: images come from example.org'
PASSING = [
    (403, "Forbidden", FORBIDDEN),
    (500, "InternalError", CALLING),
    (400, "BadRequest", DENIED),
    (403, "Forbidden", DENIED),
    (401, "Unauthorized", "does not accept the portal's credentials"),
    (
        403,
        "Forbidden",
        'jobs.batch "train" is forbidden: exceeded quota: objects, limited: count/jobs.batch=1',
    ),
]


@pytest.mark.parametrize(("code", "reason", "words"), PASSING)
def test_a_refusal_that_may_pass_lets_the_run_wait_say_why_and_go_on(bench, relay, code, reason, words):
    relay.refuse("POST", "/jobs", code, reason, words)
    run = bench.submit()
    for _ in range(3):
        before = clock.now()
        bench.turn(run)
    assert (run.phase, run.reason) == ("Admitted", "Creating"), run.message
    assert words in run.message
    assert before < run.next_reconcile_at <= clock.now() + timedelta(seconds=REFUSED_RETRY_SECONDS)
    assert (run.attempts.count(), run.retries_used, bench.own(run, kinds.JOB)) == (1, 0, [])
    relay.rules.clear()
    bench.until(run, lambda run: run.phase == "Running")
    assert words not in run.message
    assert (run.attempts.count(), len(bench.own(run, kinds.JOB))) == (1, 1)


@pytest.mark.parametrize(("code", "reason"), [(400, "BadRequest"), (422, "Invalid")])
def test_what_no_time_mends_fails_at_once(bench, relay, code, reason):
    relay.refuse("POST", "/jobs", code, reason, "spec.template: Required value")
    run = bench.submit()
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason, Quota.objects.get().used) == ("Failed", "InvalidSpec", 0)


def test_a_refusal_that_lasts_gives_the_claim_to_others_and_it_asks_again_later(bench, relay):
    relay.refuse("POST", "/jobs", 403, "Forbidden", FORBIDDEN)
    run = bench.submit()
    bench.turn(run)
    assert Quota.objects.get().used == 2
    past = clock.now() - timedelta(hours=1)
    Attempt.objects.filter(workload=run).update(created_at=past)
    type(run).objects.filter(pk=run.pk).update(since=past)
    bench.until(run, lambda run: run.phase == "Queued")
    assert (run.reason, Quota.objects.get().used) == ("BackoffWaiting", 0)
    assert FORBIDDEN in run.message
    relay.rules.clear()
    type(run).objects.filter(pk=run.pk).update(rests_until=clock.now())
    bench.until(run, lambda run: run.phase == "Running")


def test_a_look_that_is_refused_changes_nothing_of_what_runs(bench, relay):
    run = bench.running()
    relay.refuse("GET", "/jobs", 403, "Forbidden", "jobs.batch is forbidden: no")
    bench.turn(run)
    assert (run.phase, run.failures) == ("Running", 1)
    assert run.next_reconcile_at > clock.now()
    relay.rules.clear()
    bench.turn(run)
    assert (run.phase, run.failures) == ("Running", 0)


def test_a_look_that_has_used_its_budget_asks_the_cluster_no_more(bench, relay, monkeypatch):
    run = bench.running()
    monkeypatch.setattr("controller.reconcile.reconciler.BUDGET_SECONDS", 0)
    before = len(relay.seen)
    bench.turn(run)
    assert (run.phase, run.failures, len(relay.seen)) == ("Running", 1, before)
    monkeypatch.undo()
    bench.turn(run)
    assert (run.phase, run.failures) == ("Running", 0)


def test_a_new_revision_that_is_forbidden_for_a_while_comes_when_it_is_not(bench, relay):
    endpoint = ready(bench)
    workload = endpoint.workload
    relay.refuse("PATCH", "/deployments", 403, "Forbidden", "deployments.apps is forbidden: no")
    change(bench, endpoint, image="x:2")
    bench.turn(workload)
    assert "deployments.apps is forbidden" in workload.message
    assert states(endpoint) == ["live", "pending"], "nothing is rolled back for that"
    relay.rules.clear()
    bench.until(workload, lambda row: row.reason == "Ready" and states(endpoint) == ["superseded", "live"])
