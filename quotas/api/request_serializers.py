"""Bodies about quotas, cohorts, changes of them and requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from typing_extensions import override

from foundation.http.serializers import StrictSerializer
from quotas.ceilings import CEILING_MAX
from quotas.checks import LIMITS, NOMINAL_MAX, TIME_LIMIT_MAX
from quotas.limits import WEIGHT_MAX
from quotas.models import TeamPolicy
from workloads.models import CapacityType

CHANGES_MAX = 500


def limits_of(values: Mapping[str, Any]) -> dict[str, int | None]:
    """The limits that a body names."""
    return {name: values[name] for name in LIMITS if name in values}


class LimitsSerializer(StrictSerializer):
    """Some limits of one team, flavor and capacity type; what is left out stays as it is."""

    flavor = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    nominal = serializers.IntegerField(
        min_value=0, max_value=NOMINAL_MAX, required=False, help_text="Needed where there is no quota yet."
    )
    borrowing_limit = serializers.IntegerField(
        min_value=0, max_value=NOMINAL_MAX, required=False, allow_null=True
    )
    lending_limit = serializers.IntegerField(
        min_value=0, max_value=NOMINAL_MAX, required=False, allow_null=True
    )
    user_limit = serializers.IntegerField(min_value=0, max_value=NOMINAL_MAX, required=False, allow_null=True)
    max_time_limit_seconds = serializers.IntegerField(
        min_value=1, max_value=TIME_LIMIT_MAX, required=False, allow_null=True
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not limits_of(attrs):
            message = f"Name at least one of {', '.join(LIMITS)}."
            raise serializers.ValidationError({"nominal": [ErrorDetail(message, code="required")]})
        return attrs


class QuotaWriteSerializer(LimitsSerializer):
    reason = serializers.CharField(max_length=1000)


class PolicySerializer(StrictSerializer):
    """A team's own rules of admission; what is left out stays as it is."""

    weight = serializers.IntegerField(
        min_value=1, max_value=WEIGHT_MAX, required=False, help_text="Share of what is contended."
    )
    high_priority = serializers.ChoiceField(
        choices=TeamPolicy.PriorityRight.choices,
        required=False,
        help_text="Who may submit with priority high.",
    )
    shows_name = serializers.BooleanField(
        required=False, help_text="Whether other teams see its name in their waiting cards."
    )
    may_reserve_headroom = serializers.BooleanField(
        required=False, help_text="Whether its endpoints may keep what they claim for growth to themselves."
    )
    ceiling_cpus = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="CPU cores that it may hold; null for the platform's ceiling.",
    )
    ceiling_memory_gib = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="GiB of memory that it may hold; null for the platform's ceiling.",
    )
    ceiling_ephemeral_storage_gib = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="GiB of ephemeral storage that it may hold; null for the platform's ceiling.",
    )
    ceiling_pods = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="Pods that it may hold; null for the platform's ceiling.",
    )
    ceiling_volumes = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="Volumes that it may have; null for the platform's ceiling.",
    )
    ceiling_volume_storage_gib = serializers.IntegerField(
        min_value=0,
        max_value=CEILING_MAX,
        required=False,
        allow_null=True,
        help_text="GiB that its volumes may have together; null for the platform's ceiling.",
    )


class ReasonSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=1000, help_text="Kept, and shown to who asks.")


class CohortCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63)
    # The metaclass takes declared fields off the class, so DRF's own attribute of this name stays what it is.
    parent = serializers.CharField(  # type: ignore[assignment]
        max_length=63, required=False, allow_null=True
    )


class CohortUpdateSerializer(StrictSerializer):
    name = serializers.CharField(read_only=True)
    parent = serializers.CharField(  # type: ignore[assignment] # as above
        max_length=63, allow_null=True, required=False, help_text="Null for a cohort of its own."
    )


class CohortLimitsWriteSerializer(StrictSerializer):
    """What is left out stays as it is; null is no limit."""

    flavor = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    borrowing_limit = serializers.IntegerField(
        min_value=0, max_value=NOMINAL_MAX, required=False, allow_null=True
    )
    lending_limit = serializers.IntegerField(
        min_value=0, max_value=NOMINAL_MAX, required=False, allow_null=True
    )
    reason = serializers.CharField(max_length=1000)


class QuotaRequestWriteSerializer(StrictSerializer):
    team = serializers.CharField(max_length=40)
    flavor = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    units = serializers.IntegerField(
        min_value=1, max_value=NOMINAL_MAX, help_text="On top of the nominal quota."
    )
    until = serializers.DateTimeField(help_text="When it returns by itself.")
    reason = serializers.CharField(max_length=1000)


class CommentSerializer(StrictSerializer):
    comment = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")


class LimitChangeSerializer(LimitsSerializer):
    team = serializers.CharField(max_length=40)


class ChangeSetPreviewSerializer(StrictSerializer):
    changes: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=LimitChangeSerializer(), allow_empty=False, max_length=CHANGES_MAX
    )
    reason = serializers.CharField(max_length=1000, required=False)
    evicts = serializers.BooleanField(
        default=False, help_text="Whether preemptible runs above the new limits have to leave."
    )


class ChangeSetWriteSerializer(ChangeSetPreviewSerializer):
    reason = serializers.CharField(max_length=1000, help_text="Kept in the history.")
