"""Bodies and answers of flavors and nodes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from typing_extensions import override

from foundation.http.serializers import StrictSerializer
from workloads.catalogue import UNITS_MAX
from workloads.models import CapacityType, NodeRecord, ResourceFlavor
from workloads.placement import Sharing


class TolerationSerializer(StrictSerializer):
    key = serializers.CharField(max_length=316, required=False)
    operator = serializers.ChoiceField(choices=["Exists", "Equal"], required=False)
    value = serializers.CharField(max_length=63, required=False, allow_blank=True)
    effect = serializers.ChoiceField(choices=["NoSchedule", "PreferNoSchedule", "NoExecute"], required=False)
    tolerationSeconds = serializers.IntegerField(min_value=0, required=False)  # noqa: N815 (Kubernetes' word)


class ProvisionableSerializer(StrictSerializer):
    block = serializers.IntegerField(
        min_value=0, max_value=UNITS_MAX, help_text="Units that one new node brings; at most `units`."
    )
    units = serializers.IntegerField(
        min_value=0,
        max_value=UNITS_MAX,
        help_text="Units that may exist in all, those of existing nodes included.",
    )
    cpu = serializers.CharField(
        max_length=32, required=False, help_text="What one new node has of it for pods, as a quantity."
    )
    memory = serializers.CharField(max_length=32, required=False, help_text="As `cpu`.")
    ephemeral_storage = serializers.CharField(max_length=32, required=False, help_text="As `cpu`.")


class _ValueField(serializers.CharField):
    @override
    def to_internal_value(self, data: Any) -> str:
        """No label value is made of a number: `1.10` would become another one."""
        if not isinstance(data, str):
            raise serializers.ValidationError("A text is needed here.", code="invalid")
        return super().to_internal_value(data)


class _SelectorField(serializers.DictField):
    child = serializers.ListField(
        child=_ValueField(max_length=63, allow_blank=True), min_length=1, max_length=50
    )


@extend_schema_serializer(component_name="Capacity")
class DeclaredCapacitySerializer(StrictSerializer):
    node_selector = _SelectorField(required=False)
    provisionable = ProvisionableSerializer(required=False)


class CapacityMapField(serializers.DictField):
    child = DeclaredCapacitySerializer()

    @override
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Only capacity types that exist may be named."""
        values: dict[str, Any] = super().to_internal_value(data)
        unknown = sorted(set(values) - set(CapacityType.values))
        if unknown or not values:
            message = f"Name one or more of: {', '.join(CapacityType.values)}."
            raise serializers.ValidationError(message, code="invalid_choice")
        return {key: dict(value) for key, value in values.items()}


class FlavorSerializer(serializers.ModelSerializer[ResourceFlavor]):
    gpu_fraction = serializers.CharField(help_text="Exact share of one card, such as 1/7.")
    capacity = serializers.DictField(child=serializers.DictField())
    node_selector = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))
    tolerations = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = ResourceFlavor
        fields = [
            "name",
            "card",
            "resource",
            "gpu_fraction",
            "memory_gib",
            "sharing",
            "node_selector",
            "tolerations",
            "capacity",
            "enabled",
        ]


class FlavorWriteSerializer(StrictSerializer):
    name = serializers.RegexField(r"\A[a-z0-9]([-.a-z0-9]*[a-z0-9])?\Z", max_length=63)
    card = serializers.CharField(max_length=63)
    resource = serializers.RegexField(
        r"\A[a-z0-9.-]+/[A-Za-z0-9._-]+\Z", max_length=63, default="nvidia.com/gpu"
    )
    gpu_fraction = serializers.CharField(max_length=20, default="1")
    memory_gib = serializers.IntegerField(min_value=0, max_value=10_000, default=0)
    sharing = serializers.ChoiceField(
        choices=[sharing.value for sharing in Sharing], default=Sharing.NONE.value
    )
    node_selector = _SelectorField(default=dict)
    tolerations = TolerationSerializer(many=True, default=list)
    capacity = CapacityMapField()
    enabled = serializers.BooleanField(default=True)


class FlavorUpdateSerializer(FlavorWriteSerializer):
    """What is left out stays as it is; a flavor keeps its name."""

    name = serializers.CharField(read_only=True)  # type: ignore[assignment] # a RegexField is to be written


class NodeSerializer(serializers.ModelSerializer[NodeRecord]):
    allocatable = serializers.DictField(child=serializers.IntegerField())
    labels = serializers.DictField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = NodeRecord
        fields = ["name", "ready", "unschedulable", "allocatable", "labels", "taints", "created_at"]
