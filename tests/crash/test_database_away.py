"""PostgreSQL goes away and comes back under a portal that runs."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.crash.fleet import running_fleet
from tests.runtime.processes import until

_BEATS = "SELECT count(*) FROM foundation_heartbeat WHERE process = 'watcher' AND at > %s"
_PAGES = ("/", "/runs/")
SESSION = "a" * 32


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
            what="the watcher beats",
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
        lambda: "heartbeat_failed" in fleet.log("watcher") or fleet.children["watcher"].poll() is not None,
        seconds=60,
        what="the watcher misses its database",
    )
    fleet.start_database()
    with fleet.database() as database:
        (back,) = database.execute("SELECT now()").fetchone()
        until(
            lambda: database.execute(_BEATS, [back]).fetchone()[0] == 1,
            seconds=60,
            what=f"the watcher beats again; {fleet.children['watcher'].poll()}",
        )
        seen = "SELECT count(*) FROM workloads_watchcursor WHERE kind = 'Node' AND seen_at > %s"
        until(lambda: database.execute(seen, [back]).fetchone()[0] == 1, seconds=120, what="it watches again")
    assert fleet.children["watcher"].poll() is None
    assert api(fleet)[0] == 200
