"""Takes what is due, sends it, and writes down how it ended; nothing is locked by a transaction meanwhile.

In a lane (one workload to one receiver) only the first that is on its way is taken, so nothing overtakes. A worker that
dies leaves its lock to run out; what it may have sent is sent again, with the same id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.db.models import F

from notices.events import REPORTS, NoticeType
from notices.models import Delivery, DeliveryState, NoticeSubscription
from notices.outbox import drop_unsent, hand_on, pack_digests
from notices.quiet import ATTEMPTS_MAX, pause_after, receiver_pause_after
from notices.reporting import again_for
from notices.sending import GONE, Sent, send
from teams.models import User
from teams.permissions import has_global_role, visible_slugs

BATCH: Final = 64
OF_ONE_RECEIVER: Final = 16
LOCK: Final = timedelta(seconds=120)
"""Longer than a batch can take: its requests run at the same time and have 10 seconds, its mails 30 together."""
KEEP: Final = timedelta(days=30)

_DUE: Final = """
WITH ready AS (
    SELECT id, failures FROM notices_noticesubscription
    WHERE enabled AND (held_until IS NULL OR held_until <= %(now)s)
), heads AS (
    SELECT DISTINCT ON (subscription_id, lane) id, subscription_id, next_at, lock_expires_at
    FROM notices_delivery WHERE state = 'pending' AND subscription_id IN (SELECT id FROM ready)
    ORDER BY subscription_id, lane, id
), ranked AS (
    SELECT heads.id, heads.next_at, ready.failures,
           row_number() OVER (PARTITION BY subscription_id ORDER BY heads.next_at, heads.id) AS place
    FROM heads JOIN ready ON ready.id = heads.subscription_id
    WHERE heads.next_at <= %(now)s AND (heads.lock_expires_at IS NULL OR heads.lock_expires_at <= %(now)s)
)
SELECT id FROM ranked
WHERE place <= CASE WHEN failures > 0 THEN 1 ELSE %(each)s END
ORDER BY place, next_at, id LIMIT %(batch)s
"""


def deliver_due(*, now: datetime) -> int:
    """Hand on what happened, and send one batch of what is due; how many deliveries were tried or dropped."""
    while hand_on(now=now):
        pass
    pack_digests(now=now)
    token = uuid4()
    taken = _take(token, now)
    if not taken:
        return 0
    to_send = _permitted(taken, token, now)
    ended = send(to_send, now=now)
    _record(to_send, ended, token, now)
    return len(taken)


def _take(token: UUID, now: datetime) -> list[Delivery]:
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"now": now, "each": OF_ONE_RECEIVER, "batch": BATCH})
        keys = [row[0] for row in cursor.fetchall()]
    if not keys:
        return []
    with transaction.atomic():
        # What another worker has taken meanwhile is locked, or has another row by now.
        free = Delivery.objects.select_for_update(skip_locked=True, no_key=True).filter(
            pk__in=keys, state=DeliveryState.PENDING
        )
        mine = [
            row.pk for row in free.order_by("pk") if row.lock_expires_at is None or row.lock_expires_at <= now
        ]
        Delivery.objects.filter(pk__in=mine).update(lock_token=token, lock_expires_at=now + LOCK)
    rows = Delivery.objects.filter(pk__in=mine).select_related("subscription__user", "recipient")
    return list(rows.order_by("pk"))


def _permitted(taken: Sequence[Delivery], token: UUID, now: datetime) -> list[Delivery]:
    """Those that their receivers may still read; the others are dropped."""
    told = [(each, person) for each in taken if (person := each.recipient or each.subscription.user)]
    people: dict[int, User] = {person.pk: person for _, person in told}
    slugs = {slug for each, _ in told for slug in _slugs(each)}
    seen = dict(zip(people, visible_slugs(list(people.values()), slugs), strict=True))
    dropped = [
        each.pk
        for each, person in told
        if not _may_read(each, person, seen[person.pk]) and not _told_anew(each, person, token, now)
    ]
    Delivery.objects.filter(pk__in=dropped, lock_token=token).update(
        state=DeliveryState.DROPPED,
        error="Who was to be told may not see it any more.",
        ended_at=now,
        lock_token=None,
        lock_expires_at=None,
    )
    return [each for each in taken if each.pk not in dropped]


def _may_read(delivery: Delivery, person: User, seen: frozenset[str]) -> bool:
    """Whether the person may see now all that it tells of; `seen` are the teams of the batch that they may see."""
    whole = delivery.type in REPORTS and delivery.payload["data"]["about"] is None
    return person.is_active and _slugs(delivery) <= seen and (not whole or has_global_role(person))


def _told_anew(delivery: Delivery, person: User, token: UUID, now: datetime) -> bool:
    """Whether a report is made anew, of those teams that the person may still see; there may be none."""
    if delivery.type not in REPORTS:
        return False
    payload = again_for(delivery, person, now=now)
    if payload is None:
        return False
    delivery.payload = payload
    return bool(Delivery.objects.filter(pk=delivery.pk, lock_token=token).update(payload=payload))


def _slugs(delivery: Delivery) -> set[str]:
    """The teams whose matters it tells of."""
    data = delivery.payload["data"]
    if delivery.type == NoticeType.DIGEST:
        return {each["data"]["team"] for each in data["notices"]}
    if delivery.type in REPORTS:
        return set(data["about"] or ())
    return {data["team"]} if data.get("team") else set()


def _record(deliveries: Sequence[Delivery], ended: dict[int, Sent], token: UUID, now: datetime) -> None:
    with transaction.atomic():
        outcomes: dict[int, list[Sent]] = defaultdict(list)
        for delivery in deliveries:
            sent = ended[delivery.pk]
            _record_one(delivery, sent, token, now)
            if sent.tried:
                outcomes[delivery.subscription_id].append(sent)
        for subscription_id, tries in sorted(outcomes.items()):
            _record_receiver(subscription_id, tries, now)


def _record_one(delivery: Delivery, sent: Sent, token: UUID, now: datetime) -> None:
    """What a worker finds changed that took too long is another's by now, and left alone."""
    row = Delivery.objects.filter(pk=delivery.pk, lock_token=token)
    free: dict[str, Any] = {"lock_token": None, "lock_expires_at": None}
    if not sent.tried:
        row.update(**free)
        return
    free |= {"attempts": F("attempts") + 1, "status_code": sent.status_code, "error": sent.error}
    attempts = delivery.attempts + 1
    if sent.ok:
        row.update(state=DeliveryState.DELIVERED, ended_at=now, **free)
    elif attempts >= ATTEMPTS_MAX or delivery.type == NoticeType.TEST:
        row.update(state=DeliveryState.DEAD, ended_at=now, **free)
    else:
        again = now + max(pause_after(attempts), sent.pause)
        row.update(next_at=delivery.subscription.may_go_at(again), **free)


def _record_receiver(subscription_id: int, tries: Sequence[Sent], now: datetime) -> None:
    row = NoticeSubscription.objects.select_for_update(no_key=True).filter(pk=subscription_id).first()
    if row is None:
        return
    if any(sent.ok for sent in tries):
        row.failures, row.held_until = 0, None
    else:
        row.failures += 1
        row.held_until = now + receiver_pause_after(row.failures)
    if pause := max(sent.pause for sent in tries):
        row.held_until = max(row.held_until or now, now + pause)
    if any(sent.status_code == GONE for sent in tries):
        row.enabled, row.off_because = False, "The receiver answered 410: it wants no more."
        drop_unsent(row, now=now)
    row.save(update_fields=["failures", "held_until", "enabled", "off_because"])


def forget_old(*, now: datetime) -> int:
    """Delete what ended more than 30 days ago; digests go with what is in them."""
    deleted, _ = Delivery.objects.filter(ended_at__lt=now - KEEP).delete()
    return deleted
