"""`?wait_for=`: web leads to the live process, which answers as soon as it holds, or when the time is over."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
import requests
from django.db import connection

from foundation import clock
from gateway.live import audience
from gateway.live import waits as live_waits
from inference.models import Endpoint
from teams import services as people
from teams.actors import Actor
from teams.models import ApiToken
from tests.api.bench import ENDPOINTS, RUNS, problem
from tests.factories.submitted import make_endpoint, make_run, move
from tests.factories.teams import api_client, make_member, make_team
from tests.gateway.live_server import Answer, path_of
from tests.waiting import result_of, until
from workloads.models import Workload
from workloads.services import notify
from workloads.states import Phase

ACTOR = Actor.system("tests")


@pytest.fixture
def run(bench) -> Workload:
    return make_run(bench.team, make_member(team=bench.team).user)


@pytest.fixture
def portal(bench, live, live_server, settings) -> str:
    """Both processes, at the addresses that each knows of the other."""
    settings.LIVE_URL = f"http://127.0.0.1:{live.port}"
    settings.PUBLIC_URL = live_server.url
    return live_server.url


@pytest.fixture
def apart():
    with ThreadPoolExecutor(max_workers=4) as threads:
        yield threads


def led(bench, run: Workload, **query) -> str:
    """Where web leads the one who asks."""
    answer = api_client(bench.user, name=str(query)).get(f"{RUNS}{run.public_id}/", query)
    assert (answer.status_code, answer["Cache-Control"]) == (307, "no-store"), answer.content
    return path_of(answer["Location"])


def waiting(live, apart, path: str, waits: int = 1) -> Future[Answer]:
    """The answer to come, of one who waits already."""
    future = apart.submit(live.get, path)
    bells = live.application.live.move_bell._waiting
    until(lambda: sum(map(len, bells.values())) == waits or future.done())
    return future


def fetch_with_requests(url: str, token: str) -> dict:
    answer = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    return answer.json()


def fetch_with_curl(url: str, token: str) -> dict:
    command = ["curl", "-sSfL", "--max-time", "60", "--oauth2-bearer", token, url]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


@pytest.mark.parametrize(
    "fetch", [fetch_with_requests, pytest.param(fetch_with_curl, marks=needs_curl)], ids=["requests", "curl"]
)
def test_an_ordinary_client_is_answered_when_the_run_ends(portal, live, bench, run, apart, fetch):
    url = f"{portal}{RUNS}{run.public_id}/?wait_for=ended&timeout=60"
    answer: Future[dict] = apart.submit(fetch, url, bench.token)
    bells = live.application.live.move_bell._waiting
    until(lambda: str(run.public_id) in bells or answer.done())
    move(run, Phase.RUNNING)
    assert not answer.done()
    move(run, Phase.SUCCEEDED)
    assert result_of(answer)["phase"] == "Succeeded"
    assert answer.result() == fetch(f"{portal}{RUNS}{run.public_id}/", bench.token)


def test_what_holds_already_is_answered_by_web(bench, run):
    client = api_client(bench.user)
    url = f"{RUNS}{run.public_id}/"
    move(run, Phase.RUNNING)
    started = client.get(url, {"wait_for": "started", "fields": "phase"})
    assert (started.status_code, started.json()) == (200, {"phase": "Running"})
    assert client.get(url, {"wait_for": "ended"}).status_code == 307
    move(run, Phase.SUCCEEDED)
    for wait_for in ("started", "ended"):
        assert client.get(url, {"wait_for": wait_for}).status_code == 200


def test_when_the_time_is_over_it_is_answered_as_it_is_then(live, bench, run):
    answer = live.get(led(bench, run, wait_for="ended", timeout=1, fields="id,phase"))
    assert (answer.status, answer.json) == (200, {"id": str(run.public_id), "phase": "Queued"})
    assert answer.headers["cache-control"] == "no-store"


def test_a_move_answers_long_before_the_time_is_over(live, bench, run, apart, monkeypatch):
    # No look by the clock comes within the time that the test waits.
    monkeypatch.setattr(live_waits, "LOOK_SECONDS", 600.0)
    answer = waiting(live, apart, led(bench, run, wait_for="started", timeout=60))
    notify(run)
    assert not answer.done()
    move(run, Phase.RUNNING)
    assert result_of(answer).json["phase"] == "Running"


def test_a_move_that_no_notification_told_is_seen_by_the_clock(live, bench, run, apart, monkeypatch):
    monkeypatch.setattr(live_waits, "LOOK_SECONDS", 0.05)
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    Workload.objects.filter(pk=run.pk).update(phase="Failed", reason="OOMKilled", finished_at=clock.now())
    assert result_of(answer).json["reason"] == "OOMKilled"


def test_who_waits_keeps_no_connection_and_no_thread(live, bench, run, apart):
    answers = [waiting(live, apart, led(bench, run, wait_for="ended", timeout=60), n + 1) for n in range(4)]

    def busy() -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state <> 'idle'"
            )
            return int(cursor.fetchone()[0])

    until(lambda: busy() == 0)
    assert not any(answer.done() for answer in answers)
    move(run, Phase.SUCCEEDED)
    assert {result_of(answer).json["phase"] for answer in answers} == {"Succeeded"}


def test_an_endpoint_is_ready_when_the_revision_that_is_wanted_serves(live, bench, apart):
    endpoint = make_endpoint(bench.team, make_member(team=bench.team).user)
    client = api_client(bench.user)
    url = f"{ENDPOINTS}{endpoint.public_id}/"
    move(endpoint, Phase.RUNNING)
    Endpoint.objects.filter(workload=endpoint).update(stable_revision=1)
    Workload.objects.filter(pk=endpoint.pk).update(reason="Ready")
    assert client.get(url, {"wait_for": "ready"}).status_code == 200
    Endpoint.objects.filter(workload=endpoint).update(revision=2)
    led_to = client.get(url, {"wait_for": "ready", "timeout": 60, "fields": "serving_revision"})
    answer = waiting(live, apart, path_of(led_to["Location"]))
    Endpoint.objects.filter(workload=endpoint).update(stable_revision=2)
    notify(endpoint)
    assert result_of(answer).json == {"serving_revision": 2}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"wait_for": "ready"}, "wait_for"),
        ({"wait_for": ""}, "wait_for"),
        ({"wait_for": "ended", "timeout": "0"}, "timeout"),
        ({"wait_for": "ended", "timeout": "61"}, "timeout"),
        ({"wait_for": "ended", "timeout": "1.5"}, "timeout"),
        ({"timeout": "10"}, "timeout"),
        ({"wait_for": "ended", "fields": "nonsense"}, "fields"),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused_by_its_name(bench, run, query, field):
    problem(api_client(bench.user).get(f"{RUNS}{run.public_id}/", query), 400, field)


def test_a_ticket_opens_once_and_only_for_a_minute(live, bench, run):
    path = led(bench, run, wait_for="ended", timeout=1)
    assert live.get(path).status == 200
    again = live.get(path)
    assert (again.status, again.json["code"]) == (401, "ticket_used")
    with clock.freeze(clock.now() - timedelta(minutes=2)):
        old = led(bench, run, wait_for="ended", timeout=2)
    assert (live.get(old).status, live.get(old).json["code"]) == (401, "ticket_expired")
    assert live.get("/-/wait/?ticket=forged").status == 401
    assert live.get("/-/wait/").status == 401


def test_strangers_are_told_that_there_is_nothing_and_so_is_who_is_removed(
    live, bench, run, apart, monkeypatch
):
    monkeypatch.setattr(audience, "CHECK_SECONDS", 0.05)
    stranger = make_member(team=make_team("speech")).user
    assert api_client(stranger).get(f"{RUNS}{run.public_id}/", {"wait_for": "ended"}).status_code == 404
    make_member(team=make_team("audio"), user=bench.user)
    path = led(bench, run, wait_for="ended", timeout=60)
    people.remove_member(actor=ACTOR, membership=bench.membership, now=clock.now())
    assert live.get(path).status == 404


def test_a_token_that_is_revoked_waits_no_longer(live, bench, run, apart, monkeypatch):
    client = api_client(bench.user, name="revoked")
    token = ApiToken.objects.get(name="revoked")
    where = client.get(f"{RUNS}{run.public_id}/", {"wait_for": "ended", "timeout": 60})["Location"]
    answer = waiting(live, apart, path_of(where))
    people.revoke_token(actor=ACTOR, token=token, now=clock.now())
    assert (result_of(answer).status, answer.result().json["code"]) == (401, "revoked")


def test_a_user_waits_for_sixty_four_things_at_once(live, bench, run, apart, monkeypatch):
    monkeypatch.setattr(live.application.live.waiters, "most", 1)
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    refused = live.get(led(bench, run, wait_for="ended", timeout=59))
    assert (refused.status, refused.json["code"]) == (429, "too_many_waits")
    assert int(refused.headers["retry-after"]) > 0
    move(run, Phase.SUCCEEDED)
    assert result_of(answer).status == 200


def test_the_tag_of_the_answer_is_that_of_web(live, bench, run):
    whole = api_client(bench.user).get(f"{RUNS}{run.public_id}/", {"fields": "id,phase"})
    query = {"wait_for": "ended", "timeout": 1, "fields": "phase,id"}
    assert live.get(led(bench, run, **query)).headers["etag"] == whole["ETag"]
    known = live.get(led(bench, run, **query), headers={"If-None-Match": whole["ETag"]})
    assert (known.status, known.body) == (304, b"")


def test_a_process_that_stops_answers_at_once(live, bench, run, apart):
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    live.stop()
    assert result_of(answer).json["phase"] == "Queued"


def test_a_client_that_hangs_up_is_forgotten(live, bench, run):
    bells = live.application.live.move_bell._waiting
    with closing(http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)) as caller:
        caller.request("GET", led(bench, run, wait_for="ended", timeout=60))
        until(lambda: str(run.public_id) in bells)
    until(lambda: not bells and not live.application.live.waiters._streams)


def test_rights_that_end_while_it_waits_are_asked_for_with_the_answer_itself(
    live, bench, run, apart, monkeypatch
):
    """Also where the check of all who wait fails, which sees it first as a rule."""

    async def away(_):
        raise OSError("the check does not get through")

    looked: list[object] = []

    def look(*arguments, **named):
        looked.append(known(*arguments, **named))
        return looked[-1]

    known = live_waits.look
    monkeypatch.setattr(live_waits, "look", look)
    make_member(team=make_team("audio"), user=bench.user)
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    # The first look is over: it would see the move by the rights of its own moment.
    until(lambda: looked or answer.done())
    assert looked == [None]
    monkeypatch.setattr(live.application.live.waiters, "_check", away)
    people.remove_member(actor=ACTOR, membership=bench.membership, now=clock.now())
    move(run, Phase.SUCCEEDED)
    assert result_of(answer).status == 404


def test_who_was_refused_for_want_of_room_comes_again_with_the_same_ticket(
    live, bench, run, apart, monkeypatch
):
    monkeypatch.setattr(live.application.live.waiters, "most", 1)
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    second = led(bench, run, wait_for="ended", timeout=59)
    assert live.get(second).status == 429
    move(run, Phase.SUCCEEDED)
    assert result_of(answer).status == 200
    assert live.get(second).status == 200
    assert (live.get(second).status, live.get(second).json["code"]) == (401, "ticket_used")


def test_an_outage_of_the_database_is_waited_out(live, bench, run, apart, monkeypatch):
    looks = []

    def look(*arguments, **named):
        looks.append(1)
        if len(looks) in {1, 2}:
            raise psycopg.OperationalError("the database is away")
        return known(*arguments, **named)

    known = live_waits.look
    monkeypatch.setattr(live_waits, "look", look)
    monkeypatch.setattr(live_waits, "OUTAGE_SECONDS", 0.05)
    answer = waiting(live, apart, led(bench, run, wait_for="ended", timeout=60))
    until(lambda: len(looks) >= 3)
    move(run, Phase.SUCCEEDED)
    assert result_of(answer).json["phase"] == "Succeeded"
