"""From what happened to who is told: writing the outbox, and handing it on to subscriptions.

Rows of one lane are written in the order in which they happened, because whoever writes one holds the row of its workload
or request until the commit. Handing on is done by one at a time, so deliveries of a lane have the same order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q

from costs.models import BudgetPeriod
from foundation.money import as_json
from notices.events import REPORTS, NoticeType, Topic, is_wanted, type_of_move
from notices.models import Channel, Delivery, DeliveryState, NoticeSubscription, OutboxEvent
from teams.models import Membership
from teams.permissions import visible_slugs
from telemetry.models import Alert
from telemetry.rules import title_of_rule
from workloads.models import Workload
from workloads.signals import PhaseMove
from workloads.states import Desired, Phase

BATCH: Final = 500
WAITS_MAX: Final = 1000
DIGEST_MAX: Final = 100
_LOCK: Final = 7_003_310_017
"""PostgreSQL's advisory lock of whoever makes deliveries."""


def write_moves(moves: Sequence[PhaseMove], *, now: datetime) -> None:
    """What of these moves may be told, in the transaction that makes them."""
    rows = []
    for move in moves:
        workload = move.workload
        serves = workload.own_kind.takes_requests
        told = type_of_move(
            phase=workload.phase,
            reason=workload.reason,
            from_phase=move.from_phase,
            from_reason=move.from_reason,
            serves=serves,
        )
        if told is not None:
            rows.append(
                OutboxEvent(
                    type=told.value,
                    at=now,
                    team_id=workload.team_id,
                    user_id=workload.owner_id,
                    lane=str(workload.public_id),
                    serves=serves,
                    data=_facts(workload),
                )
            )
    if rows:
        OutboxEvent.objects.bulk_create(rows)


def write_decision(request: Any, *, now: datetime) -> None:
    """That a request for quota is decided, in the transaction of the decision."""
    data = {
        "id": str(request.public_id),
        "team": request.team.slug,
        "flavor": request.flavor.name,
        "capacity": request.capacity_type,
        "units": request.units,
        "until": request.until.isoformat(),
        "state": str(request.state),
        "message": request.comment,
        "url": f"{settings.PUBLIC_URL}/teams/{request.team.slug}/quota/",
    }
    OutboxEvent.objects.create(
        type=NoticeType.QUOTA_DECIDED.value,
        at=now,
        team_id=request.team_id,
        user_id=request.requested_by_id,
        lane=str(request.public_id),
        data=data,
    )


def write_alert(alert: Alert) -> None:
    """That an alert has opened or closed, in the transaction of the look. Looks come one after the other, and lock no
    workload: their lane is their own.
    """
    workload = alert.workload
    data = {
        **_facts(workload),
        "rule": alert.rule,
        "title": title_of_rule(alert.rule),
        "message": f"It was open since {alert.opened_at:%Y-%m-%d %H:%M} UTC."
        if alert.closed_at
        else alert.message,
        "value": alert.value,
        "threshold": alert.threshold,
        "cards": alert.cards,
        "opened_at": alert.opened_at.isoformat(),
    }
    OutboxEvent.objects.create(
        type=(NoticeType.ALERT_CLOSED if alert.closed_at else NoticeType.ALERT_OPENED).value,
        at=alert.closed_at or alert.opened_at,
        team_id=alert.team_id,
        user_id=workload.owner_id,
        lane=f"gpus:{workload.public_id}",
        data=data,
    )


def write_policy(workload: Workload, told: NoticeType, *, message: str, now: datetime) -> None:
    """What the idle policy does with a run, whose row the caller holds."""
    OutboxEvent.objects.create(
        type=told.value,
        at=now,
        team_id=workload.team_id,
        user_id=workload.owner_id,
        lane=str(workload.public_id),
        data={**_facts(workload), "message": message},
    )


def write_budget(period: BudgetPeriod, told: NoticeType, *, message: str, now: datetime) -> None:
    """What is told of a team's budget, whose row the caller holds; it is nobody's alone."""
    budget = period.budget
    OutboxEvent.objects.create(
        type=told.value,
        at=now,
        team_id=budget.team_id,
        lane=f"budget:{budget.public_id}",
        data={
            "id": str(budget.public_id),
            "team": budget.team.slug,
            "amount": as_json(period.ceiling_micro_usd),
            "starts_at": period.starts_at.isoformat(),
            "ends_at": period.ends_at.isoformat(),
            "message": message,
            "url": f"{settings.PUBLIC_URL}/teams/{budget.team.slug}/",
        },
    )


def _facts(workload: Workload) -> dict[str, Any]:
    kind = workload.own_kind
    return {
        "id": str(workload.public_id),
        "kind": workload.kind,
        "noun": kind.noun,
        "team": workload.team.slug,
        "name": workload.name,
        "phase": workload.phase,
        "reason": workload.reason,
        "message": workload.message,
        "url": f"{settings.PUBLIC_URL}{kind.page_of(workload.public_id)}",
    }


def _one_at_a_time() -> bool:
    """Whether this transaction is the one that makes deliveries; until it ends, nobody else is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def hand_on(*, now: datetime) -> int:
    """Make deliveries of what is in the outbox, oldest first, and empty it; how many events there were, at most `BATCH`."""
    with transaction.atomic():
        if not _one_at_a_time():
            return 0
        events = list(OutboxEvent.objects.select_related("team", "user").order_by("pk")[:BATCH])
        if events:
            Delivery.objects.bulk_create(_deliveries(events, now), ignore_conflicts=True, batch_size=BATCH)
            OutboxEvent.objects.filter(pk__in=[event.pk for event in events]).delete()
    return len(events)


def _deliveries(events: Sequence[OutboxEvent], now: datetime) -> list[Delivery]:
    teams = {event.team for event in events}
    users = {event.user for event in events if event.user is not None}
    of_teams = {event.team for event in events if event.user is None}
    members = Membership.objects.filter(team__in=of_teams).values("user")
    wanted = NoticeSubscription.objects.filter(
        Q(team__in=teams) | Q(user__in=users) | Q(user__in=members, topics__contains=[Topic.BUDGET.value]),
        enabled=True,
    )
    subscriptions = list(wanted.select_related("user").order_by("pk"))
    readers = readers_of(subscriptions)
    users |= {row.user for row in subscriptions if row.user is not None and of_teams}
    owners = sorted(users, key=lambda user: user.pk)
    sees = dict(
        zip(
            (user.pk for user in owners),
            visible_slugs(owners, {team.slug for team in teams}),
            strict=True,
        )
    )
    made = []
    for event in events:
        for subscription in subscriptions:
            mine = _is_own(subscription, event, sees)
            concerns = mine or subscription.team_id == event.team_id
            rule = event.data.get("rule", "")
            wants = is_wanted(event.type, serves=event.serves, topics=subscription.topics, rule=rule)
            if concerns and wants and subscription.created_at <= event.at:
                data = {**event.data, "owner": event.user.get_username() if event.user else ""}
                payload = {"type": event.type, "timestamp": event.at.isoformat(), "data": data}
                made += deliveries_of(
                    subscription, readers, event, payload, once=f"event:{event.pk}", now=now
                )
    return made


def _is_own(subscription: NoticeSubscription, event: OutboxEvent, sees: Mapping[int, frozenset[str]]) -> bool:
    """Whether it is a person's subscription and the event is theirs: a team's budget is that of each member."""
    person = subscription.user_id
    if person is None or (event.user_id is not None and event.user_id != person):
        return False
    return event.team.slug in sees.get(person, ())


def readers_of(subscriptions: Iterable[NoticeSubscription]) -> dict[int, list[int]]:
    """Who in a team has mail, by the team's key; of teams that are told by mail."""
    teams = {each.team_id for each in subscriptions if each.team_id and each.channel == Channel.MAIL}
    rows = Membership.objects.filter(team__in=teams, user__is_active=True).exclude(user__email="")
    found: dict[int, list[int]] = defaultdict(list)
    for team_id, user_id in rows.order_by("user_id").values_list("team_id", "user_id"):
        found[team_id].append(user_id)
    return found


def deliveries_of(
    subscription: NoticeSubscription,
    readers: dict[int, list[int]],
    event: OutboxEvent,
    payload: dict[str, Any],
    *,
    once: str,
    now: datetime,
) -> list[Delivery]:
    """One delivery, or of a mail one for each who reads it."""
    recipients: list[int | None] = [None]
    if subscription.channel == Channel.MAIL:
        recipients = [subscription.user_id] if subscription.user_id else [*readers[subscription.team_id or 0]]
    held = subscription.digest_minutes > 0 and event.type not in REPORTS
    due = now + timedelta(minutes=subscription.digest_minutes) if held else subscription.may_go_at(now)
    return [
        Delivery(
            subscription=subscription,
            recipient_id=recipient,
            team_id=event.team_id,
            type=event.type,
            lane=f"{event.lane}:{recipient or ''}",
            once=f"{once}:{recipient or ''}",
            payload=payload,
            created_at=now,
            state=DeliveryState.HELD if held else DeliveryState.PENDING,
            next_at=due,
        )
        for recipient in recipients
    ]


def tell_of_waits(*, now: datetime) -> int:
    """Make deliveries of waits that have become longer than a subscription says; each wait is told once."""
    with transaction.atomic():
        if not _one_at_a_time():
            return 0
        rows = NoticeSubscription.objects.filter(enabled=True, topics__contains=[Topic.WAITING.value])
        subscriptions = list(rows.select_related("user").order_by("pk"))
        readers = readers_of(subscriptions)
        made = [each for row in subscriptions for each in _waits(row, readers, now)]
        Delivery.objects.bulk_create(made, ignore_conflicts=True, batch_size=BATCH)
    return len(made)


def _waits(subscription: NoticeSubscription, readers: dict[int, list[int]], now: datetime) -> list[Delivery]:
    longest = now - timedelta(minutes=subscription.wait_minutes)
    queued = Workload.objects.filter(
        phase=Phase.QUEUED.value, desired=Desired.RUN.value, queued_at__lte=longest
    )
    if subscription.team_id:
        queued = queued.filter(team=subscription.team_id)
    else:
        queued = queued.filter(owner=subscription.user_id, team__memberships__user=subscription.user_id)
    waiting = list(queued.select_related("team", "owner").order_by("queued_at", "pk")[:WAITS_MAX])
    made = []
    for workload in waiting:
        waited = int((now - workload.queued_at).total_seconds() // 60)
        data = {**_facts(workload), "owner": workload.owner.get_username(), "waited_minutes": waited}
        event = OutboxEvent(
            type=NoticeType.WAITING.value, team_id=workload.team_id, lane=str(workload.public_id)
        )
        payload = {"type": event.type, "timestamp": now.isoformat(), "data": data}
        once = f"wait:{workload.pk}:{workload.queued_at.timestamp():.6f}"
        made += deliveries_of(subscription, readers, event, payload, once=once, now=now)
    told = Delivery.objects.filter(subscription=subscription, once__in=[each.once for each in made])
    known = set(told.values_list("once", flat=True))
    return [each for each in made if each.once not in known]


def pack_digests(*, now: datetime) -> int:
    """Put what is held and due into digests, each of what one receiver has; how many."""
    with transaction.atomic():
        if not _one_at_a_time():
            return 0
        due = Delivery.objects.filter(state=DeliveryState.HELD, next_at__lte=now)
        receivers = list(due.order_by().values_list("subscription_id", "recipient_id").distinct()[:BATCH])
        return sum(_pack(subscription, recipient, now) for subscription, recipient in receivers)


def _pack(subscription_id: int, recipient_id: int | None, now: datetime) -> int:
    rows = Delivery.objects.filter(
        subscription=subscription_id, recipient=recipient_id, state=DeliveryState.HELD
    )
    items = list(rows.select_related("subscription").order_by("pk")[:DIGEST_MAX])
    payload = {
        "type": NoticeType.DIGEST.value,
        "timestamp": now.isoformat(),
        "data": {"notices": [item.payload for item in items]},
    }
    digest = Delivery.objects.create(
        subscription=items[0].subscription,
        recipient_id=recipient_id,
        type=NoticeType.DIGEST.value,
        lane=f"digest:{recipient_id or ''}",
        once=f"digest:{items[0].pk}",
        payload=payload,
        created_at=now,
        next_at=items[0].subscription.may_go_at(now),
    )
    packed = Delivery.objects.filter(pk__in=[item.pk for item in items])
    packed.update(state=DeliveryState.PACKED, digest=digest, ended_at=now)
    return 1


def drop_unsent(subscription: NoticeSubscription, *, now: datetime) -> None:
    """End what a subscription that is switched off has not told yet."""
    waiting = subscription.deliveries.filter(state__in=[DeliveryState.HELD, DeliveryState.PENDING])
    waiting.update(
        state=DeliveryState.DROPPED,
        error="The subscription was switched off.",
        ended_at=now,
        lock_token=None,
        lock_expires_at=None,
    )
