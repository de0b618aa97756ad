"""A cluster that takes every request and answers none: the portal's own work goes on beside it."""

from __future__ import annotations

import pytest
from kombu import Connection

from controller.wakeups import RECONCILE_TASK
from portal.celery import app
from portal.settings import stores
from tests.cluster.cluster_faults import FaultServer
from tests.crash.fleet import running_fleet
from tests.waiting import until

RUNNING = 300
SWEEPS = 5
_SEED = f"""
from datetime import timedelta
from foundation import clock
from tests.factories.workloads import make_workload, put_in
from workloads.models import Workload
from workloads.states import Phase
now = clock.now()
first = make_workload(name="run-0", now=now)
for number in range({RUNNING}):
    run = make_workload(team=first.team, owner=first.owner, flavor=first.flavor, name=f"run-{{number + 1}}", now=now)
    put_in(run, Phase.RUNNING, next_reconcile_at=now - timedelta(minutes=1))
Workload.objects.filter(pk=first.pk).update(next_reconcile_at=None)
"""
_SUBMIT = "UPDATE workloads_workload SET next_reconcile_at = now() WHERE name = 'run-0' RETURNING public_id"
_TOUCHED = "SELECT reason FROM workloads_workload WHERE name = 'run-0'"
_SWEEPS = "SELECT coalesce(max(fencing), 0) FROM foundation_lease WHERE name = 'periodic:sweep'"

# It runs a whole portal for most of a minute.
pytestmark = pytest.mark.processes


@pytest.fixture
def hung(tmp_path):
    server = FaultServer(tmp_path / "hung", lambda exchange: exchange.hang())
    yield server
    server.close()


def submit(fleet, database):
    """As a submission does it: the row is due, and then a worker is told."""
    (public_id,) = database.execute(_SUBMIT).fetchone()
    broker = stores.broker_url(stores.embedded_redis_url(fleet.folders))
    with Connection(broker) as connection:
        app.send_task(RECONCILE_TASK, kwargs={"workload_id": str(public_id)}, connection=connection)


def test_while_the_api_hangs_the_sweep_goes_on_and_a_new_submission_is_looked_at(tmp_path, hung):
    with running_fleet(tmp_path / "fleet", kubeconfig=str(hung.kubeconfig), kinds=()) as fleet:
        fleet.manage("shell", "-v", "0", "-c", _SEED)
        fleet.spawn("beat")
        fleet.spawn("worker")
        with fleet.database() as database:

            def ask(query):
                return database.execute(query).fetchone()[0]

            until(lambda: len(hung.requests) >= 3, seconds=60, said="the worker waits for the cluster")
            submit(fleet, database)
            before = ask(_SWEEPS)
            until(
                lambda: ask(_SWEEPS) >= before + SWEEPS and ask(_TOUCHED) == "ClusterUnavailable",
                seconds=40,
                said="the sweep ran five times more, and the new one was looked at",
            )
