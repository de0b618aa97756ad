"""`diagnosis/` and `timeline/` of a run or an endpoint: why it failed or does not come up, and what happened when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from diagnosis.findings import Cause, Confidence, WhoActs
from diagnosis.history import history_of
from diagnosis.milestones import STEPS, Milestone
from diagnosis.queries import Diagnosis, diagnosis_of, last_that_worked
from foundation import clock
from foundation.digits import whole_number
from foundation.http.query import check_query_parameters, one, refuse
from foundation.http.serializers import TextOrNullField
from teams.api.base import PART
from workloads.models import Workload


class ProofSerializer(serializers.Serializer[Any]):
    """What shows it: a field of an object, its value and when that was so."""

    object = serializers.CharField()
    field = serializers.CharField()
    value = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)


class FindingSerializer(serializers.Serializer[Cause]):
    """One cause; `id` is the row of docs/reference/diagnosis.md."""

    id = serializers.CharField()
    title = serializers.CharField()
    message = serializers.CharField(source="words")
    confidence = serializers.ChoiceField(choices=[item.value for item in Confidence])
    who = serializers.ChoiceField(
        choices=[item.value for item in WhoActs],
        help_text="Who can put it right: who may change the request (owner), the operator of the cluster (admin), or nobody, as it passes.",
    )
    next_step = serializers.CharField(help_text="Plain text; names of fields stand between backticks.")
    repeats = serializers.BooleanField(
        help_text="Whether the same request would surely fail in the same way."
    )
    evidence = ProofSerializer(many=True)
    traceback = serializers.ListField(
        child=serializers.CharField(),
        help_text="The lines of the log from where the traceback begins up to the error; none where the log has none.",
    )
    pod = TextOrNullField()
    logs = serializers.SerializerMethodField(
        help_text="Address of the log lines around it; null where none shows it."
    )

    def get_logs(self, cause: Cause) -> str | None:
        if not cause.pod or cause.line is None:
            return None
        found: Diagnosis = self.context["diagnosis"]
        resource = found.workload.own_kind.resource_of(found.workload.public_id)
        query = {"attempt": found.attempt, "pod": cause.pod, "since": cause.line.isoformat()}
        return f"{resource}logs/?{urlencode(query)}"


class WorkedSerializer(serializers.Serializer[Workload]):
    """The last one of its name that worked, and what changed since."""

    id = serializers.UUIDField(source="public_id")
    name = serializers.CharField()
    compare = serializers.SerializerMethodField()

    def get_compare(self, worked: Workload) -> str:
        return f"/api/v1/compare/?a={worked.public_id}&b={self.context['diagnosis'].workload.public_id}"


class DiagnosisSerializer(serializers.Serializer[Diagnosis]):
    attempt = serializers.IntegerField(help_text="0 before the first.")
    verdict = FindingSerializer(allow_null=True, help_text="The first finding; null where nothing is wrong.")
    findings = FindingSerializer(many=True, source="causes")
    last_that_worked = serializers.SerializerMethodField()

    @extend_schema_field(WorkedSerializer(allow_null=True))
    def get_last_that_worked(self, found: Diagnosis) -> Any:
        worked = last_that_worked(found.workload) if found.causes else None
        return WorkedSerializer(worked, context=self.context).data if worked else None


class MilestoneSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField()
    step = serializers.ChoiceField(choices=STEPS, source="name")
    at = serializers.DateTimeField()
    seconds = serializers.SerializerMethodField(
        help_text="Until the next step; null of the last, and while it lasts."
    )
    going = serializers.BooleanField(help_text="Whether it is still at this step.")
    usual_seconds = serializers.FloatField(allow_null=True, help_text="Median of the like; null of too few.")
    samples = serializers.IntegerField()
    outlier = serializers.BooleanField(help_text="Twice as long as usual, and half a minute longer.")

    def get_seconds(self, step: Milestone) -> float | None:
        return None if step.going else step.seconds


class HistoryEntrySerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    first_at = serializers.DateTimeField()
    attempt = serializers.IntegerField()
    what = serializers.CharField(help_text="The phase that was come to, or the reason of Kubernetes' event.")
    reason = serializers.CharField()
    message = serializers.CharField()
    actor = serializers.CharField()
    object = serializers.CharField(help_text="What it was said of, or what moved it.")
    count = serializers.IntegerField()
    warning = serializers.BooleanField()
    kubernetes = serializers.BooleanField()


class TimelineSerializer(serializers.Serializer[Any]):
    steps = MilestoneSerializer(many=True)
    entries = HistoryEntrySerializer(many=True, help_text="The newest first.")


class DiagnosisActions:
    """`diagnosis/` and `timeline/` of a workload that the view set finds."""

    find: Callable[[Any, UUID], Workload]

    @extend_schema(
        summary="Why one {one} failed or does not come up",
        parameters=[OpenApiParameter("attempt", int, description="Which attempt; the newest unless given.")],
        responses=DiagnosisSerializer,
    )
    @action(detail=True, **PART)
    def diagnosis(self, request: Request, public_id: UUID) -> Response:
        """The causes with their evidence, how sure they are, and the next step; the first is the verdict. Made from what
        was kept of the cluster; nothing is asked of it.
        """
        check_query_parameters(request, ("attempt",))
        workload = self.find(request.user, public_id)
        found = diagnosis_of(workload, now=clock.now(), attempt=_attempt(request))
        return Response(DiagnosisSerializer(found, context={"diagnosis": found}).data)

    @extend_schema(summary="What happened to one {one}, and when", responses=TimelineSerializer)
    @action(detail=True, **PART)
    def timeline(self, request: Request, public_id: UUID) -> Response:
        """The steps of each attempt with their usual durations, and everything that was said of it, by whom."""
        check_query_parameters(request, ())
        workload = self.find(request.user, public_id)
        return Response(TimelineSerializer(history_of(workload, now=clock.now())).data)


def _attempt(request: Request) -> int | None:
    text = one(request, "attempt")
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        raise refuse("attempt", "must be a whole number.")
    return number
