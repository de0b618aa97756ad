"""Subscriptions are made, changed and deleted here; a test is sent, and what was given up is sent again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from foundation.errors import Invalid, NotAllowed, NotFound
from foundation.time_zones import is_time_zone
from notices.addresses import check_reachable, origin_of
from notices.errors import AlreadyTesting, NotReplayable, TooManySubscriptions
from notices.events import NoticeType, Topic
from notices.models import NAME_LENGTH_MAX, Channel, Delivery, DeliveryState, NoticeSubscription
from notices.outbox import drop_unsent
from notices.sealing import seal, signing_secret
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team, User
from teams.permissions import check_can_manage, check_open, hold_open

SUBSCRIPTIONS_MAX: Final = 20
"""Of one person, or of one team."""
WAIT_MINUTES_MAX: Final = 7 * 24 * 60
DIGEST_MINUTES_MAX: Final = 24 * 60
CHANGEABLE: Final = (
    "name",
    "topics",
    "wait_minutes",
    "quiet_from",
    "quiet_until",
    "time_zone",
    "digest_minutes",
    "enabled",
)
_REPLAYABLE: Final = (DeliveryState.DEAD, DeliveryState.DELIVERED)


def create_subscription(
    *, actor: Actor, team: Team | None, channel: str, values: Mapping[str, Any], now: datetime
) -> tuple[NoticeSubscription, str]:
    """Of the actor or of a team, which its lead makes; the secret of its signatures, empty where nothing is signed.

    `values` are of CHANGEABLE, and `url`. Raises NotAllowed, NotFound, Invalid with the field, or TooManySubscriptions.
    """
    user = _person(actor, team, makes=True)
    if channel == Channel.MAIL:
        _check_mail(None if team else user)
    made = NoticeSubscription(
        team=team,
        user=None if team else user,
        channel=channel,
        created_by=user,
        created_at=now,
    )
    _assign(made, values)
    # Looked up before the transaction: a slow name service holds no lock.
    _set_url(made, values.get("url"), asker=user)
    with transaction.atomic():
        _lock_owner(made)
        own = (
            NoticeSubscription.objects.filter(team=team)
            if team
            else NoticeSubscription.objects.filter(user=user)
        )
        if own.count() >= SUBSCRIPTIONS_MAX:
            raise TooManySubscriptions(f"{SUBSCRIPTIONS_MAX} subscriptions are the most; delete some.")
        made.save()
        _audit(made, "subscription.create", actor, now, after=_shown(made))
    return made, signing_secret(made) if channel == Channel.WEBHOOK else ""


def update_subscription(
    *, actor: Actor, subscription: NoticeSubscription, changes: Mapping[str, Any], now: datetime
) -> NoticeSubscription:
    """Change what `changes` names, of CHANGEABLE and `url`. Raises what `create_subscription` does."""
    user = _check_own(actor, subscription)
    if "url" in changes:
        check = NoticeSubscription(channel=subscription.channel)
        _set_url(check, changes["url"], asker=user)
    else:
        check = None
    with transaction.atomic():
        row = _locked(subscription)
        before = _shown(row)
        _assign(row, changes)
        if check is not None:
            row.sealed_url, row.origin = check.sealed_url, check.origin
        if changes.get("enabled"):
            if row.team is not None:
                check_open(row.team)
            row.failures, row.held_until, row.off_because = 0, None, ""
        row.save()
        if not row.enabled:
            drop_unsent(row, now=now)
        elif "quiet_from" in changes:
            untried = row.deliveries.filter(state=DeliveryState.PENDING, attempts=0)
            untried.exclude(type=NoticeType.TEST).update(next_at=row.may_go_at(now))
        # That an address is another one shows even where its origin is the same.
        also = {"address": "changed"} if check is not None else {}
        _audit(row, "subscription.update", actor, now, before=before, after={**_shown(row), **also})
    return row


def switch_off(*, team: Team, because: str, now: datetime) -> None:
    """Switch off all that the team has, in the caller's transaction, which holds the team's row. What was not sent by now
    is dropped.
    """
    rows = NoticeSubscription.objects.select_for_update(no_key=True).filter(team=team, enabled=True)
    for row in rows.order_by("pk"):
        row.enabled, row.off_because = False, because
        row.save(update_fields=["enabled", "off_because"])
        drop_unsent(row, now=now)


def delete_subscription(*, actor: Actor, subscription: NoticeSubscription, now: datetime) -> None:
    """With all that it has sent or not sent yet."""
    _check_own(actor, subscription)
    with transaction.atomic():
        row = _locked(subscription)
        _audit(row, "subscription.delete", actor, now, before=_shown(row))
        row.delete()


def renew_secret(*, actor: Actor, subscription: NoticeSubscription, now: datetime) -> str:
    """Another secret for its signatures, from the next try on; the old one signs nothing any more."""
    _check_own(actor, subscription)
    with transaction.atomic():
        row = _locked(subscription)
        if row.channel != Channel.WEBHOOK:
            raise Invalid("Only webhooks are signed.", code="not_signed")
        row.secret_version += 1
        row.save(update_fields=["secret_version"])
        _audit(row, "subscription.renew-secret", actor, now)
    return signing_secret(row)


def send_test(*, actor: Actor, subscription: NoticeSubscription, now: datetime) -> Delivery:
    """A test, tried once, at any hour. Raises AlreadyTesting while another is on its way."""
    user = _check_own(actor, subscription)
    with transaction.atomic():
        row = _locked(subscription)
        tests = row.deliveries.filter(type=NoticeType.TEST)
        if tests.filter(state=DeliveryState.PENDING).exists():
            raise AlreadyTesting("A test is on its way already.")
        if not row.enabled:
            raise AlreadyTesting("The subscription is switched off.", code="switched_off")
        # Whoever asks for the test wants to see how it arrives: the receiver is not left alone any longer.
        NoticeSubscription.objects.filter(pk=row.pk).update(held_until=None)
        data = {"subscription": row.name, "message": f"{user.get_username()} asked for it.", "team": ""}
        payload = {"type": NoticeType.TEST.value, "timestamp": now.isoformat(), "data": data}
        once = f"test:{tests.count() + 1}:{now.timestamp():.6f}"
        _audit(row, "subscription.test", actor, now)
        return Delivery.objects.create(
            subscription=row,
            recipient=user if row.channel == Channel.MAIL else None,
            team=row.team,
            type=NoticeType.TEST.value,
            lane=once,
            once=once,
            payload=payload,
            created_at=now,
            next_at=now,
        )


def replay(*, actor: Actor, delivery: Delivery, now: datetime) -> Delivery:
    """Send it again, with the id that it had. Raises NotReplayable for what was not sent or given up."""
    _check_own(actor, delivery.subscription)
    with transaction.atomic():
        subscription = _locked(delivery.subscription)
        row = Delivery.objects.select_for_update(no_key=True).filter(pk=delivery.pk).first()
        if row is None:
            raise NotFound("This notice is gone.")
        if row.state not in _REPLAYABLE:
            raise NotReplayable(f"This notice is {row.get_state_display()}.")
        if not subscription.enabled:
            raise NotReplayable("The subscription is switched off.", code="switched_off")
        row.state, row.ended_at, row.next_at = DeliveryState.PENDING, None, now
        row.attempts, row.replays, row.error, row.status_code = 0, row.replays + 1, "", None
        row.save()
        NoticeSubscription.objects.filter(pk=subscription.pk).update(held_until=None)
        _audit(subscription, "notice.replay", actor, now, after={"notice": str(row.public_id)})
    return row


# --- who


def _person(actor: Actor, team: Team | None, *, makes: bool = False) -> User:
    user = actor.user
    if user is None:
        raise NotAllowed("Only a user can subscribe.")
    if team is not None:
        check_can_manage(user, team)
        if makes:
            check_open(team)
    elif user.bound_team_id is not None:
        raise NotAllowed("A token of one team subscribes for that team only.", code="team_bound")
    return user


def _check_own(actor: Actor, subscription: NoticeSubscription) -> User:
    user = _person(actor, subscription.team)
    if subscription.team is None and subscription.user_id != user.pk:
        raise NotFound("You have no such subscription.")
    return user


def _locked(subscription: NoticeSubscription) -> NoticeSubscription:
    rows = NoticeSubscription.objects.select_for_update(no_key=True, of=("self",)).select_related(
        "team", "user"
    )
    row = rows.filter(pk=subscription.pk).first()
    if row is None:
        raise NotFound("This subscription is gone.")
    return row


def _lock_owner(subscription: NoticeSubscription) -> None:
    """Counts and creates one after the other."""
    if subscription.team is not None:
        hold_open(subscription.team)
    else:
        User.objects.select_for_update(no_key=True).get(pk=subscription.user_id or 0)


# --- what


def _check_mail(user: User | None) -> None:
    if not settings.EMAIL_HOST:
        raise Invalid.of_field("channel", "This portal has no mail server.", code="no_mail")
    if user is not None and not user.email:
        raise Invalid.of_field(
            "channel", "Your account has no mail address; an admin can enter it.", code="no_mail"
        )


def _set_url(subscription: NoticeSubscription, url: str | None, *, asker: User) -> None:
    if subscription.channel == Channel.MAIL:
        if url:
            raise Invalid.of_field("url", "Mail goes to the addresses of accounts.", code="not_for_mail")
        return
    if not url:
        raise Invalid.of_field("url", "Give the address that notices go to.", code="required")
    check_reachable(url, asker=asker.pk)
    subscription.sealed_url, subscription.origin = seal(url), origin_of(url)


def _assign(row: NoticeSubscription, values: Mapping[str, Any]) -> None:
    """Raises Invalid for what will not do together, with the field."""
    for name in CHANGEABLE:
        if name in values:
            setattr(row, name, values[name])
    row.name = (row.name or "").strip()
    if not row.name or len(row.name) > NAME_LENGTH_MAX or not row.name.isprintable():
        raise Invalid.of_field("name", f"Give a name of one line, at most {NAME_LENGTH_MAX} characters.")
    row.topics = [topic.value for topic in Topic if topic.value in (row.topics or ())]
    if not row.topics:
        raise Invalid.of_field("topics", "Choose what to be told of.", code="required")
    _check_whole("wait_minutes", row.wait_minutes, 1, WAIT_MINUTES_MAX)
    _check_whole("digest_minutes", row.digest_minutes, 0, DIGEST_MINUTES_MAX)
    if not is_time_zone(row.time_zone):
        raise Invalid.of_field(
            "time_zone", "Give a time zone such as Europe/Zurich.", code="unknown_time_zone"
        )
    if (row.quiet_from is None) != (row.quiet_until is None):
        raise Invalid.of_field("quiet_until", "Quiet hours have a beginning and an end.", code="required")


def _check_whole(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Invalid.of_field(field, f"From {least} to {most:,} minutes.", code="out_of_range")


def _shown(row: NoticeSubscription) -> dict[str, Any]:
    """For the audit trail: no address, whose path may be a credential."""
    values = {name: getattr(row, name) for name in CHANGEABLE}
    times = {name: at.isoformat() for name, at in values.items() if isinstance(at, time)}
    return {"channel": row.channel, "origin": row.origin, **values, **times}


def _audit(
    row: NoticeSubscription,
    action: str,
    actor: Actor,
    now: datetime,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    record_audit(
        actor=actor,
        action=action,
        target_kind="subscription",
        target_id=row.public_id,
        target_name=row.name,
        team=row.team,
        before=before,
        after=after,
        now=now,
    )
