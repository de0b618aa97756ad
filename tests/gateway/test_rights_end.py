"""Rights that end while something is open: streams, waits and calls end within five seconds, told of it or not.

Three of these wait for the looks of a portal in earnest, the others for looks that come sooner. What is untold is changed
where no trigger fires, as if its notification had been lost.
"""

from __future__ import annotations

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client

from foundation import clock
from gateway.live import audience, events, logstream
from gateway.live.passthrough import GatewayLimits
from gateway.services import create_endpoint_token
from teams import services
from teams.actors import Actor
from teams.models import ApiToken, User
from telemetry.served_metrics import REQUESTS_IN_FLIGHT
from tests.api.bench import RUNS
from tests.factories.submitted import make_run
from tests.factories.teams import api_client, make_member, make_team, make_token
from tests.gateway.live_server import LIMITS, LiveServer, path_of
from tests.gateway.test_log_streams import Writer
from tests.waiting import result_of, until

ACTOR = Actor.system("tests")
# What the documentation promises; the last test of this file holds the looks to it.
WITHIN = 5.0
HOURS = 3600.0


@pytest.fixture
def live(bench, request, monkeypatch):
    """A live process that looks as often as one in earnest where the test is called so, else sooner."""
    # No ping ends what neither a notification nor a look has ended.
    monkeypatch.setattr(events, "PING_SECONDS", HOURS)
    monkeypatch.setattr(logstream, "PING_SECONDS", HOURS)
    if "in_earnest" in request.node.name:
        server = LiveServer(replace(LIMITS, access_seconds=GatewayLimits().access_seconds))
    else:
        monkeypatch.setattr(audience, "CHECK_SECONDS", 0.05)
        server = LiveServer(LIMITS)
    yield server
    server.stop()


def untold(statement, *arguments):
    """A change of which no trigger tells."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, arguments)
        cursor.execute("RESET session_replication_role")


def revoke(user, told):
    for token in ApiToken.objects.filter(user=user):
        if told:
            services.revoke_token(actor=ACTOR, token=token, now=clock.now())
        else:
            untold("UPDATE teams_apitoken SET revoked_at = now() WHERE id = %s", token.pk)


def remove(user, told):
    for membership in user.memberships.all():
        if told:
            services.remove_member(actor=ACTOR, membership=membership, now=clock.now())
        else:
            untold("DELETE FROM teams_membership WHERE id = %s", membership.pk)


def deactivate(user, told):
    if told:
        services.set_active(actor=ACTOR, user=user, active=False, now=clock.now())
    else:
        untold("UPDATE teams_user SET is_active = false WHERE id = %s", user.pk)


ENDS = pytest.mark.parametrize("end", [revoke, remove, deactivate])
TOLD = pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])


def open_now(live):
    live.health()
    return live.application.live.audience._streams.total()


def gone(stream):
    """Whether the answer is over, be it cut."""
    try:
        return not stream.response.read()
    except http.client.IncompleteRead as cut:
        return not cut.partial


# --- streams


@ENDS
def test_a_log_that_is_followed_ends(live, bench, end):
    check_followed_log(live, bench, end)


def test_a_log_that_is_followed_ends_in_earnest(live, bench):
    check_followed_log(live, bench, remove)


def check_followed_log(live, bench, end):
    writer = Writer(bench.endpoint)
    writer.write("one")
    where = api_client(bench.user, name="follow", scopes=("read",)).get(
        f"/api/v1/endpoints/{bench.endpoint.public_id}/logs/", {"follow": "1"}
    )
    stream = live.stream(path_of(where["Location"]))
    assert stream.response.readline() == b"one\n"
    end(bench.user, told=True)
    until(lambda: open_now(live) == 0)
    writer.write("not for them")
    assert gone(stream)


def test_the_events_of_a_team_end_for_who_left_it(live, bench):
    make_member(team=make_team("speech"), user=bench.user)
    client = api_client(bench.user, name="follow", scopes=("read",))
    of_team = client.get("/api/v1/stream/", {"team": "vision"})["Location"]
    of_one = client.get("/api/v1/stream/", {"workload": str(bench.endpoint.public_id)})["Location"]
    streams = [live.stream(path_of(where)) for where in (of_team, of_one)]
    assert [stream.status for stream in streams] == [200, 200]
    services.remove_member(actor=ACTOR, membership=bench.membership, now=clock.now())
    until(lambda: open_now(live) == 0)


def test_signing_out_ends_the_streams_of_that_browser_alone(live, bench, client):
    client.force_login(bench.user)
    ticket = client.get("/live-ticket/").json()["ticket"]
    unused = client.get("/live-ticket/").json()["ticket"]
    by_rest = client.get("/api/v1/stream/")["Location"]
    assert live.stream(f"/-/events/?ticket={quote(ticket)}").status == 200
    of_token = api_client(bench.user, name="stays").get("/api/v1/stream/")["Location"]
    assert live.stream(path_of(of_token)).status == 200
    assert open_now(live) == 2
    client.post("/sign-out/")
    until(lambda: open_now(live) == 1)
    refused = live.get(f"/-/events/?ticket={quote(unused)}")
    assert (refused.status, refused.json["code"]) == (401, "revoked")
    assert live.get(path_of(by_rest)).status == 401


def test_a_new_password_ends_the_streams_of_the_old_one(live, bench, client):
    client.force_login(bench.user)
    ticket = client.get("/live-ticket/").json()["ticket"]
    assert live.stream(f"/-/events/?ticket={quote(ticket)}").status == 200
    services.set_password(actor=ACTOR, user=bench.user, password="another horse entirely", now=clock.now())
    until(lambda: open_now(live) == 0)


@ENDS
def test_a_wait_ends(live, bench, end):
    run = make_run(bench.team, make_member(team=bench.team).user)
    client = api_client(bench.user, name="wait")
    where = client.get(f"{RUNS}{run.public_id}/", {"wait_for": "ended", "timeout": 60})["Location"]
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(live.get, path_of(where))
        until(lambda: live.application.live.move_bell._waiting or answer.done())
        end(bench.user, told=True)
        assert result_of(answer).status in {401, 404}


# --- tickets


@pytest.fixture
def second(bench):
    server = LiveServer(LIMITS)
    yield server
    server.stop()


def tickets_of(bench):
    """One for each thing that a ticket opens, and where."""
    run = make_run(bench.team, make_member(team=bench.team).user)
    Writer(bench.endpoint).write("one")
    client = api_client(bench.user, name="tickets")
    yield client.get("/api/v1/stream/")
    yield client.get(f"/api/v1/endpoints/{bench.endpoint.public_id}/logs/", {"follow": "1"})
    yield client.get(f"{RUNS}{run.public_id}/", {"wait_for": "ended", "timeout": 1})


def test_a_ticket_opens_once_whichever_process_is_asked(live, second, bench):
    for led in tickets_of(bench):
        path = path_of(led["Location"])
        with ThreadPoolExecutor(6) as apart:
            opened = list(apart.map(LiveServer.stream, [live, second] * 3, [path] * 6))
        assert sorted(stream.status for stream in opened) == [200, *[401] * 5]
        assert live.get(path).json["code"] == "ticket_used"


@ENDS
def test_a_ticket_is_judged_when_it_is_used(live, bench, end):
    led = list(tickets_of(bench))
    # Another stream of the same token is open: what was seen for it is not believed for the new one.
    first = api_client(bench.user, name="first").get("/api/v1/stream/")["Location"]
    assert live.stream(path_of(first)).status == 200
    end(bench.user, told=True)
    refused = [live.get(path_of(each["Location"])).status for each in led[1:]]
    assert set(refused) <= {401, 404}


def test_a_ticket_holds_neither_the_token_nor_the_session(bench, client):
    client.force_login(bench.user)
    text = client.get("/live-ticket/").json()["ticket"]
    assert client.session.session_key not in text
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM teams_liveticket")
        assert text not in repr(cursor.fetchall())


# --- calls of endpoints


def slow_answer(upstream):
    """An endpoint that begins to answer and then thinks."""
    done = threading.Event()

    def script(exchange):
        exchange.start()
        exchange.chunk(b"first\n")
        done.wait(30)

    upstream.script = script
    return done


@TOLD
@ENDS
def test_an_answer_that_is_being_streamed_is_cut(live, bench, upstream, end, told):
    check_cut(live, bench, upstream, end, told)


def test_an_answer_that_is_being_streamed_is_cut_in_earnest(live, bench, upstream):
    check_cut(live, bench, upstream, revoke, told=False)


def check_cut(live, bench, upstream, end, told):
    bench.timeout_seconds = 60.0
    done = slow_answer(upstream)
    stream = live.stream("/vision/digits/", Authorization=f"Bearer {bench.token}")
    assert stream.response.readline() == b"first\n"
    end(bench.user, told)
    until(lambda: live.metric(REQUESTS_IN_FLIGHT) == 0)
    done.set()
    with pytest.raises(http.client.IncompleteRead):
        stream.response.read()


def test_a_call_of_somebody_else_goes_on(live, bench, upstream):
    bench.timeout_seconds = 60.0
    done = slow_answer(upstream)
    other = make_token(make_member(team=bench.team).user)
    streams = [
        live.stream("/vision/digits/", Authorization=f"Bearer {token}") for token in (bench.token, other)
    ]
    assert [stream.response.readline() for stream in streams] == [b"first\n"] * 2
    revoke(bench.user, told=True)
    until(lambda: live.metric(REQUESTS_IN_FLIGHT) == 1)
    done.set()


def test_a_call_that_has_no_answer_yet_is_refused(live, bench, upstream):
    asked, done = threading.Event(), threading.Event()

    def script(exchange):
        asked.set()
        done.wait(30)
        exchange.reply(200, {})

    upstream.script = script
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(live.get, "/vision/digits/", token=bench.token)
        assert asked.wait(30)
        revoke(bench.user, told=False)
        refused = result_of(answer)
        done.set()
    assert (refused.status, refused.json["code"]) == (401, "invalid_token")


# --- tokens of endpoints


@pytest.fixture
def maker(bench):
    return make_member("lead", team=bench.team).user


def viewer_only(user, told):
    if told:
        services.change_role(actor=ACTOR, membership=user.memberships.get(), role="viewer", now=clock.now())
    else:
        untold("UPDATE teams_membership SET role = 'viewer' WHERE user_id = %s", user.pk)


@TOLD
@pytest.mark.parametrize("end", [remove, deactivate, viewer_only])
def test_a_token_of_an_endpoint_ends_with_the_right_to_make_it(live, bench, maker, end, told):
    check_maker(live, bench, maker, end, told)


def test_a_token_of_an_endpoint_ends_with_the_right_to_make_it_in_earnest(live, bench, maker):
    check_maker(live, bench, maker, remove, told=False)


def check_maker(live, bench, maker, end, told):
    _, secret = create_endpoint_token(
        actor=Actor.of_user(maker), endpoint=bench.endpoint, name="shop", expires_in_days=9, now=clock.now()
    )
    assert live.get("/vision/digits/", token=secret).status == 200
    end(maker, told)
    until(lambda: live.get("/vision/digits/", token=secret).status == 401)


def test_a_token_that_a_platform_admin_made_ends_with_the_role(live, bench):
    admin = make_member("viewer", team=bench.team).user
    User.objects.filter(pk=admin.pk).update(is_platform_admin=True)
    admin.refresh_from_db()
    _, secret = create_endpoint_token(
        actor=Actor.of_user(admin), endpoint=bench.endpoint, name="shop", expires_in_days=9, now=clock.now()
    )
    assert live.get("/vision/digits/", token=secret).status == 200
    User.objects.filter(pk=admin.pk).update(is_platform_admin=False)
    until(lambda: live.get("/vision/digits/", token=secret).status == 401)


@TOLD
@ENDS
def test_a_token_of_a_user_that_is_bound_to_the_team_ends(live, bench, end, told):
    bound = make_token(bench.user, name="bound", team=bench.team, scopes=("read",))
    assert live.get("/vision/digits/", token=bound).status == 200
    end(bench.user, told)
    until(lambda: live.get("/vision/digits/", token=bound).status in {401, 404})
    url = f"/api/v1/endpoints/{bench.endpoint.public_id}/"
    headers = {"HTTP_AUTHORIZATION": f"Bearer {bound}"}
    assert Client().get(url, **headers).status_code in {401, 404}


def test_looks_are_often_enough():
    """The rule: what was not told is known after one look, and a look takes at most the time of an answer."""
    assert audience.CHECK_SECONDS + 3.0 <= WITHIN
    assert GatewayLimits().access_seconds / 2 + 3.0 <= WITHIN
