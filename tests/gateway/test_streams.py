"""Server-sent events: who sees what, for how long, and what happens when something breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest
from django.db import connection

from foundation import clock
from gateway import queries, tickets
from gateway.live import events
from gateway.queries import newest_event
from teams import services
from teams.actors import Actor
from teams.models import ApiToken
from teams.tickets import mint_for
from tests.factories.teams import api_client, make_member, make_team, make_user
from tests.gateway.live_server import LIMITS, LiveServer, path_of
from tests.kept_connections import close_kept
from tests.waiting import until
from workloads.models import WorkloadEvent
from workloads.services import note, notify, transition
from workloads.states import Phase, Reason

ACTOR = Actor.system("tests")


def events_path(user, *, token=None, now=None, last_id="", **chosen):
    ticket = mint_for(user=user, token=token, purpose=tickets.PURPOSE, now=now or clock.now())
    return f"/-/events/?{urlencode({'ticket': ticket, 'last_event_id': last_id, **chosen})}"


@pytest.fixture
def quiet(live):
    """A live process that has heard nothing yet: what the bench did is behind it."""
    return live


def update(workload, reason) -> None:
    """A move of an endpoint that runs."""
    transition(workload, to=Phase.RUNNING, reason=reason, message="", actor="tests", now=clock.now())


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
    assert event_id == str(newest_event())
    assert json.loads(data) == {
        "workload": str(bench.endpoint.public_id),
        "kind": "endpoint",
        "team": "vision",
        "phase": "Running",
        "reason": "Ready",
    }


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
    until(lambda: all("vision" not in view.slugs for view in principal_views.values()))
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
        update(bench.endpoint, Reason.DEGRADED)
        event = stream.event()
        while event[1] != "workload":
            event = stream.event()
    missed = bench.make_endpoint("missed")
    again = quiet.stream(events_path(bench.user, last_id=event[0]))
    assert again.workload() == str(missed.public_id)


def told(stream) -> list[tuple[str, str]]:
    """What the stream tells up to the next move of the bench's endpoint: of which workload, in which phase."""
    found = []
    while (event := stream.event()) is not None:
        facts = json.loads(event[2])
        found.append((facts["workload"], facts["phase"]))
        if facts["reason"] == "Updating":
            return found
    return found


@pytest.fixture
def another_process(live) -> Iterator[Callable[[], LiveServer]]:
    """A live process that has heard nothing of what happened before."""
    servers = []

    def start() -> LiveServer:
        servers.append(LiveServer(LIMITS))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_a_stream_that_comes_back_to_another_process_gets_what_it_missed(quiet, bench, another_process):
    heard_it = another_process()
    last_id = quiet.stream(events_path(bench.user)).event_id()
    first = bench.make_endpoint("first")
    bench.make_endpoint("secret", team=make_team("speech"))
    update(first, Reason.DEGRADED)
    for server in (heard_it, another_process()):
        stream = server.stream(events_path(bench.user, last_id=last_id))
        update(bench.endpoint, Reason.UPDATING)
        moves = told(stream)
        assert [phase for workload, phase in moves if workload == str(first.public_id)] == [
            "Queued",
            "Running",
        ]
        assert {workload for workload, _ in moves} == {str(first.public_id), str(bench.endpoint.public_id)}
        WorkloadEvent.objects.filter(workload=bench.endpoint, reason="Updating").delete()
        bench.set_phase(bench.endpoint, "Running", "Ready")


def test_what_was_committed_late_under_a_low_number_is_told(quiet, bench, another_process):
    slow, fast = bench.make_endpoint("slow"), bench.make_endpoint("fast")

    def repeated(age: timedelta) -> set[str]:
        WorkloadEvent.objects.filter(workload=slow).update(at=clock.now() - age)
        seen = WorkloadEvent.objects.get(workload=fast).pk
        stream = another_process().stream(events_path(bench.user, last_id=str(seen)))
        update(bench.endpoint, Reason.UPDATING)
        bench.set_phase(bench.endpoint, "Running", "Ready")
        return {workload for workload, _ in told(stream)} - {str(bench.endpoint.public_id)}

    assert repeated(timedelta(seconds=5)) == {str(slow.public_id), str(fast.public_id)}
    WorkloadEvent.objects.filter(reason="Updating").delete()
    assert repeated(timedelta(minutes=5)) == {str(fast.public_id)}


@pytest.mark.parametrize("last_id", ["0123456789ab-17", "99999999", "x"])
def test_a_place_that_nobody_knows_is_told_to_ask_anew(quiet, bench, last_id):
    stream = quiet.stream(events_path(bench.user, last_id=last_id))
    assert stream.event()[1] == "resync"


def test_more_than_a_stream_is_told_at_once_is_to_be_asked_for(quiet, bench, monkeypatch):
    last_id = newest_event()
    for name in ("one", "two", "three"):
        bench.make_endpoint(name)
    quiet.application.live.hub._recent.clear()
    monkeypatch.setattr(queries, "MOVES_TOLD_MAX", 2)
    assert quiet.stream(events_path(bench.user, last_id=str(last_id))).event()[1] == "resync"
    monkeypatch.setattr(queries, "MOVES_TOLD_MAX", 100)
    monkeypatch.setattr(queries, "MOVES_READ_MAX", 2)
    event = quiet.stream(events_path(bench.user, last_id=str(last_id))).event()
    assert event[:2] == (str(newest_event()), "resync")


def test_the_header_of_a_browser_that_reconnects_counts_more_than_its_address(quiet, bench):
    first, second, third = (bench.make_endpoint(name) for name in ("first", "second", "third"))
    numbers = [WorkloadEvent.objects.get(workload=each).pk for each in (first, second)]
    until(lambda: quiet.application.live.hub.position == newest_event())
    place = str(numbers[0])
    assert quiet.stream(events_path(bench.user, last_id=place)).workload() == str(second.public_id)
    again = quiet.stream(events_path(bench.user, last_id=place), **{"Last-Event-ID": str(numbers[1])})
    assert again.workload() == str(third.public_id)


def test_a_step_of_a_rollout_is_no_reason(quiet, bench, another_process):
    update(bench.endpoint, Reason.DEGRADED)
    last_id = str(newest_event())
    until(lambda: str(quiet.application.live.hub.position) == last_id)
    note(bench.endpoint, reason="RolloutStarted", message="", actor="t", source="", now=clock.now())
    as_it_came = json.loads(quiet.stream(events_path(bench.user, last_id=last_id)).event()[2])
    assert as_it_came["reason"] == "Degraded"
    replayed = another_process().stream(events_path(bench.user, last_id=last_id))
    facts = []
    while not facts or facts[-1]["event"] != str(newest_event()):
        number, _, data = replayed.event()
        facts.append({**json.loads(data), "event": number})
    assert {**facts[-1]} == {**as_it_came, "event": str(newest_event())}


def test_a_stream_of_some_workloads_or_teams_tells_of_them_alone(quiet, bench):
    speech = make_member("viewer", team=make_team("speech"), user=bench.user).team
    one, two = bench.make_endpoint("one"), bench.make_endpoint("two")
    voices = bench.make_endpoint("voices", team=speech)

    def followed(query):
        return quiet.stream(f"{events_path(bench.user)}&{query}")

    of_one = followed(f"workload={two.public_id}")
    of_two = followed(f"workload={one.public_id},{two.public_id}&team=vision")
    of_speech = followed("team=speech")
    for workload in (bench.endpoint, voices, one, two):
        notify(workload)
    assert of_one.workload() == str(two.public_id)
    assert [of_two.workload() for _ in range(2)] == [str(one.public_id), str(two.public_id)]
    assert of_speech.workload() == str(voices.public_id)


def test_what_one_may_not_see_is_not_there_to_be_followed(live, bench):
    secret = bench.make_endpoint("secret", team=make_team("speech"))
    client = api_client(bench.user, name="follow", scopes=("read",))
    for query, status in (
        ({"workload": str(bench.endpoint.public_id), "team": "vision"}, 307),
        ({"workload": str(secret.public_id)}, 404),
        ({"workload": f"{bench.endpoint.public_id},{secret.public_id}"}, 404),
        ({"workload": str(uuid4())}, 404),
        ({"team": "speech"}, 404),
        ({"team": "vision,nowhere"}, 404),
        ({"workload": "x"}, 400),
        ({"team": ",".join(["vision"] * 51)}, 400),
    ):
        assert client.get("/api/v1/stream/", query).status_code == status, query
        if status != 307:
            assert live.get(f"{events_path(bench.user)}&{urlencode(query)}").status == status, query


def test_rest_hands_on_what_is_to_be_followed_and_from_where_on(live, bench):
    other = bench.make_endpoint("other")
    before = newest_event()
    missed = bench.make_endpoint("missed")
    query = {"workload": f"{missed.public_id},{other.public_id}", "last_event_id": before}
    answer = api_client(bench.user, name="follow", scopes=("read",)).get("/api/v1/stream/", query)
    assert answer.status_code == 307
    by_header = api_client(bench.user, name="header").get("/api/v1/stream/", HTTP_LAST_EVENT_ID=str(before))
    assert f"last_event_id={before}" in by_header["Location"]
    stream = live.stream(path_of(answer["Location"]))
    while (workload := stream.workload()) == str(other.public_id):
        pass
    assert workload == str(missed.public_id)


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


@pytest.mark.matrix
def test_two_hundred_streams_use_one_connection_to_listen(quiet, bench):
    close_kept()
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
