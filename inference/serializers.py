"""The body of an endpoint request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from typing_extensions import override

from console.api.request_serializers import GPUS_MAX, ContainerSerializer, Problems
from foundation.errors import Invalid
from foundation.http.serializers import StrictSerializer
from inference import runtime_rules
from inference.grammar import cron_expression, one_query, time_zone
from inference.promql import METRIC_TYPES
from inference.runtimes import CONFIG_FOLDER, CUSTOM, PRESETS, RUNTIMES, TORCHSERVE, ServerPreset
from inference.scaling_spec import (
    COOLDOWN_SECONDS_MAX,
    QUERY_LENGTH_MAX,
    STABILIZATION_SECONDS_MAX,
    THRESHOLD_MAX,
    WINDOWS_MAX,
    scaling_problems,
)
from inference.specs import (
    CAPACITIES,
    HEADROOMS,
    STRATEGIES,
    WHEN_BLOCKED,
    EndpointSpec,
    ModelSource,
    Ports,
)
from inference.triggers import TRIGGERS
from workloads.podspec import fields, grammar
from workloads.podspec.fields import (
    ChoiceLaterField,
    FlagField,
    NumberField,
    QuantityField,
    TextField,
    TextListField,
    WholeNumberField,
)
from workloads.podspec.grammar import Fault, Mount
from workloads.podspec.specs import typed

REPLICAS_MAX = 1000
LOAD_BUDGET_SECONDS_MAX = 2 * 3600
REQUEST_TIMEOUT_SECONDS_MAX = 3600
RATE_MIN = 0.01
RATE_MAX = 100_000
BURST_MAX = 100_000
DOWNTIME_SECONDS_MAX = 24 * 3600


def _whole(least: int, most: int, **more: Any) -> WholeNumberField:
    """A whole number that may be left out."""
    return WholeNumberField(min_value=least, max_value=most, required=False, allow_null=True, **more)


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
    cooldown_seconds = _whole(10, COOLDOWN_SECONDS_MAX)
    fallback_replicas = _whole(0, REPLICAS_MAX)
    scale_up_stabilization_seconds = _whole(0, STABILIZATION_SECONDS_MAX)
    scale_down_stabilization_seconds = _whole(0, STABILIZATION_SECONDS_MAX)


def _port() -> WholeNumberField:
    return _whole(1, 65535)


class PortsSerializer(StrictSerializer):
    http = _port()
    grpc = _port()
    metrics = _port()


class ProbeSerializer(StrictSerializer):
    path = TextField(check=grammar.url_path, required=False, allow_null=True)
    initial_delay_seconds = _whole(0, 3600)
    period_seconds = _whole(1, 600)
    failure_threshold = _whole(1, 100)


class ProbesSerializer(StrictSerializer):
    readiness = ProbeSerializer(required=False, allow_null=True)
    liveness = ProbeSerializer(required=False, allow_null=True)
    load_budget_seconds = _whole(10, LOAD_BUDGET_SECONDS_MAX)


class ModelSerializer(StrictSerializer):
    claim = TextField(check=grammar.object_name, required=False, allow_null=True)
    uri = TextField(
        check=grammar.model_uri,
        required=False,
        allow_null=True,
        help_text="Instead of a claim: s3://, gs://, https:// or hf://, fetched before the server starts.",
    )
    path = TextField(
        check=grammar.mount_path,
        required=False,
        allow_null=True,
        help_text="Where the server finds the model: of a claim or an address, where it is mounted.",
    )
    secret = TextField(
        check=grammar.object_name,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="For `uri`: a secret of the team whose keys are the variables that such a store asks for.",
    )
    size_limit = QuantityField(
        least=fields.MEMORY_BYTES_MIN,
        most=fields.STORAGE_BYTES_MAX,
        help_text="How much of the node's disk what is fetched from `uri` may take; 50Gi where it is left out.",
    )


class RuntimeOptionsSerializer(StrictSerializer):
    """Which of these a runtime takes is its own; another one's is refused by name."""

    models = TextListField(
        child=TextField(check=grammar.served_model),
        max_length=runtime_rules.MODELS_MAX,
        help_text="Which models of the folder: Triton's folders, TorchServe's archives (`name=file.mar`), vLLM's one.",
    )
    batch_size = _whole(
        1,
        65536,
        help_text="Requests that are computed together, at most: of TorchServe, and of vLLM (`--max-num-seqs`).",
    )
    max_batch_delay_ms = _whole(1, 600_000, help_text="How long TorchServe waits for a batch to fill.")
    model_version = TextField(
        check=grammar.model_word,
        required=False,
        allow_null=True,
        help_text="Version that TorchServe's archives were made with, for which batching is set; 1.0 by default.",
    )
    max_model_len = _whole(
        1, 100_000_000, help_text="Tokens of prompt and answer together, at most, of vLLM."
    )
    gpu_memory_utilization = NumberField(
        min_value=0.01,
        max_value=1,
        required=False,
        allow_null=True,
        help_text="Part of the card's memory that vLLM takes; 0.9 by default, also of a card that others share.",
    )
    tensor_parallel_size = _whole(
        1, GPUS_MAX, help_text="GPUs over which vLLM spreads the model; all of the pod by default."
    )
    served_model_name = TextField(
        check=grammar.model_word,
        required=False,
        allow_null=True,
        help_text="What callers of vLLM name as the model.",
    )


class RolloutSerializer(StrictSerializer):
    strategy = ChoiceLaterField(now=STRATEGIES)
    max_downtime_seconds = _whole(0, DOWNTIME_SECONDS_MAX)
    when_blocked = ChoiceLaterField(now=WHEN_BLOCKED)


class RateLimitSerializer(StrictSerializer):
    requests_per_second = NumberField(
        min_value=RATE_MIN, max_value=RATE_MAX, required=False, allow_null=True, help_text="In the long run."
    )
    burst = _whole(1, BURST_MAX, help_text="At once; what a second allows unless given.")


class ScaleSerializer(StrictSerializer):
    """Other bounds; one that is left out stays."""

    min_replicas = _whole(1, REPLICAS_MAX)
    max_replicas = _whole(1, REPLICAS_MAX)


class PauseSerializer(StrictSerializer):
    replicas = _whole(1, REPLICAS_MAX, help_text="What it is held at; left out: at whatever it has.")


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
    min_replicas = _whole(1, REPLICAS_MAX)
    max_replicas = _whole(1, REPLICAS_MAX)
    rollout = RolloutSerializer(required=False, allow_null=True)
    request_timeout_seconds = _whole(1, REQUEST_TIMEOUT_SECONDS_MAX)
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
        model = ModelSource.from_json(body.get("model"), _preset(body))
        if model is not None and model.brought:
            yield Mount("model.path", model.path, sealed=False)
        if body.get("runtime") == TORCHSERVE:
            yield Mount("runtime", CONFIG_FOLDER, sealed=True)

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        return [
            *super().problems(body),
            *_replica_problems(body),
            *_port_problems(body),
            *_rate_problems(body),
            *runtime_rules.problems(body, _preset(body)),
        ]


def _preset(body: Mapping[str, Any]) -> ServerPreset:
    return PRESETS[body.get("runtime") or CUSTOM]


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


def _port_problems(body: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    taken: dict[int, str] = {}
    for name, port in Ports.from_json(body.get("ports"), _preset(body)).named().items():
        if port in taken:
            problems.append((f"ports.{name}", Fault("duplicate", f"Port {port} is already {taken[port]}.")))
        taken.setdefault(port, name)
    return problems
