"""The body of an endpoint request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from controller import grammar
from controller.fields import ChoiceLaterField, NotYetField, TextField, WholeNumberField
from controller.grammar import Fault, Mount
from controller.serializers import ContainerSerializer, Problems
from foundation.http.serializers import StrictSerializer
from inference.specs import (
    RUNTIME_CUSTOM,
    RUNTIMES_LATER,
    STRATEGIES,
    WHEN_BLOCKED,
    EndpointSpec,
    ModelSource,
    Ports,
)

REPLICAS_MAX = 1000
LOAD_BUDGET_SECONDS_MAX = 2 * 3600
REQUEST_TIMEOUT_SECONDS_MAX = 3600
DOWNTIME_SECONDS_MAX = 24 * 3600


def _port() -> WholeNumberField:
    return WholeNumberField(min_value=1, max_value=65535, required=False, allow_null=True)


class PortsSerializer(StrictSerializer):
    http = _port()
    grpc = _port()
    metrics = _port()


class ProbeSerializer(StrictSerializer):
    path = TextField(check=grammar.url_path, required=False, allow_null=True)
    initial_delay_seconds = WholeNumberField(min_value=0, max_value=3600, required=False, allow_null=True)
    period_seconds = WholeNumberField(min_value=1, max_value=600, required=False, allow_null=True)
    failure_threshold = WholeNumberField(min_value=1, max_value=100, required=False, allow_null=True)


class ProbesSerializer(StrictSerializer):
    readiness = ProbeSerializer(required=False, allow_null=True)
    liveness = ProbeSerializer(required=False, allow_null=True)
    load_budget_seconds = WholeNumberField(
        min_value=10, max_value=LOAD_BUDGET_SECONDS_MAX, required=False, allow_null=True
    )


class ModelSerializer(StrictSerializer):
    claim = TextField(check=grammar.object_name, required=False, allow_null=True)
    path = TextField(check=grammar.mount_path, required=False, allow_null=True)
    uri = NotYetField()


class RolloutSerializer(StrictSerializer):
    strategy = ChoiceLaterField(now=STRATEGIES)
    max_downtime_seconds = WholeNumberField(
        min_value=0, max_value=DOWNTIME_SECONDS_MAX, required=False, allow_null=True
    )
    when_blocked = ChoiceLaterField(now=WHEN_BLOCKED)


class EndpointSerializer(ContainerSerializer):
    """Valid data becomes a spec by `to_spec`; whether flavor, team and claims exist is not asked here."""

    runtime = ChoiceLaterField(now=(RUNTIME_CUSTOM,), later=RUNTIMES_LATER)
    model = ModelSerializer(required=False, allow_null=True)
    ports = PortsSerializer(required=False, allow_null=True)
    probes = ProbesSerializer(required=False, allow_null=True)
    min_replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX, required=False, allow_null=True)
    max_replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX, required=False, allow_null=True)
    rollout = RolloutSerializer(required=False, allow_null=True)
    request_timeout_seconds = WholeNumberField(
        min_value=1, max_value=REQUEST_TIMEOUT_SECONDS_MAX, required=False, allow_null=True
    )
    runtime_options = NotYetField()
    headroom = NotYetField("lendable")
    scale_to_zero = NotYetField(False)
    scaling = NotYetField()
    rate_limit = NotYetField()

    def to_spec(self) -> EndpointSpec:
        """The request as a spec; call after `is_valid`."""
        return EndpointSpec.from_json(self.validated_data)

    @override
    def mounts(self, body: Mapping[str, Any]) -> Iterable[Mount]:
        yield from super().mounts(body)
        model = ModelSource.from_json(body.get("model"))
        if model is not None:
            yield Mount("model.path", model.path, sealed=False)

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        return [*super().problems(body), *_replica_problems(body), *_port_problems(body)]


def _replica_problems(body: Mapping[str, Any]) -> Problems:
    least = body.get("min_replicas") or 1
    most = body.get("max_replicas") or least
    if most < least:
        message = f"max_replicas is {most}, below min_replicas, which is {least}."
        return [("max_replicas", Fault("below_min_replicas", message))]
    if most > least:
        message = "Endpoints do not scale by themselves yet: give max_replicas the value of min_replicas."
        return [("max_replicas", Fault("not_yet_supported", message))]
    return []


def _port_problems(body: Mapping[str, Any]) -> Problems:
    found: Problems = []
    taken: dict[int, str] = {}
    for name, port in Ports.from_json(body.get("ports")).named().items():
        if port in taken:
            found.append((f"ports.{name}", Fault("duplicate", f"Port {port} is already {taken[port]}.")))
        taken.setdefault(port, name)
    return found
