"""Subscriptions and notices by REST: who may, what is refused, and what is never shown."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from foundation import clock
from notices.models import Delivery, NoticeSubscription
from notices.sealing import signing_secret
from teams.models import AuditEvent
from tests.factories.teams import api_client, make_member, make_user

pytestmark = pytest.mark.django_db
URL = "/api/v1/subscriptions/"


@pytest.fixture
def ana(bed):
    return api_client(bed.ana)


@pytest.fixture
def lea(bed):
    return api_client(bed.lea)


def body(receiver, **values):
    return {
        "name": "mine", "channel": "webhook", "url": f"{receiver.url}/T0/very-secret", "topics": ["failed"], **values
    }  # fmt: skip


def test_the_secret_and_the_address_are_in_no_answer_but_one_and_in_no_row(ana, receiver):
    made = ana.post(URL, body(receiver))
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    answers = [made.json() | {"secret": ""}, ana.get(URL).json(), ana.get(made["Location"]).json()]
    rows = list(NoticeSubscription.objects.values()) + list(AuditEvent.objects.values("before", "after"))
    for text in (json.dumps(answers), str(rows)):
        assert "very-secret" not in text
        assert secret not in text
    assert answers[0]["origin"] == receiver.url.removesuffix("/hook")
    renewed = ana.post(f"{made['Location']}secret/")
    assert renewed.status_code == 201
    assert renewed.json()["secret"] not in {secret, ""}
    assert renewed.json()["secret"] == signing_secret(NoticeSubscription.objects.get())


def test_a_lead_subscribes_the_team_and_nobody_else_sees_it(bed, ana, lea, receiver):
    assert ana.post(URL, body(receiver, team="vision")).status_code == 403
    made = lea.post(URL, body(receiver, team="vision"))
    assert made.status_code == 201
    stranger = api_client(make_member("lead").user)
    assert stranger.post(URL, body(receiver, team="vision")).json()["errors"][0]["field"] == "team"
    for other in (ana, stranger):
        assert other.get(URL).json()["results"] == []
        assert other.get(made["Location"]).status_code == 404
        assert other.patch(made["Location"], {"enabled": False}).status_code == 404
        assert other.delete(made["Location"]).status_code == 404
        assert other.post(f"{made['Location']}test/").status_code == 404
        assert other.post(f"{made['Location']}secret/").status_code == 404
    assert len(lea.get(URL, {"team": "vision"}).json()["results"]) == 1
    bed.lea.memberships.update(role="member")
    assert lea.get(made["Location"]).status_code == 404


def test_a_token_of_one_team_subscribes_for_that_team_only(bed, receiver):
    bound = api_client(bed.lea, team=bed.team)
    refused = bound.post(URL, body(receiver))
    assert (refused.status_code, refused.json()["code"]) == (403, "team_bound")
    bed.subscribe(bed.lea, url=receiver.url)
    assert bound.get(URL).json()["results"] == []
    assert bound.post(URL, body(receiver, team="vision")).status_code == 201


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": "a\r\nBcc: x"}, "name"),
        ({"name": "  "}, "name"),
        ({"topics": []}, "topics"),
        ({"topics": ["all"]}, "topics.0"),
        ({"url": ""}, "url"),
        ({"url": "https://user:word@example.org/"}, "url"),
        ({"url": "ftp://example.org/"}, "url"),
        ({"url": "https://exa mple.org/"}, "url"),
        ({"url": "https://no-such-name.invalid/"}, "url"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
        ({"quiet_hours": {"begin": "22:00"}}, "quiet_hours.end"),
        ({"quiet_hours": {"begin": "25:00", "end": "07:00"}}, "quiet_hours.begin"),
        ({"wait_minutes": 0}, "wait_minutes"),
        ({"digest_minutes": 1441}, "digest_minutes"),
        ({"channel": "pigeon"}, "channel"),
        ({"channel": "mail"}, "channel"),
        ({"secret": "whsec_"}, "secret"),
    ],
)
def test_what_will_not_do_is_refused_with_its_field(ana, receiver, values, field):
    refused = ana.post(URL, body(receiver, **values))
    assert refused.status_code == 422, refused.json()
    assert [problem["field"] for problem in refused.json()["errors"]] == [field]
    assert NoticeSubscription.objects.count() == 0


def test_mail_needs_an_address_of_the_account_and_takes_none(bed, ana, receiver, mailbox):
    mail = {**body(receiver), "channel": "mail"}
    assert ana.post(URL, mail).json()["errors"][0]["code"] == "not_for_mail"
    del mail["url"]
    assert ana.post(URL, mail).json()["secret"] is None
    nameless = api_client(make_user("nameless"))
    assert nameless.post(URL, mail).json()["errors"][0]["code"] == "no_mail"


def test_twenty_are_the_most(bed, ana, receiver):
    for _ in range(20):
        bed.subscribe(url=receiver.url)
    refused = ana.post(URL, body(receiver))
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many")


def test_what_is_changed_is_changed_and_off_means_off(bed, ana, receiver):
    made = ana.post(
        URL, body(receiver, quiet_hours={"begin": "22:00", "end": "07:00"}, time_zone="Europe/Zurich")
    )
    assert made.json()["quiet_hours"] == {"begin": "22:00", "end": "07:00"}
    changed = ana.patch(made["Location"], {"quiet_hours": None, "topics": ["finished", "failed"]}).json()
    assert changed["quiet_hours"] is None
    assert changed["topics"] == ["failed", "finished"]
    assert changed["name"] == "mine"
    bed.now = clock.now()
    bed.fail(bed.run())
    receiver.behave = lambda _: 500
    bed.deliver()
    assert ana.patch(made["Location"], {"enabled": False}).json()["enabled"] is False
    assert [each.state for each in Delivery.objects.all()] == ["dropped"]
    bed.fail(bed.run())
    bed.later(hours=1)
    bed.deliver()
    assert len(receiver.got) == 1


def test_a_test_is_sent_once_and_what_was_given_up_is_sent_again_with_its_id(bed, ana, receiver):
    location = ana.post(URL, body(receiver))["Location"]
    receiver.behave = lambda number: 500 if number == 0 else 204
    sent = ana.post(f"{location}test/")
    assert sent.status_code == 202
    assert ana.post(f"{location}test/").json()["code"] == "test_under_way"
    bed.now = clock.now()
    bed.deliver()
    (dead,) = ana.get("/api/v1/notices/", {"state": "dead"}).json()["results"]
    assert (dead["id"], dead["attempts"], dead["status_code"]) == (sent.json()["id"], 1, 500)
    again = ana.post(f"/api/v1/notices/{dead['id']}/replay/")
    assert (again.status_code, again.json()["state"], again.json()["replays"]) == (202, "pending", 1)
    assert ana.post(f"/api/v1/notices/{dead['id']}/replay/").json()["code"] == "not_replayable"
    bed.now = clock.now()
    bed.deliver()
    assert ana.get(f"/api/v1/notices/{dead['id']}/").json()["state"] == "delivered"
    assert [got.id for got in receiver.got] == [dead["id"]] * 2
    assert api_client(bed.lea).get(f"/api/v1/notices/{dead['id']}/").status_code == 404
    assert api_client(bed.lea).post(f"/api/v1/notices/{dead['id']}/replay/").status_code == 404


def test_lists_take_few_queries(bed, ana, receiver, django_assert_max_num_queries):
    for _ in range(10):
        bed.subscribe(url=receiver.url)
    bed.fail(bed.run())
    bed.deliver()
    for path in (URL, "/api/v1/notices/"):
        with django_assert_max_num_queries(6, connection=connection):
            assert len(ana.get(path).json()["results"]) == 10
