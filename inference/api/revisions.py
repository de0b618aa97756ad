"""REST for the revisions of endpoints: how each went, what they change, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from typing_extensions import override

from console.api import response_serializers
from console.api import workloads as detail_api
from foundation import clock
from foundation.errors import NotFound
from foundation.http.etag import expected_versions
from foundation.http.idempotency import idempotent
from foundation.http.query import one
from foundation.http.serializers import MoneySerializer, StrictSerializer
from foundation.money import as_json
from inference.changes import SpecChange, changes_between
from inference.models import Endpoint, EndpointRevision
from inference.revisions.guard import Guarded
from inference.revisions.services import Effects, effects_of
from inference.serializers import EndpointSerializer, RolloutSerializer, changed_request
from inference.services import preview_update, roll_back
from inference.specs import KIND
from teams.actors import actor_of
from workloads.models import Workload
from workloads.podspec.fields import WholeNumberField


class RolloutProgressSerializer(serializers.Serializer[Any]):
    updated = serializers.IntegerField(help_text="Pods of this revision.")
    ready = serializers.IntegerField()
    total = serializers.IntegerField(help_text="Replicas that were wanted.")


class RevisionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    state = serializers.CharField(help_text="pending, rolling-out, live, failed or superseded.")
    message = serializers.CharField()
    cause = serializers.CharField(help_text="change, scale, rollback or automatic-rollback.")
    returns_to = serializers.IntegerField(allow_null=True)
    strategy = serializers.CharField(help_text="How it was or is rolled out.")
    progress = RolloutProgressSerializer()
    current = serializers.BooleanField(help_text="Whether it is the one that is wanted.")
    stable = serializers.BooleanField(help_text="Whether it is the last one that was fully ready.")
    spec = serializers.DictField()
    actor = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    live_at = serializers.DateTimeField(allow_null=True)
    failed_at = serializers.DateTimeField(allow_null=True)
    load_seconds = serializers.IntegerField(allow_null=True)


class ChangeSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    effect = serializers.CharField(help_text="rollout, size, routing, next-rollout or fixed.")


class RateSerializer(serializers.Serializer[Any]):
    at_min = MoneySerializer(allow_null=True)
    at_max = MoneySerializer(allow_null=True)


class RatesSerializer(serializers.Serializer[Any]):
    before = RateSerializer()
    after = RateSerializer()


class UnitsSerializer(serializers.Serializer[Any]):
    before = serializers.IntegerField()
    after = serializers.IntegerField()
    surge = serializers.IntegerField(help_text="Claimed on top while it is rolled out.")


class RevisionQuotaSerializer(serializers.Serializer[Any]):
    before = serializers.DictField()
    after = serializers.DictField()


class DiffSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True)
    against = serializers.IntegerField()
    changes = ChangeSerializer(many=True)
    rate_per_hour = RatesSerializer()
    units = UnitsSerializer()
    quota = RevisionQuotaSerializer()


class OptionSerializer(serializers.Serializer[Any]):
    option = serializers.CharField(help_text="replace, wait or quota.")
    message = serializers.CharField()
    change = serializers.DictField(help_text="What to send along with the change to choose it.")
    downtime_seconds = serializers.IntegerField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(allow_null=True)


class GuardSerializer(serializers.Serializer[Any]):
    verdict = serializers.CharField(help_text="go, wait or blocked.")
    message = serializers.CharField()
    strategy = serializers.CharField()
    surge_units = serializers.IntegerField()
    downtime_seconds = serializers.IntegerField(
        allow_null=True, help_text="Null where it was never measured."
    )
    options = OptionSerializer(many=True)


class RevisionPreviewSerializer(DiffSerializer):
    rollout = GuardSerializer()


class RollbackSerializer(StrictSerializer):
    revision = WholeNumberField(min_value=1, max_value=2**31 - 1, required=False, allow_null=True)
    rollout = RolloutSerializer(required=False, allow_null=True)


class EndpointApi(detail_api.OfKind):
    kind = KIND

    spec_key = "endpoint_id"

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[EndpointRevision]:
        return EndpointRevision.objects.filter(
            endpoint__workload__in=workloads, number=F("endpoint__revision")
        )

    def endpoint(self, request: Any, public_id: UUID) -> Endpoint:
        """The endpoint with its workload, or NotFound, which is also what a stranger is told."""
        workload = self.find(request.user, public_id)
        return Endpoint.objects.select_related("workload__team", "workload__flavor").get(workload=workload)

    def revision(self, endpoint: Endpoint, number: int) -> EndpointRevision:
        found = endpoint.revisions.select_related("endpoint").filter(number=number).first()
        if found is None:
            raise NotFound(f"There is no revision {number}.")
        return found


_OWN = (
    *("number", "state", "message", "cause", "returns_to", "strategy", "spec", "actor"),
    *("created_at", "started_at", "live_at", "failed_at", "load_seconds"),
)


def describe_revision(revision: EndpointRevision, endpoint: Endpoint) -> dict[str, Any]:
    return {
        **{name: getattr(revision, name) for name in _OWN},
        "progress": {"updated": revision.updated, "ready": revision.ready, "total": revision.total},
        "current": revision.number == endpoint.revision,
        "stable": revision.number == endpoint.stable_revision,
    }


def describe_effects(changes: Sequence[SpecChange], effects: Effects) -> dict[str, Any]:
    """What changes, and what that does to money and quota, as REST and pages show it."""
    rates = {
        name: {"at_min": as_json(money.at_min), "at_max": as_json(money.at_max)}
        for name, money in (("before", effects.before), ("after", effects.after))
    }
    return {
        "changes": [
            {"field": each.field, "before": each.before, "after": each.after, "effect": each.effect.value}
            for each in changes
        ],
        "rate_per_hour": rates,
        "units": {
            "before": effects.units_before,
            "after": effects.units_after,
            "surge": effects.surge,
        },
        "quota": {"before": effects.quota_before, "after": effects.quota_after},
    }


def describe_guard(guarded: Guarded) -> dict[str, Any]:
    verdict = "blocked" if guarded.blocked else "wait" if guarded.waits else "go"
    return {
        "verdict": verdict,
        "message": " ".join(guarded.blocked) or guarded.message,
        "strategy": guarded.strategy,
        "surge_units": guarded.surge_units,
        "downtime_seconds": guarded.downtime_seconds,
        "options": [option.to_json() for option in guarded.options],
    }


class EndpointRevisionsView(EndpointApi):
    """Every version of the spec, newest first, with how far it came."""

    serializer_class = RevisionSerializer
    ordering = "-id"

    @extend_schema(responses=RevisionSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        endpoint = self.endpoint(request, public_id)
        page = self.paginate_queryset(self.filter_queryset(endpoint.revisions.all()))
        shapes = [describe_revision(each, endpoint) for each in page or []]
        return self.get_paginated_response(list(RevisionSerializer(shapes, many=True).data))


class EndpointRevisionView(EndpointApi):
    @extend_schema(responses=RevisionSerializer)
    def get(self, request: Any, public_id: UUID, number: int) -> Response:
        """One version of the spec, with how far it came."""
        endpoint = self.endpoint(request, public_id)
        shape = describe_revision(self.revision(endpoint, number), endpoint)
        return Response(RevisionSerializer(shape).data)


class EndpointRevisionDiffView(EndpointApi):
    @extend_schema(
        responses=DiffSerializer,
        parameters=[
            OpenApiParameter("against", OpenApiTypes.INT, description="By default the one before it.")
        ],
    )
    def get(self, request: Any, public_id: UUID, number: int) -> Response:
        """What a revision changes against another one, with its effect on money and quota."""
        endpoint = self.endpoint(request, public_id)
        revision = self.revision(endpoint, number)
        asked = one(request, "against")
        other = self.revision(endpoint, _number(asked) if asked else max(1, number - 1))
        changes = changes_between(other.spec, revision.spec)
        effects = effects_of(endpoint, other.parsed, revision.parsed, surge=0, now=clock.now())
        shape = {
            "revision": number,
            "against": other.number,
            **describe_effects(changes, effects),
        }
        return Response(DiffSerializer(shape).data)


def _number(text: str) -> int:
    """NotFound for what is the number of no revision."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFound(f"There is no revision {text[:20]}.")
    return int(text)


class EndpointRevisionPreviewView(EndpointApi):
    @extend_schema(request=EndpointSerializer, responses=RevisionPreviewSerializer)
    def post(self, request: Any, public_id: UUID) -> Response:
        """What a PATCH with this body would do now: the fields, money, quota, and whether its rollout has room."""
        endpoint = self.endpoint(request, public_id)
        current, now = endpoint.current, clock.now()
        body = changed_request(request.data, current=current.spec, team=endpoint.workload.team.slug)
        planned = preview_update(endpoint=endpoint, spec=body.to_spec(), user=request.user, now=now)
        surge = planned.guarded.surge_units
        effects = effects_of(endpoint, current.parsed, planned.spec, surge=surge, now=now)
        shape = {
            "revision": None,
            "against": current.number,
            **describe_effects(planned.changes, effects),
            "rollout": describe_guard(planned.guarded),
        }
        return Response(RevisionPreviewSerializer(shape).data)


class EndpointRollbackView(EndpointApi):
    @extend_schema(request=RollbackSerializer, responses={202: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Go back to an older revision, by default the last that was ready before the current one.

        It becomes a new revision; how many replicas there are stays as it is. 409 `rollout_blocked` as for a change.
        """
        endpoint = self.endpoint(request, public_id)
        body = RollbackSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        roll_back(
            endpoint=endpoint,
            number=body.validated_data.get("revision"),
            rollout=body.validated_data.get("rollout"),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return Response(self.answer([self.find(request.user, public_id)], now=now)[0], status=202)
