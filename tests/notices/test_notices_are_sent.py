"""What happens reaches who subscribed to it: signed, in words, once, and nobody else."""

from __future__ import annotations

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from notices.models import Delivery, DeliveryState, OutboxEvent
from quotas.requests import deny_request, request_quota
from teams.actors import Actor
from teams.services import remove_member
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import make_endpoint
from tests.factories.teams import ACTOR, make_member, make_team, make_user
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db


def types(receiver):
    return [each.json["type"] for each in receiver.got]


def test_a_failure_is_a_signed_webhook_that_the_library_of_receivers_verifies(bed, receiver):
    _, secret = bed.subscribe(url=receiver.url)
    run = bed.fail(bed.run(name="resnet"), "Out of luck.")
    # The library checks the age by the real clock.
    from foundation import clock

    bed.now = clock.now()
    assert bed.deliver() == 1
    (got,) = receiver.got
    told = Webhook(secret).verify(got.body, got.headers)
    assert told["type"] == "workload.failed"
    facts = told["data"]
    assert {name: facts[name] for name in ("id", "name", "team", "owner", "phase", "reason", "message")} == {
        "id": str(run.public_id),
        "name": "resnet",
        "team": "vision",
        "owner": "ana",
        "phase": "Failed",
        "reason": "ApplicationError",
        "message": "Out of luck.",
    }
    assert facts["url"].endswith(f"/runs/{run.public_id}/")
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 40).verify(got.body, got.headers)
    assert OutboxEvent.objects.count() == 0


def test_a_proxy_of_the_environment_gets_nothing(bed, receiver, monkeypatch):
    """It would look addresses up by itself, and reach those that a notice may not."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    bed.subscribe(url=receiver.url)
    bed.fail(bed.run())
    assert bed.deliver() == 1
    assert types(receiver) == ["workload.failed"]


def test_each_is_told_of_their_own_and_a_team_of_all_of_its(bed, receiver):
    bed.subscribe(url=receiver.url + "?of=ana")
    bed.subscribe(team=bed.team, url=receiver.url + "?of=team")
    bed.fail(bed.run(bed.lea))
    other = make_member("lead", team=make_team("audio"), user=make_user("ben"))
    bed.fail(bed.run(other.user, other.team))
    bed.deliver()
    assert [got.path for got in receiver.got] == ["/hook?of=team"]
    bed.fail(bed.run(bed.ana))
    bed.deliver()
    assert sorted(got.path for got in receiver.got[1:]) == ["/hook?of=ana", "/hook?of=team"]


def test_only_what_was_chosen_is_told_and_nothing_from_before(bed, receiver):
    before = bed.fail(bed.run())
    bed.later(seconds=1)
    bed.subscribe(url=receiver.url, topics=["finished"])
    bed.fail(bed.run())
    done = bed.move(bed.move(bed.run(), Phase.ADMITTED, Reason.CREATING), Phase.SUCCEEDED, Reason.COMPLETED)
    bed.deliver()
    assert [got.json["data"]["id"] for got in receiver.got] == [str(done.public_id)]
    assert str(before.public_id) not in str(receiver.got)


def test_who_left_the_team_is_told_no_more_not_even_of_what_was_on_its_way(bed, receiver):
    bed.subscribe(url=receiver.url)
    receiver.behave = lambda _: 500
    later = bed.run(name="later")
    bed.fail(bed.run())
    bed.deliver()
    remove_member(actor=ACTOR, membership=bed.ana.memberships.get(), now=bed.now)
    bed.fail(later)
    bed.later(minutes=10)
    bed.deliver()
    assert len(receiver.got) == 1
    assert [each.state for each in Delivery.objects.all()] == [DeliveryState.DROPPED]


def test_an_interruption_and_an_unhealthy_endpoint_are_told_once(bed, receiver):
    bed.subscribe(url=receiver.url)
    run = bed.move(bed.run(), Phase.ADMITTED, Reason.CREATING)
    bed.move(run, Phase.STOPPING, Reason.PREEMPTING)
    bed.move(run, Phase.QUEUED, Reason.PREEMPTED)
    bed.move(run, Phase.QUEUED, Reason.WAITING_FOR_QUOTA)
    endpoint = make_endpoint(bed.team, bed.ana, phase=Phase.RUNNING)
    bed.move(endpoint, Phase.RUNNING, Reason.DEGRADED, "1 of 2 replicas is ready.")
    bed.move(endpoint, Phase.RUNNING, Reason.DEGRADED, "0 of 2 replicas are ready.")
    bed.move(endpoint, Phase.RUNNING, Reason.READY)
    bed.deliver()
    assert sorted(types(receiver)) == ["endpoint.healthy", "endpoint.unhealthy", "workload.preempted"]
    of_endpoint = [got.json["type"] for got in receiver.got if got.json["data"]["noun"] == "endpoint"]
    assert of_endpoint == ["endpoint.unhealthy", "endpoint.healthy"]


def test_a_decision_about_quota_is_told_to_who_asked(bed, receiver):
    bed.subscribe(url=receiver.url)
    manager = make_user("manager", quota_manager=True)
    asked = request_quota(
        team=bed.team, flavor=make_flavor(), capacity_type="on-demand", units=2, until=bed.later(days=1),
        reason="a week", actor=Actor.of_user(bed.ana), now=bed.now.replace(hour=1),
    )  # fmt: skip
    deny_request(
        request=asked, comment="Not this week.", actor=Actor.of_user(manager), now=bed.later(hours=1)
    )
    bed.deliver()
    (got,) = receiver.got
    assert got.json["type"] == "quota_request.decided"
    assert got.json["data"]["state"] == "denied"
    assert got.json["data"]["message"] == "Not this week."


def test_a_chat_message_is_text_that_calls_nobody_and_holds_no_markup(bed, receiver):
    bed.subscribe(channel="chat", url=receiver.url)
    bed.fail(bed.run(name="resnet"), "<!channel> @here <http://evil.example|click> & more\r\nX: y")
    bed.deliver()
    (got,) = receiver.got
    text = got.json["text"]
    assert text.startswith("Run vision/resnet failed. &lt;!channel&gt; @\u200bhere &lt;http://")
    assert "\n" not in text
    assert "webhook-signature" not in got.headers
