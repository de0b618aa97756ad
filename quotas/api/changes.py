"""REST: `quota-changes/` and `quota-requests/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from quotas import changes, requests
from quotas.api.lookups import change_set_for, flavor_named, request_for, team_named, visible_requests
from quotas.api.request_serializers import (
    ChangeSetPreviewSerializer,
    ChangeSetWriteSerializer,
    CommentSerializer,
    QuotaRequestWriteSerializer,
    ReasonSerializer,
    limits_of,
)
from quotas.api.response_serializers import (
    ChangePreviewSerializer,
    ChangeSetSerializer,
    QuotaChangeSerializer,
    QuotaRequestSerializer,
)
from quotas.changes import LimitChange
from quotas.checks import check_may_ask
from quotas.models import QuotaChange, QuotaChangeSet, QuotaRequest
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role, team_for, visible_teams


class QuotaChangesView(PortalView):
    """Every change of a quota, with who and why, newest first."""

    queryset = QuotaChange.objects.none()
    serializer_class = QuotaChangeSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {
        "team": filters.text("team_slug"),
        "flavor": filters.text("flavor_name"),
        "change_set": filters.uuid("change_set__public_id"),
    }

    @extend_schema(
        operation_id="quota_changes_list", tags=["quotas"], responses=QuotaChangeSerializer(many=True)
    )
    def get(self, request: Any) -> Response:
        slugs = visible_teams(request.user).values("slug")
        return self.page(QuotaChange.objects.filter(team_slug__in=slugs).select_related("change_set"))

    @extend_schema(
        operation_id="quota_changes_apply",
        tags=["quotas"],
        request=ChangeSetWriteSerializer,
        responses={201: ChangeSetSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Apply changes of many quotas together, or none of them."""
        check_global_role(request.user, "quota-manager")
        values = self.read(ChangeSetWriteSerializer)
        made = changes.apply_changes(
            changes=_wanted(values["changes"]),
            reason=values["reason"],
            evicts=values["evicts"],
            actor=actor_of(request),
            now=clock.now(),
        )
        return self.created(_shown(request, made), _address(made))


class QuotaChangesPreviewView(PortalView):
    """What applying these changes would do now; makes nothing."""

    queryset = QuotaChangeSet.objects.none()
    serializer_class = ChangePreviewSerializer
    scopes = {"POST": ApiToken.Scope.READ}

    @extend_schema(
        operation_id="quota_changes_preview",
        tags=["quotas"],
        request=ChangeSetPreviewSerializer,
        responses=ChangePreviewSerializer,
    )
    def post(self, request: Any) -> Response:
        check_global_role(request.user, "quota-manager")
        values = self.read(ChangeSetPreviewSerializer)
        preview = changes.preview_changes(
            changes=_wanted(values["changes"]), evicts=values["evicts"], now=clock.now()
        )
        return Response(ChangePreviewSerializer(preview).data)


class QuotaChangeView(PortalView):
    """Changes that were applied together."""

    queryset = QuotaChangeSet.objects.none()
    serializer_class = ChangeSetSerializer

    @extend_schema(operation_id="quota_changes_read", tags=["quotas"], responses=ChangeSetSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        check_query_parameters(request, ())
        return Response(_shown(request, change_set_for(request.user, public_id)))


class QuotaChangeUndoView(PortalView):
    """Set every limit back to what it was before; 409 where one was changed since."""

    queryset = QuotaChangeSet.objects.none()
    serializer_class = ChangeSetSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(
        operation_id="quota_changes_undo",
        tags=["quotas"],
        request=ReasonSerializer,
        responses={201: ChangeSetSerializer},
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        change_set = change_set_for(request.user, public_id)
        check_global_role(request.user, "quota-manager")
        reason = self.read(ReasonSerializer)["reason"]
        made = changes.undo_changes(
            change_set=change_set, reason=reason, actor=actor_of(request), now=clock.now()
        )
        return self.created(_shown(request, made), _address(made))


def _wanted(items: Sequence[dict[str, Any]]) -> list[LimitChange]:
    """The changes of a body. An error names the field of the one that is wrong, such as `changes.3.flavor`."""
    return [
        LimitChange(
            team=team_named(item["team"], field=f"changes.{place}.team"),
            flavor=flavor_named(item["flavor"], field=f"changes.{place}.flavor"),
            capacity_type=item["capacity"],
            limits=limits_of(item),
        )
        for place, item in enumerate(items)
    ]


def _shown(request: Any, change_set: QuotaChangeSet) -> Any:
    context = {"slugs": visible_teams(request.user).values("slug")}
    return ChangeSetSerializer(change_set, context=context).data


def _address(change_set: QuotaChangeSet) -> str:
    return reverse("quotas-api:quota-change", kwargs={"public_id": change_set.public_id})


# --- requests


class QuotaRequestListView(PortalView):
    """What members have asked for, until when, and what became of it; newest first."""

    queryset = QuotaRequest.objects.none()
    serializer_class = QuotaRequestSerializer
    filters = {
        "state": filters.choice(QuotaRequest.State.values, "state", many=True),
        "team": filters.text("team__slug", many=True),
        "flavor": filters.text("flavor__name"),
    }
    ordering_fields = ("requested_at", "until")
    ordering = "-requested_at"

    @extend_schema(
        operation_id="quota_requests_list", tags=["quotas"], responses=QuotaRequestSerializer(many=True)
    )
    def get(self, request: Any) -> Response:
        return self.page(visible_requests(request.user))

    @extend_schema(
        operation_id="quota_requests_create",
        tags=["quotas"],
        request=QuotaRequestWriteSerializer,
        responses={201: QuotaRequestSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Ask for units on top of a team's quota until a date; a quota manager decides, and may ask for any team."""
        values = self.read(QuotaRequestWriteSerializer)
        team = team_for(request.user, values["team"], field="team")
        check_may_ask(request.user, team)
        made = requests.request_quota(
            team=team,
            flavor=flavor_named(values["flavor"]),
            capacity_type=values["capacity"],
            units=values["units"],
            until=values["until"],
            reason=values["reason"],
            actor=actor_of(request),
            now=clock.now(),
        )
        answer = QuotaRequestSerializer(request_for(request.user, made.public_id)).data
        return self.created(answer, f"{request.path}{made.public_id}/")


class QuotaRequestView(PortalView):
    """What a member asked for, until when, and what became of it."""

    queryset = QuotaRequest.objects.none()
    serializer_class = QuotaRequestSerializer

    @extend_schema(operation_id="quota_requests_read", tags=["quotas"], responses=QuotaRequestSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        check_query_parameters(request, ())
        return Response(QuotaRequestSerializer(request_for(request.user, public_id)).data)


class RequestAnswerView(PortalView):
    """What a quota manager says to a request, with a comment."""

    queryset = QuotaRequest.objects.none()
    serializer_class = QuotaRequestSerializer
    write_scope = ApiToken.Scope.MANAGE

    def decided(self, request: Any, public_id: UUID, decide: Callable[..., QuotaRequest]) -> Response:
        asked = request_for(request.user, public_id)
        check_global_role(request.user, "quota-manager")
        comment = self.read(CommentSerializer)["comment"]
        decide(request=asked, comment=comment, actor=actor_of(request), now=clock.now())
        return Response(QuotaRequestSerializer(request_for(request.user, public_id)).data)


class QuotaRequestApproveView(RequestAnswerView):
    """Approve a quota request; what it gives returns by itself when its date has come."""

    @extend_schema(
        operation_id="quota_requests_approve",
        tags=["quotas"],
        request=CommentSerializer,
        responses=QuotaRequestSerializer,
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        return self.decided(request, public_id, requests.approve_request)


class QuotaRequestDenyView(RequestAnswerView):
    """Deny a quota request; the comment says why."""

    @extend_schema(
        operation_id="quota_requests_deny",
        tags=["quotas"],
        request=CommentSerializer,
        responses=QuotaRequestSerializer,
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        return self.decided(request, public_id, requests.deny_request)


class QuotaRequestWithdrawView(PortalView):
    """Withdraw a quota request; by who asked."""

    queryset = QuotaRequest.objects.none()
    serializer_class = QuotaRequestSerializer

    @extend_schema(
        operation_id="quota_requests_withdraw",
        tags=["quotas"],
        request=None,
        responses=QuotaRequestSerializer,
    )
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        asked = request_for(request.user, public_id)
        requests.withdraw_request(request=asked, actor=actor_of(request), now=clock.now())
        return Response(QuotaRequestSerializer(request_for(request.user, public_id)).data)
