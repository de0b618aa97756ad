"""The part of an endpoint's body that says what serves: ports, probes, model and runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.api.request_serializers import GPUS_MAX, Problems
from foundation.http.serializers import StrictSerializer
from inference import runtime_rules
from inference.runtimes import CUSTOM, PRESETS, ServerPreset
from inference.serving_spec import Ports
from workloads.podspec import fields, grammar
from workloads.podspec.fields import (
    NumberField,
    QuantityField,
    TextField,
    TextListField,
    WholeNumberField,
)
from workloads.podspec.grammar import Fault

LOAD_BUDGET_SECONDS_MAX = 2 * 3600


def whole_number(least: int, most: int, **more: Any) -> WholeNumberField:
    """A whole number that may be left out."""
    return WholeNumberField(min_value=least, max_value=most, required=False, allow_null=True, **more)


def _port() -> WholeNumberField:
    return whole_number(1, 65535)


class PortsSerializer(StrictSerializer):
    http = _port()
    grpc = _port()
    metrics = _port()


class ProbeSerializer(StrictSerializer):
    path = TextField(check=grammar.url_path, required=False, allow_null=True)
    initial_delay_seconds = whole_number(0, 3600)
    period_seconds = whole_number(1, 600)
    failure_threshold = whole_number(1, 100)


class ProbesSerializer(StrictSerializer):
    readiness = ProbeSerializer(required=False, allow_null=True)
    liveness = ProbeSerializer(required=False, allow_null=True)
    load_budget_seconds = whole_number(10, LOAD_BUDGET_SECONDS_MAX)


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
    batch_size = whole_number(
        1,
        65536,
        help_text="Requests that are computed together, at most: of TorchServe, and of vLLM (`--max-num-seqs`).",
    )
    max_batch_delay_ms = whole_number(1, 600_000, help_text="How long TorchServe waits for a batch to fill.")
    model_version = TextField(
        check=grammar.model_word,
        required=False,
        allow_null=True,
        help_text="Version that TorchServe's archives were made with, for which batching is set; 1.0 by default.",
    )
    max_model_len = whole_number(
        1, 100_000_000, help_text="Tokens of prompt and answer together, at most, of vLLM."
    )
    gpu_memory_utilization = NumberField(
        min_value=0.01,
        max_value=1,
        required=False,
        allow_null=True,
        help_text="Part of the card's memory that vLLM takes; 0.9 by default, also of a card that others share.",
    )
    tensor_parallel_size = whole_number(
        1, GPUS_MAX, help_text="GPUs over which vLLM spreads the model; all of the pod by default."
    )
    served_model_name = TextField(
        check=grammar.model_word,
        required=False,
        allow_null=True,
        help_text="What callers of vLLM name as the model.",
    )


def port_problems(body: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    taken: dict[int, str] = {}
    for name, port in Ports.from_json(body.get("ports"), preset_of(body)).named().items():
        if port in taken:
            problems.append((f"ports.{name}", Fault("duplicate", f"Port {port} is already {taken[port]}.")))
        taken.setdefault(port, name)
    return problems


def preset_of(body: Mapping[str, Any]) -> ServerPreset:
    """What the runtime of the request fills in."""
    runtime: str = body.get("runtime") or CUSTOM
    return PRESETS[runtime]
