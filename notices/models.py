"""Who wants to be told of what, and what is told: the outbox, and a row for everything that goes out."""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from typing_extensions import override

from foundation import ids
from notices.quiet import end_of_quiet
from teams.models import Team, User

NAME_LENGTH_MAX = 100


class Channel(models.TextChoices):
    WEBHOOK = "webhook", "Webhook (signed JSON)"
    CHAT = "chat", "Chat (an incoming webhook of Slack, Mattermost …)"
    MAIL = "mail", "Mail"


class DeliveryState(models.TextChoices):
    HELD = "held", "held for a digest"
    PENDING = "pending", "on its way"
    DELIVERED = "delivered", "delivered"
    DEAD = "dead", "given up"
    PACKED = "packed", "in a digest"
    DROPPED = "dropped", "not sent"


class NoticeSubscription(models.Model):
    """What one person is told of their own, or a team of all of its."""

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="subscriptions")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, related_name="subscriptions")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    channel = models.CharField(max_length=8, choices=Channel.choices)
    topics = ArrayField(models.CharField(max_length=16))
    wait_minutes = models.PositiveIntegerField(default=30, help_text="How long a wait is told of.")
    sealed_url = models.TextField(blank=True, default="", editable=False)
    origin = models.CharField(
        max_length=300, blank=True, default="", help_text="What is shown of its address."
    )
    secret_version = models.PositiveIntegerField(default=1)
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    digest_minutes = models.PositiveIntegerField(default=0, help_text="0: each at once.")
    enabled = models.BooleanField(default=True)
    off_because = models.CharField(max_length=200, blank=True, default="")
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0, help_text="Of its receiver, in a row.")
    held_until = models.DateTimeField(null=True, help_text="Until when its receiver is left alone.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True, team__isnull=False) | Q(user__isnull=False, team__isnull=True),
                name="subscription_of_a_person_or_a_team",
            ),
            models.CheckConstraint(condition=~Q(topics=[]), name="subscription_has_topics"),
            models.CheckConstraint(
                condition=Q(channel="mail", sealed_url="") | (~Q(channel="mail") & ~Q(sealed_url="")),
                name="subscription_has_an_address",
            ),
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="subscription_quiet_has_both_ends",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.name

    def may_go_at(self, now: datetime) -> datetime:
        """`now`, or the end of the quiet hours that it lies in."""
        return end_of_quiet(
            now, quiet_from=self.quiet_from, quiet_until=self.quiet_until, time_zone=self.time_zone
        )


class OutboxEvent(models.Model):
    """What has happened and was not yet handed on to who is told of it; written in the transaction in which it happened."""

    type = models.CharField(max_length=40)
    at = models.DateTimeField()
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(
        User,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="Whose it is; of nobody: the team's.",
    )
    lane = models.CharField(max_length=64, help_text="What is told in order: one workload, one request.")
    serves = models.BooleanField(default=False)
    data = models.JSONField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False) | Q(type__startswith="budget."),
                name="outbox_event_is_somebodys",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.type} of {self.lane}"


class Delivery(models.Model):
    """One notice to one receiver. `public_id` is its id on the wire, of every try: a receiver knows repetitions by it."""

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    subscription = models.ForeignKey(NoticeSubscription, on_delete=models.CASCADE, related_name="deliveries")
    recipient = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, related_name="+", help_text="Of a mail."
    )
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, related_name="+", help_text="Whose matter it tells of."
    )
    type = models.CharField(max_length=40)
    lane = models.CharField(max_length=96)
    once = models.CharField(max_length=128, help_text="What it tells of: each is told once.")
    payload = models.JSONField()
    created_at = models.DateTimeField()
    state = models.CharField(max_length=12, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    replays = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    lock_token = models.UUIDField(null=True, editable=False)
    lock_expires_at = models.DateTimeField(null=True, editable=False)
    status_code = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=300, blank=True, default="")
    ended_at = models.DateTimeField(null=True)
    digest = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="packed")

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["subscription", "once"], name="delivery_once"),
            models.CheckConstraint(
                condition=Q(state__in=["held", "pending"], ended_at__isnull=True)
                | (~Q(state__in=["held", "pending"]) & Q(ended_at__isnull=False)),
                name="delivery_ended_has_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["subscription", "lane", "id"], name="delivery_lanes", condition=Q(state="pending")
            ),
            models.Index(fields=["subscription", "-id"], name="delivery_of_subscription"),
            models.Index(fields=["next_at"], name="delivery_held", condition=Q(state="held")),
            models.Index(fields=["ended_at"], name="delivery_expiry"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.type} {self.public_id}"
