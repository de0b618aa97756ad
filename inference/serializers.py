"""The body of an endpoint request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from typing_extensions import override

from console.api.request_serializers import ContainerSerializer, Problems
from foundation.errors import Invalid
from foundation.http.serializers import StrictSerializer
from inference import runtime_rules
from inference.grammar import cron_expression, one_query, time_zone
from inference.promql import METRIC_TYPES
from inference.runtimes import CONFIG_FOLDER, CUSTOM, RUNTIMES, TORCHSERVE
from inference.scaling_spec import (
    COOLDOWN_SECONDS_MAX,
    QUERY_LENGTH_MAX,
    STABILIZATION_SECONDS_MAX,
    THRESHOLD_MAX,
    WINDOWS_MAX,
    scaling_problems,
)
from inference.serving_serializers import (
    ModelSerializer,
    PortsSerializer,
    ProbesSerializer,
    RuntimeOptionsSerializer,
    port_problems,
    preset_of,
    whole_number,
)
from inference.serving_spec import ModelSource
from inference.specs import CAPACITIES, HEADROOMS, STRATEGIES, WHEN_BLOCKED, EndpointSpec
from inference.triggers import TRIGGERS
from workloads.podspec.fields import (
    ChoiceLaterField,
    FlagField,
    NumberField,
    TextField,
    WholeNumberField,
)
from workloads.podspec.grammar import Fault, Mount
from workloads.podspec.specs import typed

REPLICAS_MAX = 1000
REQUEST_TIMEOUT_SECONDS_MAX = 3600
RATE_MIN = 0.01
RATE_MAX = 100_000
BURST_MAX = 100_000
DOWNTIME_SECONDS_MAX = 24 * 3600


class WindowSerializer(StrictSerializer):
    start = TextField(check=cron_expression)
    end = TextField(check=cron_expression)
    timezone = TextField(check=time_zone, required=False, allow_null=True)
    replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX)


class ScalingSerializer(StrictSerializer):
    trigger = serializers.ChoiceField(choices=tuple(TRIGGERS), required=False, allow_null=True)
    threshold = NumberField(min_value=0.001, max_value=THRESHOLD_MAX, required=False, allow_null=True)
    query = TextField(check=one_query, max_length=QUERY_LENGTH_MAX, required=False, allow_null=True)
    metric_type = serializers.ChoiceField(choices=METRIC_TYPES, required=False, allow_null=True)
    activation_threshold = NumberField(min_value=0, max_value=THRESHOLD_MAX, required=False, allow_null=True)
    schedule: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=WindowSerializer(), max_length=WINDOWS_MAX, required=False, allow_null=True
    )
    cooldown_seconds = whole_number(10, COOLDOWN_SECONDS_MAX)
    fallback_replicas = whole_number(0, REPLICAS_MAX)
    scale_up_stabilization_seconds = whole_number(0, STABILIZATION_SECONDS_MAX)
    scale_down_stabilization_seconds = whole_number(0, STABILIZATION_SECONDS_MAX)


class RolloutSerializer(StrictSerializer):
    strategy = ChoiceLaterField(now=STRATEGIES)
    max_downtime_seconds = whole_number(0, DOWNTIME_SECONDS_MAX)
    when_blocked = ChoiceLaterField(now=WHEN_BLOCKED)


class RateLimitSerializer(StrictSerializer):
    requests_per_second = NumberField(
        min_value=RATE_MIN, max_value=RATE_MAX, required=False, allow_null=True, help_text="In the long run."
    )
    burst = whole_number(1, BURST_MAX, help_text="At once; what a second allows unless given.")


class ScaleSerializer(StrictSerializer):
    """Other bounds; one that is left out stays."""

    min_replicas = whole_number(1, REPLICAS_MAX)
    max_replicas = whole_number(1, REPLICAS_MAX)


class PauseSerializer(StrictSerializer):
    replicas = whole_number(1, REPLICAS_MAX, help_text="What it is held at; left out: at whatever it has.")


class EndpointSerializer(ContainerSerializer):
    """Valid data becomes a spec by `to_spec`; whether flavor, team and claims exist is not asked here."""

    capacity = ChoiceLaterField(now=CAPACITIES)
    runtime = ChoiceLaterField(
        now=RUNTIMES,
        help_text="What the image serves with: fills in ports, probes and arguments that the request leaves out.",
    )
    runtime_options = RuntimeOptionsSerializer(required=False, allow_null=True)
    model = ModelSerializer(required=False, allow_null=True)
    ports = PortsSerializer(required=False, allow_null=True)
    probes = ProbesSerializer(required=False, allow_null=True)
    min_replicas = whole_number(1, REPLICAS_MAX)
    max_replicas = whole_number(1, REPLICAS_MAX)
    rollout = RolloutSerializer(required=False, allow_null=True)
    request_timeout_seconds = whole_number(1, REQUEST_TIMEOUT_SECONDS_MAX)
    headroom = ChoiceLaterField(now=HEADROOMS)
    scale_to_zero = FlagField(required=False, allow_null=True)
    scaling = ScalingSerializer(required=False, allow_null=True)
    rate_limit = RateLimitSerializer(required=False, allow_null=True)

    @override
    def to_spec(self) -> EndpointSpec:
        return EndpointSpec.from_json(self.validated_data)

    @override
    def mounts(self, body: Mapping[str, Any]) -> Iterable[Mount]:
        yield from super().mounts(body)
        model = ModelSource.from_json(body.get("model"), preset_of(body))
        if model is not None and model.brought:
            yield Mount("model.path", model.path, sealed=False)
        if body.get("runtime") == TORCHSERVE:
            yield Mount("runtime", CONFIG_FOLDER, sealed=True)

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        return [
            *super().problems(body),
            *_replica_problems(body),
            *port_problems(body),
            *_rate_problems(body),
            *runtime_rules.problems(body, preset_of(body)),
        ]


def changed_request(sent: Any, *, current: Mapping[str, Any], team: str) -> EndpointSerializer:
    """The valid body of an endpoint with the fields that were sent in the place of its current ones.

    Raises Invalid naming the field, also for what no change may touch.
    """
    if not isinstance(sent, Mapping):
        raise Invalid.of_field("", "The body is an object of the fields to change.")
    body = EndpointSerializer(data={"team": team, **typed(current), **sent})
    body.is_valid(raise_exception=True)
    if body.validated_data["team"] != team:
        raise Invalid.of_field("team", "An endpoint stays with its team.", code="read_only")
    if body.replaced_id is not None:
        message = "Only a new endpoint can replace one that waits."
        raise Invalid.of_field("replaces", message, code="read_only")
    return body


def _replica_problems(body: Mapping[str, Any]) -> Problems:
    least = body.get("min_replicas") or 1
    problems = scaling_problems(
        body.get("scaling"),
        runtime=body.get("runtime") or CUSTOM,
        minimum=least,
        maximum=body.get("max_replicas") or least,
        to_zero=bool(body.get("scale_to_zero")),
        has_gpus=bool(body.get("gpus_per_replica")),
    )
    return list(problems)


def _rate_problems(body: Mapping[str, Any]) -> Problems:
    limit = body.get("rate_limit") or {}
    if limit.get("burst") is None or limit.get("requests_per_second") is not None:
        return []
    return [("rate_limit.requests_per_second", Fault("required", "Say how many a second, beside the burst."))]
