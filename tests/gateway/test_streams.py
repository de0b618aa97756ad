"""Server-sent events: who sees what, for how long, and what happens when something breaks."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.db import connection

from foundation import clock
from gateway import tickets
from gateway.live import events
from teams import services
from teams.actors import Actor
from teams.models import ApiToken
from tests.factories.teams import api_client, make_member, make_team, make_user
from tests.gateway.live_server import path_of
from tests.waiting import until
from workloads.services import notify

ACTOR = Actor.system("tests")


def events_path(user, *, token=None, now=None, last_id=""):
    ticket = tickets.make_events_ticket(user=user, token=token, now=now or clock.now())
    return f"/-/events/?ticket={quote(ticket)}&last_event_id={quote(last_id)}"


@pytest.fixture
def quiet(live):
    """A live process that has heard nothing yet: what the bench did is behind it."""
    return live


def terminate_listener() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'portal-live-listen' AND datname = current_database()"
        )
        return len(cursor.fetchall())


def test_a_stream_has_the_headers_that_proxies_and_browsers_need(quiet, bench, settings):
    stream = quiet.stream(events_path(bench.user))
    headers = stream.response.headers
    assert stream.status == 200
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Access-Control-Allow-Origin"] == settings.PUBLIC_URL
    assert "Access-Control-Allow-Credentials" not in headers


def test_an_event_arrives_with_its_facts(quiet, bench):
    stream = quiet.stream(events_path(bench.user))
    notify(bench.endpoint)
    event_id, name, data = stream.event()
    assert name == "workload"
    assert json.loads(data) == {
        "workload": str(bench.endpoint.public_id),
        "kind": "endpoint",
        "team": "vision",
        "phase": "Running",
        "reason": "Ready",
    }
    assert event_id


def test_a_stream_shows_the_own_teams_only(quiet, bench):
    other = bench.make_endpoint("secret", team=make_team("speech"))
    stream = quiet.stream(events_path(bench.user))
    admin = quiet.stream(events_path(make_user(platform_admin=True)))
    # `secret` was made while nobody listened: both streams begin with what that means to them.
    for _ in range(3):
        notify(other)
    notify(bench.endpoint)
    assert stream.workload() == str(bench.endpoint.public_id)
    assert admin.workload() == str(other.public_id)


def test_a_removed_member_sees_nothing_more(quiet, bench):
    make_member(team=make_team("speech"), user=bench.user)
    stream = quiet.stream(events_path(bench.user))
    services.remove_member(actor=ACTOR, membership=bench.membership, now=clock.now())
    principal_views = quiet.application.live.audience._views
    until(lambda: all("vision" not in view.slugs for view in principal_views.values()), events.PING_SECONDS)
    notify(bench.endpoint)
    speech = bench.make_endpoint("voices", team=bench.user.memberships.get().team)
    assert stream.workload() == str(speech.public_id)


def test_the_stream_of_a_revoked_token_ends(quiet, bench):
    token = ApiToken.objects.get(user=bench.user)
    stream = quiet.stream(events_path(bench.user, token=token))
    services.revoke_token(actor=ACTOR, token=token, now=clock.now())
    while stream.event() is not None:
        pass


def test_the_stream_of_a_deactivated_user_ends(quiet, bench):
    stream = quiet.stream(events_path(bench.user))
    bench.user.is_active = False
    bench.user.save()
    while stream.event() is not None:
        pass
    assert quiet.get(events_path(bench.user)).status == 401


@pytest.mark.parametrize("ticket", ["", "forged", None])
def test_a_ticket_that_is_forged_or_old_opens_nothing(quiet, bench, ticket):
    old = events_path(bench.user, now=clock.now() - timedelta(minutes=2))
    answer = quiet.get(old if ticket is None else f"/-/events/?ticket={ticket}")
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/problem+json"


def test_after_the_listening_connection_broke_pages_are_told_and_events_come_again(quiet, bench):
    stream = quiet.stream(events_path(bench.user))
    assert terminate_listener() == 1
    event = stream.event()
    assert event[1] == "resync"
    notify(bench.endpoint)
    assert stream.workload() == str(bench.endpoint.public_id)


def test_a_stream_that_comes_back_gets_what_it_missed(quiet, bench):
    with closing(quiet.stream(events_path(bench.user))) as stream:
        notify(bench.endpoint)
        event = stream.event()
        while event[1] != "workload":
            event = stream.event()
    missed = bench.make_endpoint("missed")
    again = quiet.stream(events_path(bench.user, last_id=event[0]))
    assert again.workload() == str(missed.public_id)


def test_a_stream_that_comes_back_to_another_process_is_told_to_ask_anew(quiet, bench):
    stream = quiet.stream(events_path(bench.user, last_id="0123456789ab-17"))
    assert stream.event()[1] == "resync"


def test_a_quiet_stream_is_kept_open_by_pings(quiet, bench, monkeypatch):
    monkeypatch.setattr(events, "PING_SECONDS", 0.05)
    stream = quiet.stream(events_path(bench.user))
    assert stream.event(pings=True) == "ping"


def test_a_ninth_stream_of_one_user_is_refused(quiet, bench):
    streams = [quiet.stream(events_path(bench.user)) for _ in range(8)]
    assert {stream.status for stream in streams} == {200}
    ninth = quiet.get(events_path(bench.user))
    assert (ninth.status, ninth.json["code"]) == (429, "too_many_streams")
    assert int(ninth.headers["retry-after"]) > 0
    streams[0].close()
    until(lambda: quiet.health()["streams"] == 7)
    assert quiet.stream(events_path(bench.user)).status == 200


def test_two_hundred_streams_use_one_connection_to_listen(quiet, bench):
    users = [bench.user, *(make_member(team=bench.team).user for _ in range(24))]
    streams = [quiet.stream(events_path(user)) for user in users for _ in range(8)]
    assert quiet.health()["streams"] == 200
    notify(bench.endpoint)
    assert {stream.workload() for stream in streams} == {str(bench.endpoint.public_id)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE application_name = 'portal-live-listen'), count(*)"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        listening, all_connections = cursor.fetchone()
    assert listening == 1
    assert all_connections <= 1 + 4 + 2


def test_the_process_stops_at_once_though_streams_are_open(quiet, bench):
    stream = quiet.stream(events_path(bench.user))
    quiet.stop()
    while stream.event() is not None:
        pass


# -- the ways in


def test_the_page_gets_a_ticket_for_its_session(bench, live, client, settings):
    client.force_login(bench.user)
    answer = client.get("/live-ticket/")
    assert answer.json()["url"] == f"{settings.LIVE_URL}/-/events/"
    assert "no-store" in answer["Cache-Control"]
    assert live.stream(f"/-/events/?ticket={quote(answer.json()['ticket'])}").status == 200


def test_rest_leads_to_the_stream_with_no_more_rights_than_the_token(bench, live):
    other = make_member("lead", team=make_team("speech"), user=bench.user).team
    client = api_client(bench.user, name="bound", team=other, scopes=("read",))
    answer = client.get("/api/v1/stream/", HTTP_ACCEPT="text/event-stream")
    assert answer.status_code == 307
    stream = live.stream(path_of(answer["Location"]))
    notify(bench.endpoint)
    voices = bench.make_endpoint("voices", team=other)
    assert stream.workload() == str(voices.public_id)
    assert api_client(bench.user, name="s", scopes=("submit",)).get("/api/v1/stream/").status_code == 403


def test_paths_of_the_process_itself_answer_get_alone(live, bench):
    assert live.send("POST", "/-/events/").status == 405
    assert live.get("/-/nothing").status == 404
    assert live.get("/-/healthz").json["listening"] is True
