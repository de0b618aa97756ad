"""Many wait, the cluster is away for a while: their verdicts stay, and nobody makes a pass of its own afterwards."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster.client import connect
from controller.admission import scheduler
from controller.reconcile.reconciler import reconcile
from foundation import clock
from quotas.models import Pool
from quotas.pool_rows import WINDOW
from workloads.models import Workload, WorkloadEvent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]
MANY = WINDOW + 28


def queue_up(bench):
    """One holds all there is; many more than a pass shows wait behind it, each with its verdict."""
    first = bench.submit(name="first", gpus_per_replica=8, time_limit_seconds=7200)
    bench.turn(first)
    rows = [bench.submit(name=f"w-{number}") for number in range(MANY)]
    for each in rows:
        bench.turn(each)
        assert each.reason == "WaitingForQuota"
    return rows


def turn_all(bench, rows):
    """Everybody's turn; how many passes that made, by the lock that each of them takes."""
    Workload.objects.filter(pk__in=[each.pk for each in rows]).update(next_reconcile_at=clock.now())
    with CaptureQueriesContext(connection) as made:
        for each in rows:
            reconcile(public_id=each.public_id, client=bench.client, now=clock.now())
    return sum("hashtext(card)" in query["sql"] for query in made.captured_queries)


@pytest.mark.matrix
def test_an_outage_overwrites_no_verdict_and_costs_no_pass_for_each_who_waits(bench, relay):
    rows = queue_up(bench)
    told = dict(Workload.objects.values_list("pk", "message"))
    events = WorkloadEvent.objects.count()
    relay.away = True
    # A client that has had no answer yet, as after a while without any.
    bench.client = connect(relay.kubeconfig)
    turn_all(bench, rows)
    for each in rows:
        each.refresh_from_db()
        assert (each.reason, each.message) == ("WaitingForQuota", told[each.pk])
    assert WorkloadEvent.objects.count() == events
    relay.away = False
    Pool.objects.update(due_at=clock.now())
    assert turn_all(bench, rows) <= 2


def test_what_a_pass_has_admitted_is_not_looked_for_before_it_is_made(bench, relay):
    """Nothing was made that could be there: of many that start at once, the API server is not asked for the pods of each."""
    run = bench.submit()
    assert scheduler.pass_over(Pool.objects.get(), now=clock.now()) == 1
    run.refresh_from_db()
    assert (run.phase, run.attempt_number) == ("Admitted", 0)
    relay.seen.clear()
    assert bench.turn(run).attempt_number == 1
    made = next(
        place for place, (method, path) in enumerate(relay.seen) if "/jobs" in path and method != "GET"
    )
    assert [path for method, path in relay.seen[:made] if method == "GET" and "/pods" in path] == []
