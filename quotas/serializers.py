"""Bodies and answers of quotas."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.http.serializers import StrictSerializer
from quotas.models import Quota
from quotas.services import NOMINAL_MAX
from workloads.models import CapacityType


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    id = serializers.UUIDField(source="public_id")
    team = serializers.CharField(source="team.slug")
    flavor = serializers.CharField(source="flavor.name")
    capacity = serializers.CharField(source="capacity_type")
    available = serializers.IntegerField(help_text="Negative after a cut below use.")

    class Meta:
        model = Quota
        fields = ["id", "team", "flavor", "capacity", "nominal", "used", "available"]


class QuotaWriteSerializer(StrictSerializer):
    flavor = serializers.CharField(max_length=63)
    capacity = serializers.ChoiceField(choices=CapacityType.choices, default=CapacityType.ON_DEMAND)
    nominal = serializers.IntegerField(min_value=0, max_value=NOMINAL_MAX)
    reason = serializers.CharField(max_length=1000)


class QuotaChangeSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    team = serializers.CharField(source="team_slug")
    flavor = serializers.CharField(source="flavor_name")
    capacity = serializers.CharField(source="capacity_type")
    old_nominal = serializers.IntegerField(allow_null=True)
    new_nominal = serializers.IntegerField(allow_null=True)
    actor = serializers.CharField()
    reason = serializers.CharField()


class UsageSerializer(serializers.Serializer[Any]):
    """What one live workload of a team holds."""

    workload = serializers.UUIDField(source="workload.public_id")
    kind = serializers.CharField(source="workload.kind")
    name = serializers.CharField(source="workload.name")
    owner = serializers.CharField(source="workload.owner.username")
    phase = serializers.CharField(source="workload.phase")
    flavor = serializers.CharField(source="quota.flavor.name")
    capacity = serializers.CharField(source="quota.capacity_type")
    units = serializers.IntegerField()
    state = serializers.CharField()
    reserved_at = serializers.DateTimeField()
