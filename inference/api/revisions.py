"""REST for the revisions of endpoints: how each went, what they change, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin
from typing_extensions import override

from console.api.workloads import OfKind
from foundation import clock
from foundation.errors import NotFound
from foundation.http.query import check_query_parameters, one
from foundation.http.serializers import MoneySerializer, StrictSerializer
from inference.changes import SpecChange, changes_between
from inference.models import Endpoint, EndpointRevision
from inference.revisions.guard import Guarded, Option
from inference.revisions.services import Effects, effects_of
from inference.serializers import EndpointSerializer, RolloutSerializer, changed_request
from inference.services import preview_update
from inference.specs import KIND
from workloads.models import Workload
from workloads.podspec.fields import WholeNumberField


class RolloutProgressSerializer(serializers.Serializer[EndpointRevision]):
    updated = serializers.IntegerField(help_text="Pods of this revision.")
    ready = serializers.IntegerField()
    total = serializers.IntegerField(help_text="Replicas that were wanted.")


class RevisionSerializer(serializers.Serializer[EndpointRevision]):
    number = serializers.IntegerField()
    state = serializers.CharField(help_text="pending, rolling-out, live, failed or superseded.")
    message = serializers.CharField()
    cause = serializers.CharField(help_text="change, scale, rollback or automatic-rollback.")
    returns_to = serializers.IntegerField(allow_null=True)
    strategy = serializers.CharField(help_text="How it was or is rolled out.")
    progress = RolloutProgressSerializer(source="*")
    current = serializers.BooleanField(help_text="Whether it is the one that is wanted.", source="is_current")
    stable = serializers.BooleanField(
        help_text="Whether it is the last one that was fully ready.", source="is_stable"
    )
    spec = serializers.DictField()
    actor = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    live_at = serializers.DateTimeField(allow_null=True)
    failed_at = serializers.DateTimeField(allow_null=True)
    load_seconds = serializers.IntegerField(allow_null=True)


class ChangeSerializer(serializers.Serializer[SpecChange]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    effect = serializers.CharField(help_text="rollout, size, routing, next-rollout or fixed.")


class RateSerializer(serializers.Serializer[Any]):
    at_min = MoneySerializer(allow_null=True)
    at_max = MoneySerializer(allow_null=True)


class RatesSerializer(serializers.Serializer[Effects]):
    before = RateSerializer()
    after = RateSerializer()


class UnitsSerializer(serializers.Serializer[Effects]):
    before = serializers.IntegerField(source="units_before")
    after = serializers.IntegerField(source="units_after")
    surge = serializers.IntegerField(help_text="Claimed on top while it is rolled out.")


class RevisionQuotaSerializer(serializers.Serializer[Effects]):
    before = serializers.DictField(source="quota_before")
    after = serializers.DictField(source="quota_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What one version of the spec changes against another; `revision` None and `rollout` of one that is not made."""

    revision: int | None
    against: int
    changes: Sequence[SpecChange]
    effects: Effects
    rollout: Guarded | None = None


class DiffSerializer(serializers.Serializer[Diff]):
    revision = serializers.IntegerField(allow_null=True)
    against = serializers.IntegerField()
    changes = ChangeSerializer(many=True)
    rate_per_hour = RatesSerializer(source="effects")
    units = UnitsSerializer(source="effects")
    quota = RevisionQuotaSerializer(source="effects")


class OptionSerializer(serializers.Serializer[Option]):
    option = serializers.CharField(help_text="replace, wait or quota.", source="name")
    message = serializers.CharField()
    change = serializers.DictField(help_text="What to send along with the change to choose it.")
    downtime_seconds = serializers.IntegerField(allow_null=True)
    start = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(allow_null=True)


class GuardSerializer(serializers.Serializer[Guarded]):
    verdict = serializers.CharField(help_text="go, wait or blocked.")
    message = serializers.CharField(source="sentence")
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


class EndpointApi(OfKind):
    kind = KIND
    spec_key = "endpoint_id"

    @override
    def rows(self) -> QuerySet[Workload]:
        return super().rows().select_related("endpoint")

    @override
    def of_kind(self, workload: Workload) -> Mapping[str, Any]:
        own: Endpoint = workload.endpoint
        return {"revision": own.revision, "serving_revision": own.stable_revision}

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[EndpointRevision]:
        return EndpointRevision.objects.filter(
            endpoint__workload__in=workloads, number=F("endpoint__revision")
        )

    def endpoint(self, public_id: UUID) -> Endpoint:
        """The endpoint with its workload, or NotFound, which is also what a stranger is told."""
        workload = self.find(self.request.user, public_id)
        return Endpoint.objects.select_related("workload__team", "workload__flavor").get(workload=workload)


class RevisionViewSet(ViewSetMixin, EndpointApi):
    """`endpoints/{public_id}/revisions/`: every version of the spec, newest first, with how far it came."""

    lookup_field = "number"
    lookup_value_converter = "int"
    serializer_class = RevisionSerializer
    ordering = "-id"

    def revision(self, endpoint: Endpoint, number: int) -> EndpointRevision:
        """The version of that number. Raises NotFound."""
        revision = endpoint.revisions.select_related("endpoint").filter(number=number).first()
        if revision is None:
            raise NotFound(f"There is no revision {number}.")
        return revision

    @extend_schema(responses=RevisionSerializer(many=True))
    def list(self, request: Any, public_id: UUID) -> Response:
        """Every version of the spec, newest first, with how far it came."""
        return self.page(self.endpoint(public_id).revisions.all())

    @extend_schema(responses=RevisionSerializer)
    def retrieve(self, request: Any, public_id: UUID, number: int) -> Response:
        """One version of the spec, with how far it came."""
        check_query_parameters(request, ())
        return Response(RevisionSerializer(self.revision(self.endpoint(public_id), number)).data)

    @extend_schema(
        responses=DiffSerializer,
        parameters=[
            OpenApiParameter("against", OpenApiTypes.INT, description="By default the one before it.")
        ],
    )
    @action(detail=True)
    def diff(self, request: Any, public_id: UUID, number: int) -> Response:
        """What a revision changes against another one, with its effect on money and quota."""
        check_query_parameters(request, ("against",))
        endpoint = self.endpoint(public_id)
        revision = self.revision(endpoint, number)
        asked = one(request, "against")
        other = self.revision(endpoint, _number(asked) if asked else max(1, number - 1))
        diff = Diff(
            revision=number,
            against=other.number,
            changes=changes_between(other.spec, revision.spec),
            effects=effects_of(endpoint, other.parsed, revision.parsed, surge=0, now=clock.now()),
        )
        return Response(DiffSerializer(diff).data)

    @extend_schema(request=EndpointSerializer, responses=RevisionPreviewSerializer)
    @action(detail=False, methods=["post"])
    def preview(self, request: Any, public_id: UUID) -> Response:
        """What a PATCH with this body would do now: the fields, money, quota, and whether its rollout has room."""
        endpoint = self.endpoint(public_id)
        current, now = endpoint.current, clock.now()
        body = changed_request(request.data, current=current.spec, team=endpoint.workload.team.slug)
        planned = preview_update(endpoint=endpoint, spec=body.to_spec(), user=request.user, now=now)
        surge = planned.guarded.surge_units
        diff = Diff(
            revision=None,
            against=current.number,
            changes=planned.changes,
            effects=effects_of(endpoint, current.parsed, planned.spec, surge=surge, now=now),
            rollout=planned.guarded,
        )
        return Response(RevisionPreviewSerializer(diff).data)


def _number(text: str) -> int:
    """NotFound for what is the number of no revision."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFound(f"There is no revision {text[:20]}.")
    return int(text)
