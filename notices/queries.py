"""Whose subscriptions somebody sees, what was sent, and how far it is behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet

from foundation.errors import NotFound
from notices.models import Delivery, DeliveryState, NoticeSubscription, OutboxEvent
from teams.models import Membership, Team, User
from teams.permissions import has_global_role


def _of_user(user: Any) -> Q:
    """Rows of subscriptions that are the user's own, or of a team that the user leads."""
    if not isinstance(user, User) or not user.is_active:
        return Q(pk__in=[])
    if user.bound_team_id is not None:
        led = Membership.objects.filter(user=user, role=Membership.Role.LEAD, team=user.bound_team_id)
        return Q(team__in=led.values("team"))
    if has_global_role(user, "platform-admin"):
        return Q(user=user) | Q(team__isnull=False)
    led = Membership.objects.filter(user=user, role=Membership.Role.LEAD)
    return Q(user=user) | Q(team__in=led.values("team"))


def subscriptions_for(user: Any) -> QuerySet[NoticeSubscription]:
    """Their own, and those of teams that they lead."""
    return NoticeSubscription.objects.filter(_of_user(user)).select_related("team", "user", "created_by")


def own_subscriptions(user: User) -> QuerySet[NoticeSubscription]:
    return subscriptions_for(user).filter(user=user)


def team_subscriptions(team: Team) -> QuerySet[NoticeSubscription]:
    """All of a team; who asks has checked that its lead asks."""
    return NoticeSubscription.objects.filter(team=team).select_related("team", "user", "created_by")


def subscription_for(user: Any, public_id: UUID) -> NoticeSubscription:
    """NotFound, also for a stranger."""
    found = subscriptions_for(user).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("You have no such subscription.")
    return found


def deliveries_for(user: Any) -> QuerySet[Delivery]:
    """What was sent, or is to be, by the subscriptions that the user sees."""
    rows = Delivery.objects.filter(subscription__in=subscriptions_for(user).order_by().values("pk"))
    return rows.select_related("subscription__team", "subscription__user", "recipient", "digest")


def delivery_for(user: Any, public_id: UUID) -> Delivery:
    """NotFound, also for a stranger."""
    found = deliveries_for(user).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("You have no such notice.")
    return found


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far telling people is behind."""

    lag_seconds: float
    pending: int
    dead: int


def backlog(*, now: datetime) -> Backlog:
    """Of all subscriptions together."""
    oldest = OutboxEvent.objects.aggregate(at=Min("at"))["at"]
    states = [DeliveryState.PENDING, DeliveryState.DEAD]
    counts = dict(
        Delivery.objects.filter(state__in=states).order_by().values_list("state").annotate(n=Count("pk"))
    )
    lag = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    return Backlog(lag, counts.get(DeliveryState.PENDING, 0), counts.get(DeliveryState.DEAD, 0))
