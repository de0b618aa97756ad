"""What the tables of notices may hold is kept by the database itself."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F

from notices.models import Delivery, NoticeSubscription, OutboxEvent

pytestmark = pytest.mark.django_db


def breaks(name, change):
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        change()


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("subscription_of_a_person_or_a_team", {"user": None}),
        ("subscription_has_topics", {"topics": []}),
        ("subscription_has_an_address", {"sealed_url": ""}),
        ("subscription_has_an_address", {"channel": "mail"}),
        ("subscription_quiet_has_both_ends", {"quiet_from": "22:00"}),
        ("subscription_quiet_has_both_ends", {"quiet_until": "07:00"}),
    ],
)
def test_a_subscription_keeps_its_rules(bed, receiver, constraint, values):
    bed.subscribe(url=receiver.url)
    breaks(constraint, lambda: NoticeSubscription.objects.update(**values))


def test_a_subscription_is_not_of_a_person_and_a_team(bed, receiver):
    bed.subscribe(url=receiver.url)
    both = "subscription_of_a_person_or_a_team"
    breaks(both, lambda: NoticeSubscription.objects.update(team=bed.team))


@pytest.fixture
def delivery(bed, receiver):
    bed.subscribe(url=receiver.url)
    bed.fail(bed.run())
    bed.deliver()
    return Delivery.objects.get()


@pytest.mark.parametrize(
    "values",
    [{"ended_at": None}, {"state": "pending"}, {"state": "held"}, {"state": "dead", "ended_at": None}],
)
def test_a_notice_has_the_time_of_its_end_and_no_other_has_one(delivery, values):
    breaks("delivery_ended_has_time", lambda: Delivery.objects.update(**values))


def test_nobody_is_told_the_same_twice(delivery):
    again = Delivery.objects.get(pk=delivery.pk)
    again.pk, again.public_id = None, None
    again.public_id = Delivery(subscription=delivery.subscription).public_id
    breaks("delivery_once", again.save)
    again.once = f"{delivery.once}, once more"
    again.save()
    breaks("public_id", lambda: Delivery.objects.update(public_id=delivery.public_id))


@pytest.mark.parametrize("column", ["wait_minutes", "digest_minutes", "secret_version", "failures"])
def test_what_is_counted_in_a_subscription_is_not_negative(bed, receiver, column):
    bed.subscribe(url=receiver.url)
    breaks(f"{column}_check", lambda: NoticeSubscription.objects.update(**{column: -1}))


@pytest.mark.parametrize("column", ["attempts", "replays", "status_code"])
def test_what_is_counted_in_a_notice_is_not_negative(delivery, column):
    breaks(f"{column}_check", lambda: Delivery.objects.update(**{column: -1}))


def test_nothing_in_the_outbox_is_of_nobody(bed, receiver):
    bed.subscribe(url=receiver.url)
    bed.fail(bed.run())
    breaks("null value", lambda: OutboxEvent.objects.update(team_id=None))
    breaks("outbox_event_is_somebodys", lambda: OutboxEvent.objects.update(user_id=None))
    assert OutboxEvent.objects.filter(pk=F("pk")).count() == 1
