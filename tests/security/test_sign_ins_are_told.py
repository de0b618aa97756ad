"""Sign-ins, failures and refusals: in the audit trail and in the log, without a secret, and a flood in a few rows."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from foundation import clock
from foundation.logs import JSONFormatter
from teams import services, throttle
from teams.models import AuditCount, AuditEvent
from teams.tasks import purge_expired_rows
from teams.trail import sums
from tests.factories.teams import ACTOR, PASSWORD, api_client, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
SIGN_IN, EXCHANGE = "/sign-in/", "/api/v1/tokens/exchange/"


@pytest.fixture(autouse=True)
def still():
    """Within one hour, however late it is."""
    cache.clear()
    with clock.freeze(clock.now().replace(minute=10)):
        yield


@pytest.fixture
def ana():
    return make_user("ana")


def sign_in(username: str = "ana", password: str = PASSWORD, client: Client | None = None):
    return (client or Client()).post(SIGN_IN, {"username": username, "password": password})


def told(action: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=action).order_by("id"))


def test_a_sign_in_is_told_with_its_way_and_its_address(ana):
    sign_in()
    body = {"username": "ana", "password": PASSWORD, "name": "ci", "scopes": ["read"]}
    APIClient().post(EXCHANGE, body, format="json")
    secret = services.create_sign_in_link(actor=ACTOR, user=ana, now=clock.now())
    Client().post(f"/sign-in/link/{secret}/")
    events = told("sign-in.succeed")
    assert [each.after["way"] for each in events] == ["password", "exchange", "link"]
    assert {(each.actor, each.actor_label, each.ip, each.target_name) for each in events} == {
        (ana, "ana", "127.0.0.1", "ana")
    }
    assert all(each.request_id for each in events)


def test_a_failure_is_told_with_the_account_the_address_and_the_way(ana):
    sign_in(password="wrong")
    body = {"username": "ana", "password": "wrong", "name": "ci", "scopes": ["read"]}
    APIClient().post(EXCHANGE, body, format="json")
    Client().post("/sign-in/link/unknown/")
    events = told("sign-in.fail")
    assert [each.after for each in events] == [
        {"account": "ana", "way": "password"},
        {"account": "ana", "way": "exchange"},
        {"account": "", "way": "link"},
    ]
    assert [(each.target_id, each.target_name) for each in events[:2]] == [(str(ana.public_id), "ana")] * 2
    assert {(each.actor, each.actor_label, each.ip) for each in events} == {(None, "anonymous", "127.0.0.1")}


@pytest.mark.parametrize("typed", ["correct horse battery staple", "hunter2", "Tr0ub4dor&3", "x" * 150])
def test_a_password_in_the_field_of_the_name_is_kept_nowhere(typed, caplog):
    caplog.set_level(logging.INFO)
    sign_in(typed, "wrong")
    kept = json.dumps([list(AuditEvent.objects.values()), list(AuditCount.objects.values())], default=str)
    logged = "\n".join(JSONFormatter().format(record) for record in caplog.records)
    for size in range(4, len(typed) + 1):
        assert typed[:size] not in kept
        assert typed[:size] not in logged
    assert "sign_in.failed" in logged
    assert told("sign-in.fail")[0].target_id.startswith("unknown-")


def test_the_same_unknown_name_is_seen_to_be_the_same():
    for name in ("somebody", "somebody", "somebodx"):
        sign_in(name, "wrong")
    assert sorted(AuditCount.objects.values_list("times", flat=True)) == [1, 2]


def test_the_log_has_every_one_with_its_fields(ana, caplog):
    caplog.set_level(logging.INFO, logger="teams.sign_ins")
    sign_in(password="wrong")
    sign_in(password="wrong")
    sign_in()
    lines = [
        json.loads(JSONFormatter().format(record))
        for record in caplog.records
        if record.name == "teams.sign_ins"
    ]
    assert [line["event"] for line in lines] == ["sign_in.failed", "sign_in.failed", "sign_in.succeeded"]
    assert {line["account"] for line in lines} == {"ana"}
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert "wrong" not in json.dumps(lines)
    assert PASSWORD not in json.dumps(lines)


def test_a_flood_of_the_same_is_a_few_rows_and_its_whole_number_in_the_end(ana, monkeypatch):
    monkeypatch.setattr(throttle, "FAILURES_PER_ADDRESS", 10_000)
    monkeypatch.setattr(throttle, "FAILURES_PER_ACCOUNT_AND_ADDRESS", 10_000)
    for _ in range(25):
        sign_in(password="wrong")
    assert [each.after.get("times") for each in told("sign-in.fail")] == [None, 10]
    with clock.freeze(clock.now() + timedelta(hours=1)):
        purge_expired_rows.run()
        purge_expired_rows.run()
    assert [each.after.get("times") for each in told("sign-in.fail")] == [None, 10, 25]
    last = told("sign-in.fail")[-1]
    assert (last.target_name, last.ip, last.after["from"][14:]) == ("ana", "127.0.0.1", "00:00Z")
    assert not AuditCount.objects.exists()


def test_what_is_told_whole_is_not_told_again(ana):
    sign_in(password="wrong")
    with clock.freeze(clock.now() + timedelta(hours=1)):
        purge_expired_rows.run()
    assert len(told("sign-in.fail")) == 1
    assert not AuditCount.objects.exists()


def test_an_hour_has_a_bounded_number_of_kinds(monkeypatch):
    monkeypatch.setattr(sums, "KINDS_PER_HOUR", 3)
    for number in range(12):
        sign_in(f"somebody-{number}", "wrong")
    assert AuditCount.objects.count() <= 4
    assert [each.actor_label for each in told("sign-in.fail")] == ["anonymous"] * 3 + ["(others)"]
    with clock.freeze(clock.now() + timedelta(hours=1)):
        sums.settle(now=clock.now())
    assert told("sign-in.fail")[-1].after["times"] == 9


def test_a_flood_of_strangers_hides_nobody_elses_doing(ana, monkeypatch):
    monkeypatch.setattr(sums, "KINDS_PER_HOUR", 3)
    for number in range(5):
        sign_in(f"somebody-{number}", "wrong")
    sign_in()
    assert refused(api_client(ana), "/api/v1/settings/", minimum_run_seconds=1) == 403
    assert [each.actor for each in (*told("sign-in.succeed"), *told("request.refuse"))] == [ana, ana]


def test_a_flood_of_invented_names_hides_no_guess_at_an_account_that_is_there(ana, monkeypatch):
    monkeypatch.setattr(sums, "KINDS_PER_HOUR", 3)
    for number in range(5):
        sign_in(f"somebody-{number}", "wrong")
    sign_in("ana", "wrong")
    assert [each.target_name for each in told("sign-in.fail")][-2:] == ["(others)", "ana"]
    for number in range(5):
        sign_in(make_user(f"member-{number}").username, "wrong")
    names = [each.target_name for each in told("sign-in.fail")]
    assert names[-3:] == ["member-0", "member-1", "(others)"], "these are bounded too, by themselves"
    assert names.count("(others)") == 2


def test_sign_ins_by_a_script_are_summed_too(ana):
    for _ in range(sums_each() + 5):
        sign_in()
    assert len(told("sign-in.succeed")) == sums_each()


def sums_each() -> int:
    from teams.sign_ins import SIGN_INS_EACH

    return SIGN_INS_EACH


def test_what_is_held_is_told_as_refused(ana):
    for _ in range(14):
        sign_in(password="wrong")
    event = told("sign-in.refuse")[0]
    assert (event.target_name, event.after) == (
        "ana",
        {"account": "ana", "way": "password", "retry_after_seconds": 60},
    )
    assert len(told("sign-in.refuse")) == 1


# --- refusals


def refused(client, path: str = "/api/v1/teams/vision/", **values) -> int:
    return client.patch(path, values or {"name": "x"}, format="json").status_code


def test_a_command_that_is_refused_is_told_to_the_leads_of_the_team(caplog):
    team = make_team("vision")
    viewer = make_member("viewer", team=team, user=make_user("vera")).user
    assert refused(api_client(viewer)) == 403
    event = told("request.refuse")[0]
    assert (event.actor_label, event.team, event.token.user) == ("vera", team, viewer)
    assert event.after == {
        "method": "PATCH",
        "route": "teams-api:team",
        "code": "lead_only",
        "slug": "vision",
    }
    assert "request.refused" in caplog.text
    lead = api_client(make_member("lead", team=team).user)
    assert [each["actor"] for each in lead.get("/api/v1/audit/?action=request.refuse").json()["results"]] == [
        "vera"
    ]


def test_what_a_stranger_was_refused_says_nothing_to_a_team_that_they_do_not_know():
    make_team("vision")
    assert refused(api_client(make_user("mallory")), "/api/v1/settings/", minimum_run_seconds=1) == 403
    event = told("request.refuse")[0]
    assert (event.team, event.after["route"], event.after["code"]) == (
        None,
        "teams-api:settings",
        "role_missing",
    )


def test_refusals_of_pages_and_of_the_admin_site_are_told():
    team = make_team("vision")
    client = Client()
    client.force_login(make_member("viewer", team=team, user=make_user("vera")).user)
    assert client.post("/teams/vision/members/", {"username": "x"}).status_code == 403
    manager = Client()
    manager.force_login(make_user("qm", quota_manager=True))
    assert manager.post("/admin/teams/user/add/", {"username": "x"}).status_code == 403
    assert [each.after["route"] for each in told("request.refuse")] == [
        "teams:member-add",
        "admin:teams_user_add",
    ]


def test_what_the_address_names_is_told_whatever_it_is_called():
    assert api_client(make_user("mallory")).delete("/api/v1/templates/small/").status_code == 403
    event = told("request.refuse")[0]
    assert (event.after["name"], event.target_name) == ("small", "DELETE jobs-api:template small")


def test_a_form_without_its_csrf_token_is_told_once():
    client = Client(enforce_csrf_checks=True)
    assert [client.post(SIGN_IN, {}).status_code for _ in range(3)] == [403] * 3
    assert [each.actor_label for each in told("request.refuse")] == ["anonymous"]


def test_reading_what_one_may_not_is_no_command():
    client = Client()
    client.force_login(make_user())
    assert client.get("/quotas/").status_code == 403
    assert told("request.refuse") == []


def test_a_link_that_is_refused_keeps_its_secret():
    client = Client(enforce_csrf_checks=True)
    assert client.post("/sign-in/link/very-secret-text/").status_code == 403
    assert "very-secret-text" not in json.dumps(list(AuditEvent.objects.values()), default=str)
    assert told("request.refuse")[0].after["route"] == "teams:sign-in-link"
