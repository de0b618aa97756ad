"""PostgreSQL goes away and comes back under a portal that runs."""

from __future__ import annotations

import http.client
import json
from uuid import UUID

import pytest
import redis
from kombu import Connection

from portal.celery import app
from portal.settings import queues, stores
from tests.crash.fleet import running_fleet
from tests.waiting import until

pytestmark = pytest.mark.processes

_BEATS = "SELECT count(*) FROM foundation_heartbeat WHERE process = 'watcher' AND at > %s"
_PAGES = ("/", "/runs/")
SESSION = "a" * 32
_AWAY, _BACK = "database.away", "database.back"
_TIMED = ("live", "worker", "beat", "watcher")
_JOBS = {
    "controller.keep_fences": {},
    "controller.settle_usage": {},
    "costs.check_rollups": {},
    "controller.collect_garbage": {},
    "quotas.return_requests": {},
    "controller.pass_over_pool": {"flavor_id": 1, "capacity_type": "on-demand"},
    "controller.reconcile_workload": {"workload_id": str(UUID(int=1))},
}


@pytest.fixture
def fleet(tmp_path, devcluster):
    with running_fleet(tmp_path, kubeconfig=devcluster, kinds=("web", "watcher")) as fleet:
        yield fleet


def ask(fleet, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", fleet.ports["web"], timeout=20)
    try:
        connection.request("GET", path, headers={"Host": f"localhost:{fleet.ports['web']}", **headers})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def api(fleet):
    return ask(fleet, "/api/v1/training-runs/", Authorization=f"Bearer {fleet.token}")


def test_without_its_database_the_portal_says_so_and_goes_on_when_it_is_back(fleet):
    assert api(fleet)[0] == 200
    with fleet.database() as database:
        (before,) = database.execute("SELECT now()").fetchone()
        until(
            lambda: database.execute(_BEATS, [before]).fetchone()[0] == 1,
            seconds=60,
            said="the watcher beats",
        )
    fleet.stop_database()

    status, headers, body = api(fleet)
    assert (status, headers["Content-Type"]) == (503, "application/problem+json"), body
    assert int(headers["Retry-After"]) > 0
    problem = json.loads(body)
    assert (problem["code"], problem["status"]) == ("database_unavailable", 503)
    for path in _PAGES:
        status, headers, body = ask(fleet, path, Cookie=f"portal-session={SESSION}")
        assert (status, "Retry-After" in headers) == (503, True), path
        assert "<h1>Not available right now</h1>" in body
    until(
        lambda: _AWAY in fleet.log("watcher") or fleet.children["watcher"].poll() is not None,
        seconds=60,
        said="the watcher misses its database",
    )
    fleet.start_database()
    with fleet.database() as database:
        (back,) = database.execute("SELECT now()").fetchone()
        until(
            lambda: database.execute(_BEATS, [back]).fetchone()[0] == 1,
            seconds=60,
            said=f"the watcher beats again; {fleet.children['watcher'].poll()}",
        )
        seen = "SELECT count(*) FROM workloads_watchcursor WHERE kind = 'Node' AND seen_at > %s"
        until(lambda: database.execute(seen, [back]).fetchone()[0] == 1, seconds=120, said="it watches again")
    assert fleet.children["watcher"].poll() is None
    assert api(fleet)[0] == 200


def send_jobs(fleet):
    """What beat and lost wake-ups send while nobody can be asked; until a worker has been through all of it."""
    with Connection(stores.broker_url(stores.embedded_redis_url(fleet.folders))) as connection:
        for job, arguments in _JOBS.items():
            app.send_task(job, kwargs=arguments, connection=connection)
    with redis.Redis(unix_socket_path=str(fleet.folders.valkey_socket)) as broker:
        until(
            lambda: not any(map(broker.llen, queues.THREADS)) and not broker.hlen("unacked"),
            seconds=60,
            said="the worker has tried each",
        )


def test_what_asks_again_and_again_tells_once_that_the_database_goes_and_once_that_it_is_back(
    tmp_path, devcluster
):
    with running_fleet(tmp_path, kubeconfig=devcluster, kinds=_TIMED) as fleet:
        with fleet.database() as database:
            beaten = (
                "SELECT count(*) FROM foundation_heartbeat WHERE process IN ('worker', 'beat', 'watcher')"
            )
            until(lambda: database.execute(beaten).fetchone()[0] == 3, seconds=60, said="all of them beat")
            listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'portal-live-listen'"
            until(lambda: database.execute(listening).fetchone()[0] == 1, seconds=60, said="live listens")
        fleet.stop_database()
        for told, what in ((_AWAY, "misses its database"), (_BACK, "finds it again")):
            for kind in _TIMED:
                until(lambda kind=kind, told=told: told in fleet.log(kind), seconds=60, said=f"{kind} {what}")
            if told == _AWAY:
                send_jobs(fleet)
                fleet.start_database()
        for kind in _TIMED:
            log = fleet.log(kind)
            assert (log.count(_AWAY), log.count(_BACK)) == (1, 1), log
            assert "Traceback" not in log, log
