"""REST: one command on all workloads that fit the filters of their list, and its preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response
from typing_extensions import override

from console.api.list_filters import LIST_FILTERS, search_in
from console.api.workloads import WorkloadViewSet
from console.bulk import ROWS_MAX, BulkAction, BulkCommand, carry_out, preview
from foundation import clock
from foundation.http.filters import MANY_MAX, Filter, condition_on
from foundation.http.idempotency import idempotent
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PART
from teams.permissions import searched_teams
from workloads.models import Workload
from workloads.podspec import fields, grammar
from workloads.podspec.grammar import Fault
from workloads.states import Phase


class FilterField(serializers.Field[Any, Any, Any, Any]):
    """The values of one filter of a list, as its parameter parses them."""

    declared: Filter

    @override
    def to_internal_value(self, data: Any) -> list[Any]:
        values = data if self.declared.many else [data]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise serializers.ValidationError(
                "Give a list of texts." if self.declared.many else "Give a text.", code="invalid"
            )
        if not 1 <= len(values) <= MANY_MAX:
            raise serializers.ValidationError(f"Give 1 to {MANY_MAX} values.", code="invalid")
        try:
            return [self.declared.parse(value) for value in values]
        except ValueError as error:
            raise serializers.ValidationError(f"It {error}", code="invalid") from error


def filter_field(declared: Filter) -> FilterField:
    """The field of a body for a filter of a list: a list of texts where its parameter takes several, otherwise one."""
    schema = dict(declared.schema)
    if declared.many:
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": MANY_MAX}

    @extend_schema_field({**schema, "description": declared.description})
    class OfFilter(FilterField):
        pass

    OfFilter.declared = declared
    return OfFilter(required=False)


class BulkFilterSerializer(StrictSerializer):
    """The filters of the list, at least one."""

    filters: Mapping[str, Filter] = LIST_FILTERS

    @override
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {name: filter_field(declared) for name, declared in self.filters.items()}

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            message = "Name a filter: without one it would be everything of everybody."
            raise serializers.ValidationError(message, code="required")
        return attrs


def _label_or_none(key: str, value: str | None) -> Fault | None:
    return grammar.label(key, value or "")


class LabelChangesField(fields.TextMapField):
    """New values of labels by their keys; null removes one."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(check=fields.check_labels, item=_label_or_none, **kwargs)
        self.child.allow_null = True


class BulkSerializer(StrictSerializer):
    """What to do with all that fit a filter."""

    action = serializers.ChoiceField(choices=[each.value for each in BulkAction])
    filter = BulkFilterSerializer()
    labels = LabelChangesField(
        allow_null=False,
        help_text="Of the action `label`: new values by keys, null to remove one; other labels stay.",
    )
    expected = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=2**31 - 1,
        help_text="`matched` of the preview: 409 `changed` where another number fits now.",
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        labelling = attrs["action"] == BulkAction.LABEL
        if labelling and not attrs.get("labels"):
            raise serializers.ValidationError({"labels": "Say which labels."}, code="required")
        if not labelling and "labels" in attrs:
            raise serializers.ValidationError(
                {"labels": "Only the action label has them."}, code="not_for_action"
            )
        return attrs


class BulkRowSerializer(serializers.Serializer[Workload]):
    id = serializers.UUIDField(source="public_id")
    team = serializers.CharField(source="team.slug")
    name = serializers.CharField()
    phase = serializers.ChoiceField(choices=[phase.value for phase in Phase])


class BulkResultSerializer(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=[each.value for each in BulkAction])
    matched = serializers.IntegerField(help_text="How many fit the filter, of those that the caller may see.")
    changed = serializers.IntegerField(help_text="How many of them it changes.")
    unchanged = serializers.IntegerField(
        help_text="How many have ended, are being cancelled, or have these labels already."
    )
    forbidden = serializers.IntegerField(
        help_text="How many are of teams that the caller may not submit for."
    )


class BulkPreviewSerializer(BulkResultSerializer):
    limit = serializers.IntegerField(help_text=f"How many one command changes at most: {ROWS_MAX}.")
    first = BulkRowSerializer(many=True, help_text="The newest of those that it changes.")


class BulkActions(WorkloadViewSet):
    """A kind whose runs are commanded together. One with filters of its own gives them to a `bulk_body`, in the schema too."""

    bulk_body: type[BulkSerializer] = BulkSerializer

    @extend_schema(request=BulkSerializer, responses=BulkResultSerializer)
    @action(detail=False, methods=["post"], **PART)
    @idempotent()
    def bulk(self, request: Any) -> Response:
        """Cancel or label all that fit a filter, all of them or none; 422 `too_many` beyond a thousand to change.

        What has ended meanwhile is no error, it is counted. Rows of teams that the caller may not submit for are left
        alone and counted; 403 where all are.
        """
        values = self.read(self.bulk_body)
        result = carry_out(
            command=self._command(values),
            actor=actor_of(request),
            now=clock.now(),
            expected=values.get("expected"),
        )
        return Response(BulkResultSerializer(result).data)

    @extend_schema(request=BulkSerializer, responses=BulkPreviewSerializer)
    @action(detail=False, methods=["post"], url_path="bulk/preview", url_name="bulk-preview", **PART)
    def bulk_preview(self, request: Any) -> Response:
        """How many the same body would change now, and the first few; changes nothing."""
        result = preview(command=self._command(self.read(self.bulk_body)), user=request.user)
        return Response(BulkPreviewSerializer(result).data)

    def _command(self, values: Mapping[str, Any]) -> BulkCommand:
        return BulkCommand(
            action=BulkAction(values["action"]),
            workloads=self._fitting(values["filter"]),
            labels=values.get("labels") or {},
        )

    def _fitting(self, wanted: Mapping[str, list[Any]]) -> QuerySet[Workload]:
        user = self.request.user
        searched = search_in(lambda: searched_teams(user, slugs=wanted.get("team", ())))
        filters = {**type(self).filters, **searched}
        rows = self.seen_by(user)
        for name, parsed in wanted.items():
            rows = rows.filter(condition_on(filters[name], parsed))
        return rows
