"""Subscriptions and notices, as REST shows and takes them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.http.serializers import StrictSerializer
from notices.events import NoticeType, Topic
from notices.models import NAME_LENGTH_MAX, Channel, Delivery, DeliveryState, NoticeSubscription
from notices.services import DIGEST_MINUTES_MAX, WAIT_MINUTES_MAX

_TOPICS = [topic.value for topic in Topic]
# Longer ones are refused by the service, which says why.
_URL_LENGTH_MAX = 2000


# OpenAPI's format `time` has seconds and an offset.
@extend_schema_field({"type": "string", "pattern": "^([01]?[0-9]|2[0-3]):[0-5]?[0-9]$"})
class TimeOfDayField(serializers.TimeField):
    """Hours and minutes, in a time zone that stands elsewhere."""

    def __init__(self, **options: Any) -> None:
        super().__init__(input_formats=["%H:%M"], format="%H:%M", **options)


class QuietHoursSerializer(serializers.Serializer[Any]):
    begin = TimeOfDayField(source="quiet_from")
    end = TimeOfDayField(source="quiet_until")


class SubscriptionSerializer(serializers.ModelSerializer[NoticeSubscription]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    team = serializers.CharField(
        source="team.slug", default=None, read_only=True, allow_null=True, help_text="Null of your own."
    )
    channel = serializers.ChoiceField(choices=Channel.choices, read_only=True)
    origin = serializers.CharField(
        read_only=True, help_text="Of its address, whose rest may be a credential and is never shown."
    )
    topics = serializers.ListField(child=serializers.ChoiceField(choices=_TOPICS), read_only=True)
    quiet_hours = serializers.SerializerMethodField(
        help_text="Local times between which nothing is sent; null: none."
    )
    off_because = serializers.CharField(
        read_only=True, help_text="Why the portal has switched it off, if so."
    )
    created_by = serializers.CharField(source="created_by.username", read_only=True)
    failures = serializers.IntegerField(read_only=True, help_text="Of its receiver, in a row.")

    class Meta:
        model = NoticeSubscription
        fields = [
            "id", "team", "name", "channel", "origin", "topics", "wait_minutes", "quiet_hours", "time_zone",
            "digest_minutes", "enabled", "off_because", "created_by", "created_at", "failures", "held_until",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(QuietHoursSerializer(allow_null=True))
    def get_quiet_hours(self, row: NoticeSubscription) -> dict[str, Any] | None:
        """Both ends, or none."""
        return None if row.quiet_from is None else dict(QuietHoursSerializer(row).data)


class SubscriptionWithSecretSerializer(SubscriptionSerializer):
    """The only answer, with that to `secret/`, that ever holds the secret."""

    secret = serializers.CharField(
        read_only=True, allow_null=True, help_text="What signs its webhooks; null of other channels."
    )

    class Meta(SubscriptionSerializer.Meta):
        fields = [*SubscriptionSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class SigningSecretSerializer(serializers.Serializer[Any]):
    secret = serializers.CharField()


class QuietHoursBodySerializer(StrictSerializer):
    begin = TimeOfDayField(help_text="Such as 22:00.")
    end = TimeOfDayField(help_text="Such as 07:00.")


class SubscriptionUpdateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=NAME_LENGTH_MAX)
    url = serializers.CharField(
        max_length=_URL_LENGTH_MAX, required=False, help_text="Where it goes; not of mail."
    )
    topics = serializers.ListField(
        child=serializers.ChoiceField(choices=_TOPICS), min_length=1, max_length=len(_TOPICS)
    )
    wait_minutes = serializers.IntegerField(
        min_value=1,
        max_value=WAIT_MINUTES_MAX,
        required=False,
        help_text="How long a wait is told of; 30 unless given.",
    )
    quiet_hours = QuietHoursBodySerializer(allow_null=True, required=False)
    time_zone = serializers.CharField(
        max_length=64,
        required=False,
        help_text="Of the quiet hours and of reports, such as Europe/Zurich; UTC unless given.",
    )
    digest_minutes = serializers.IntegerField(
        min_value=0,
        max_value=DIGEST_MINUTES_MAX,
        required=False,
        help_text="For how long notices are gathered into one; 0: each is sent at once.",
    )
    enabled = serializers.BooleanField(required=False)


class SubscriptionCreateSerializer(SubscriptionUpdateSerializer):
    team = serializers.CharField(
        required=False, allow_null=True, help_text="Of which you are a lead; null: for what is your own."
    )
    channel = serializers.ChoiceField(choices=Channel.choices)


def changes_in(body: dict[str, Any]) -> dict[str, Any]:
    """The body's fields by the names of columns."""
    values = {name: value for name, value in body.items() if name not in {"quiet_hours", "team", "channel"}}
    if "quiet_hours" in body:
        hours = body["quiet_hours"] or {}
        values |= {"quiet_from": hours.get("begin"), "quiet_until": hours.get("end")}
    return values


class NoticeSerializer(serializers.ModelSerializer[Delivery]):
    id = serializers.UUIDField(
        source="public_id", read_only=True, help_text="The `webhook-id` of every try of it."
    )
    subscription = serializers.UUIDField(source="subscription.public_id", read_only=True)
    recipient = serializers.CharField(
        source="recipient.username", default=None, allow_null=True, read_only=True, help_text="Of a mail."
    )
    type = serializers.ChoiceField(choices=[each.value for each in NoticeType], read_only=True)
    payload = serializers.JSONField(read_only=True, help_text="The body of a webhook.")
    state = serializers.ChoiceField(choices=DeliveryState.choices, read_only=True)
    digest = serializers.UUIDField(
        source="digest.public_id",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="In which it went.",
    )
    error = serializers.CharField(read_only=True, help_text="Why the last try failed; empty if it did not.")

    class Meta:
        model = Delivery
        fields = [
            "id", "subscription", "recipient", "type", "payload", "state", "attempts", "replays", "created_at",
            "next_at", "ended_at", "status_code", "error", "digest",
        ]  # fmt: skip
        read_only_fields = fields
