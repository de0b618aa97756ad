"""Tokens of endpoints, changes of rights that are told, and a database that is away."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from foundation import clock
from gateway.live.listener import connection_parameters
from gateway.models import EndpointToken
from gateway.services import create_endpoint_token, revoke_endpoint_token
from teams import services
from teams.actors import Actor
from teams.models import ApiToken, AuditEvent, User
from teams.permissions import NOTIFY_CHANNEL
from tests.factories.teams import make_member, make_team, make_token, make_user
from tests.factories.workloads import put_in
from tests.gateway.live_server import ACCESS_SECONDS, LIMITS, LiveServer
from tests.waiting import until
from workloads.models import Workload
from workloads.services import notify
from workloads.states import Phase

ACTOR = Actor.system("tests")
HOURS = 3600.0


@pytest.fixture
def slow_live(bench):
    """A live process that looks at nothing again by itself: whatever changes, changes by being told."""
    server = LiveServer(replace(LIMITS, access_seconds=HOURS, stale_seconds=HOURS))
    yield server
    server.stop()


@pytest.fixture
def member(bench):
    return make_member("member", team=bench.team).user


@pytest.fixture
def api(member):
    client = Client()
    token = make_token(member, name="api", scopes=("read", "submit", "manage"))
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


def endpoint_token(bench, user, endpoint=None, **values):
    actor = Actor.of_user(user)
    chosen = {"name": "app", "expires_in_days": 30, "now": clock.now(), **values}
    return create_endpoint_token(actor=actor, endpoint=endpoint or bench.endpoint, **chosen)


def tokens_url(endpoint, rest=""):
    return f"/api/v1/endpoints/{endpoint.public_id}/tokens/{rest}"


def test_a_token_of_an_endpoint_is_made_used_listed_and_revoked_by_rest(live, bench, api, member):
    made = api.post(tokens_url(bench.endpoint), {"name": "shop"}, content_type="application/json")
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert secret.startswith("mle_")
    assert made["Cache-Control"] == "no-store"
    assert live.get("/vision/digits/", token=secret).status == 200

    (shown,) = api.get(tokens_url(bench.endpoint)).json()["results"]
    assert (shown["name"], shown["created_by"], shown["revoked_at"]) == ("shop", member.username, None)
    assert secret not in json.dumps(shown)
    assert secret.startswith(shown["prefix"])
    row = EndpointToken.objects.get()
    assert secret not in repr(vars(row))
    assert row.last_used_at is not None

    assert api.delete(tokens_url(bench.endpoint, f"{shown['id']}/")).status_code == 204
    until(lambda: live.get("/vision/digits/", token=secret).status == 401)
    told = list(AuditEvent.objects.filter(target_kind="endpoint-token").order_by("id"))
    assert [event.action for event in told] == ["endpoint-token.create", "endpoint-token.revoke"]
    assert {event.actor for event in told} == {member}
    assert secret not in repr([event.after for event in told])


def test_the_secret_is_told_once_also_to_who_asks_with_the_same_key(bench, api):
    ask = {"data": {"name": "shop"}, "content_type": "application/json", "HTTP_IDEMPOTENCY_KEY": "k1"}
    assert api.post(tokens_url(bench.endpoint), **ask).status_code == 201
    again = api.post(tokens_url(bench.endpoint), **ask)
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    assert EndpointToken.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": " "}, "name"),
        ({"name": "a", "expires_in_days": 0}, "expires_in_days"),
        ({"name": "a", "expires_in_days": 366}, "expires_in_days"),
        ({"name": "a", "scopes": ["read"]}, "scopes"),
    ],
)
def test_a_token_that_will_not_do_is_refused_by_field(bench, api, body, field):
    answer = api.post(tokens_url(bench.endpoint), body, content_type="application/json")
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_it_opens_its_endpoint_and_nothing_else(live, bench, member, upstream):
    _, secret = endpoint_token(bench, member)
    bench.make_endpoint("letters")
    speech = make_member("lead", team=make_team("speech"), user=member).team
    bench.make_endpoint("digits", team=speech)
    assert live.get("/vision/digits/", token=secret).status == 200
    for path in ("/vision/letters/", "/speech/digits/", "/vision/nothing/", "/-/metrics"):
        assert live.get(path, token=secret).status == 404
    assert len(upstream.requests) == 1
    stranger = Client()
    stranger.defaults["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    for url in ("/api/v1/endpoints/", tokens_url(bench.endpoint), "/api/v1/teams/"):
        assert stranger.get(url).status_code == 401


def test_it_ends_with_its_time_and_with_its_endpoint(live, bench, member):
    _, old = endpoint_token(bench, member, now=clock.now() - timedelta(days=2), expires_in_days=1)
    _, secret = endpoint_token(bench, member)
    assert live.get("/vision/digits/", token=old).status == 401
    assert live.get("/vision/digits/", token=secret).status == 200
    Workload.objects.filter(pk=bench.endpoint.pk).update(phase="Cancelled", finished_at=clock.now())
    bench.make_endpoint("digits")
    until(lambda: live.get("/vision/digits/", token=secret).status == 401)


def test_one_that_is_malformed_costs_no_question(slow_live, bench, member):
    _, secret = endpoint_token(bench, member)
    assert slow_live.get("/vision/digits/", token=f"{secret[:-1]}!").status == 401
    assert (
        slow_live.get("/vision/digits/", token=secret[:-1] + ("0" if secret[-1] != "0" else "1")).status
        == 401
    )
    callers = slow_live.application.live.callers
    assert len(callers._table) == 0


# --- told at once ------------------------------------------------------------------------------------------------


def revoke_by_service(bench):
    token = ApiToken.objects.filter(user=bench.user).earliest("pk")
    services.revoke_token(actor=ACTOR, token=token, now=clock.now())


def deactivate(bench):
    services.set_active(actor=ACTOR, user=bench.user, active=False, now=clock.now())


def remove_by_sql(bench):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM teams_membership WHERE user_id = %s", [bench.user.pk])


def take_the_scope_away(bench):
    ApiToken.objects.filter(user=bench.user).update(scopes=["manage"])


@pytest.mark.parametrize(
    ("change", "refused"),
    [(revoke_by_service, 401), (deactivate, 401), (remove_by_sql, 404), (take_the_scope_away, 403)],
)
def test_whoever_loses_a_right_is_refused_as_soon_as_it_is_told(slow_live, bench, change, refused):
    assert slow_live.get("/vision/digits/", token=bench.token).status == 200
    change(bench)
    until(lambda: slow_live.get("/vision/digits/", token=bench.token).status == refused)


def test_an_endpoint_that_was_cancelled_is_called_no_more_as_soon_as_it_is_told(slow_live, bench):
    assert slow_live.get("/vision/digits/", token=bench.token).status == 200
    put_in(bench.endpoint, Phase.CANCELLED)
    notify(bench.endpoint)
    until(lambda: slow_live.get("/vision/digits/", token=bench.token).status == 404)


def test_a_revoked_token_of_an_endpoint_is_refused_as_soon_as_it_is_told(slow_live, bench, member):
    token, secret = endpoint_token(bench, member)
    _, other = endpoint_token(bench, member, name="other")
    assert slow_live.get("/vision/digits/", token=secret).status == 200
    revoke_endpoint_token(actor=Actor.of_user(member), token=token, now=clock.now())
    until(lambda: slow_live.get("/vision/digits/", token=secret).status == 401)
    assert slow_live.get("/vision/digits/", token=other).status == 200


def test_being_used_is_no_change_that_is_told(bench):
    with psycopg.connect(**connection_parameters(), autocommit=True) as listener:
        listener.execute(f"LISTEN {NOTIFY_CHANNEL}")
        ApiToken.objects.update(last_used_at=clock.now())
        User.objects.update(last_login=clock.now())
        revoke_by_service(bench)
        (heard,) = listener.notifies(timeout=30, stop_after=1)
    assert heard.payload == f"user:{bench.user.pk}"


def test_a_loss_that_nobody_told_is_noticed_within_seconds(live, bench):
    assert live.get("/vision/digits/", token=bench.token).status == 200
    with connection.cursor() as cursor:
        # No trigger fires in such a session, so that nothing is told.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE teams_apitoken SET revoked_at = now()")
        cursor.execute("RESET session_replication_role")
    until(lambda: live.get("/vision/digits/", token=bench.token).status == 401)


def test_one_question_serves_many_requests(slow_live, bench, upstream):
    assert slow_live.get("/vision/digits/", token=bench.token).status == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        before = cursor.fetchone()[0]
    for _ in range(300):
        assert slow_live.get("/vision/digits/", token=bench.token).status == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        after = cursor.fetchone()[0]
    # Others of the process ask now and then: the listener, the counts, the audience.
    assert after - before < 50


# --- the database is away ----------------------------------------------------------------------------------------


class Closed:
    """The database takes no connections, and those that there were are cut, all but this test's own."""

    def __enter__(self):
        self.name = connection.settings_dict["NAME"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self.mine = cursor.fetchone()[0]
        self.other = psycopg.connect(**{**connection_parameters(), "dbname": "postgres"}, autocommit=True)
        self._allow(False)
        self.other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            [self.name, self.mine],
        )
        return self

    def _allow(self, allowed):
        self.other.execute(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS {allowed}')

    def __exit__(self, *_):
        self._allow(True)
        self.other.close()


def everything_was_heard(live, bench):
    """What was told before is heard before: a connection hears in the order in which it was told."""
    last = make_token(bench.user, name="the last")
    until(lambda: live.get("/vision/digits/", token=last).status == 200)
    revoked = ApiToken.objects.get(user=bench.user, name="the last")
    services.revoke_token(actor=ACTOR, token=revoked, now=clock.now())
    until(lambda: live.get("/vision/digits/", token=last).status == 401)


def test_what_was_known_is_served_while_the_database_is_away(live, bench, member, upstream):
    _, secret = endpoint_token(bench, member)
    unknown = make_token(make_member("viewer", team=bench.team).user, name="never used")
    everything_was_heard(live, bench)
    for token in (bench.token, secret):
        assert live.get("/vision/digits/", token=token).status == 200
    with Closed():
        until(lambda: not live.health()["listening"])
        known_until = time.monotonic() + 4 * ACCESS_SECONDS

        def asked_again():
            """Whether what was known had to be looked at anew long before; both were served once more."""
            past = time.monotonic() > known_until
            for token in (bench.token, secret):
                assert live.get("/vision/digits/", token=token).status == 200
            return past

        until(asked_again)
        for path, token in (("/vision/digits/", unknown), ("/vision/letters/", bench.token)):
            answer = live.get(path, token=token)
            assert (answer.status, answer.json["code"]) == (503, "database_unavailable")
            assert int(answer.headers["retry-after"]) >= 1
    until(lambda: live.health()["listening"])
    until(lambda: live.get("/vision/digits/", token=unknown).status == 200)
    revoke_by_service(bench)
    until(lambda: live.get("/vision/digits/", token=bench.token).status == 401)


def test_what_was_known_opens_nothing_after_its_time(bench):
    live = LiveServer(replace(LIMITS, stale_seconds=2 * ACCESS_SECONDS))
    try:
        assert live.get("/vision/digits/", token=bench.token).status == 200
        with Closed():
            until(lambda: live.get("/vision/digits/", token=bench.token).status == 503)
            assert live.get("/vision/digits/", token=bench.token).json["code"] == "database_unavailable"
        until(lambda: live.get("/vision/digits/", token=bench.token).status == 200)
    finally:
        live.stop()


def test_a_token_whose_time_ends_meanwhile_opens_nothing(live, bench):
    assert live.get("/vision/digits/", token=bench.token).status == 200
    with Closed():
        until(lambda: not live.health()["listening"])
        with clock.freeze(clock.now() + timedelta(days=400)):
            assert live.get("/vision/digits/", token=bench.token).status == 401


def test_in_the_admin_console_a_token_is_shown_without_its_secret_and_revoked(bench, member):
    token, secret = endpoint_token(bench, member)
    admin = Client()
    root = make_user("root", platform_admin=True)
    admin.force_login(root)
    url = "/admin/gateway/endpointtoken/"
    for page in (admin.get(url), admin.get(f"{url}{token.pk}/change/")):
        assert page.status_code == 200
        assert token.prefix in page.content.decode()
        assert secret not in page.content.decode()
        assert token.digest not in page.content.decode()
    assert admin.get(f"{url}add/").status_code == 403
    answer = admin.post(url, {"action": "revoke", "_selected_action": [token.pk]})
    assert answer.status_code == 302
    token.refresh_from_db()
    assert token.revoked_by == root


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"digest": "short"}, "endpoint_token_digest_is_sha256"),
        ({"expires_at": clock.now() - timedelta(days=900)}, "endpoint_token_expires_after_creation"),
        ({"revoked_by": True}, "endpoint_token_revoker_needs_time"),
    ],
)
def test_the_database_refuses_a_token_that_cannot_be(bench, member, values, constraint):
    token, _ = endpoint_token(bench, member)
    chosen = {name: member if value is True else value for name, value in values.items()}
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        EndpointToken.objects.filter(pk=token.pk).update(**chosen)
