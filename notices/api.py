"""REST: `subscriptions/` and `notices/`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from notices import queries, services
from notices.events import NoticeType
from notices.models import Channel, Delivery, DeliveryState, NoticeSubscription
from notices.serializers import (
    NoticeSerializer,
    SigningSecretSerializer,
    SubscriptionCreateSerializer,
    SubscriptionSerializer,
    SubscriptionUpdateSerializer,
    SubscriptionWithSecretSerializer,
    changes_in,
)
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import team_for


class _Subscriptions(PortalView):
    queryset = NoticeSubscription.objects.none()
    serializer_class: Any = SubscriptionSerializer
    write_scope = ApiToken.Scope.MANAGE

    def find(self, public_id: UUID) -> NoticeSubscription:
        """One of the caller's own, or of a team that the caller leads; NotFound for all others."""
        return queries.subscription_for(self.request.user, public_id)


class SubscriptionListView(_Subscriptions):
    filters = {
        "team": filters.text("team__slug"),
        "channel": filters.choice(Channel.values, "channel"),
        "enabled": filters.boolean("enabled"),
    }
    ordering_fields = ("created_at", "name")
    ordering = "-created_at"

    @extend_schema(
        operation_id="subscriptions_list", tags=["notices"], responses=SubscriptionSerializer(many=True)
    )
    def get(self, request: Any) -> Response:
        """What the caller is told of and how, and what the teams are that the caller leads."""
        return self.page(queries.subscriptions_for(request.user))

    @extend_schema(
        operation_id="subscriptions_create",
        tags=["notices"],
        request=SubscriptionCreateSerializer,
        responses={201: SubscriptionWithSecretSerializer},
    )
    @idempotent(store_body=False)
    def post(self, request: Any) -> Response:
        """Subscribe to notices, of one's own or of a team; the secret that signs webhooks is in this answer alone."""
        body = self.read(SubscriptionCreateSerializer)
        team = team_for(request.user, body["team"], field="team") if body.get("team") else None
        made, secret = services.create_subscription(
            actor=actor_of(request),
            team=team,
            channel=body["channel"],
            values=changes_in(body),
            now=clock.now(),
        )
        made.secret = secret or None  # type: ignore[attr-defined]
        shown = SubscriptionWithSecretSerializer(made).data
        return self.created(shown, f"{request.path}{made.public_id}/", holds_secret=True)


class SubscriptionView(_Subscriptions):
    @extend_schema(operation_id="subscriptions_read", tags=["notices"], responses=SubscriptionSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One subscription, without its address and its secret."""
        check_query_parameters(request, ())
        return Response(SubscriptionSerializer(self.find(public_id)).data)

    @extend_schema(
        operation_id="subscriptions_update",
        tags=["notices"],
        request=SubscriptionUpdateSerializer,
        responses=SubscriptionSerializer,
    )
    def patch(self, request: Any, public_id: UUID) -> Response:
        """Change a subscription; switched off, it forgets what it has not told yet."""
        row = self.find(public_id)
        changes = changes_in(self.read(SubscriptionUpdateSerializer, partial=True))
        services.update_subscription(
            actor=actor_of(request), subscription=row, changes=changes, now=clock.now()
        )
        return Response(SubscriptionSerializer(self.find(public_id)).data)

    @extend_schema(operation_id="subscriptions_delete", tags=["notices"], responses={204: None})
    def delete(self, request: Any, public_id: UUID) -> Response:
        """Delete a subscription, with the list of what it has sent."""
        services.delete_subscription(
            actor=actor_of(request), subscription=self.find(public_id), now=clock.now()
        )
        return Response(status=204)


class SubscriptionSecretView(_Subscriptions):
    @extend_schema(
        operation_id="subscriptions_renew_secret",
        tags=["notices"],
        request=None,
        responses={201: SigningSecretSerializer},
    )
    @idempotent(store_body=False)
    def post(self, request: Any, public_id: UUID) -> Response:
        """Make another secret that signs the webhooks, from now on; it is in this answer alone."""
        row = self.find(public_id)
        secret = services.renew_secret(actor=actor_of(request), subscription=row, now=clock.now())
        path = request.path.removesuffix("secret/")
        return self.created({"secret": secret}, path, holds_secret=True)


class SubscriptionTestView(_Subscriptions):
    serializer_class = NoticeSerializer

    @extend_schema(
        operation_id="subscriptions_test", tags=["notices"], request=None, responses={202: NoticeSerializer}
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Send a test by the subscription, once; the notice that is answered tells how it went."""
        row = self.find(public_id)
        sent = services.send_test(actor=actor_of(request), subscription=row, now=clock.now())
        return Response(NoticeSerializer(sent).data, status=202)


class _Notices(PortalView):
    queryset = Delivery.objects.none()
    serializer_class = NoticeSerializer
    write_scope = ApiToken.Scope.MANAGE


class NoticeListView(_Notices):
    filters = {
        "subscription": filters.uuid("subscription__public_id"),
        "state": filters.choice(DeliveryState.values, "state", many=True),
        "type": filters.choice([each.value for each in NoticeType], "type", many=True),
    }
    ordering_fields = ("created_at",)
    ordering = "-created_at"

    @extend_schema(operation_id="notices_list", tags=["notices"], responses=NoticeSerializer(many=True))
    def get(self, request: Any) -> Response:
        """What was sent by the caller's subscriptions, or is to be; `state=dead` lists what was given up."""
        return self.page(queries.deliveries_for(request.user))


class NoticeView(_Notices):
    @extend_schema(operation_id="notices_read", tags=["notices"], responses=NoticeSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        """One notice: what it tells, how often it was tried, and how that went."""
        check_query_parameters(request, ())
        return Response(NoticeSerializer(queries.delivery_for(request.user, public_id)).data)


class NoticeReplayView(_Notices):
    @extend_schema(
        operation_id="notices_replay", tags=["notices"], request=None, responses={202: NoticeSerializer}
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Send a notice again that was delivered or given up, with the id that it had."""
        row = queries.delivery_for(request.user, public_id)
        services.replay(actor=actor_of(request), delivery=row, now=clock.now())
        return Response(NoticeSerializer(queries.delivery_for(request.user, public_id)).data, status=202)
