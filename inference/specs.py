"""What an inference endpoint asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from controller import specs as shared
from controller.specs import ClaimUse, ContainerSpec, Json, value_of

RUNTIME_CUSTOM = "custom"
RUNTIMES_LATER = ("triton", "torchserve", "vllm")
SURGE = "surge"
REPLACE = "replace"
STRATEGIES = (SURGE, REPLACE)
WHEN_REFUSE = "refuse"
WHEN_WAIT = "wait"
WHEN_REPLACE = "replace"
WHEN_BLOCKED = (WHEN_REFUSE, WHEN_WAIT, WHEN_REPLACE)
SIZE_FIELDS = ("min_replicas", "max_replicas", "headroom", "scale_to_zero", "scaling")
"""How many pods there are: they may change without any pod becoming another one, and no rollback takes them back."""
DEFAULT_HTTP_PORT = 8080
DEFAULT_LOAD_BUDGET_SECONDS = 600
DEFAULT_REQUEST_TIMEOUT_SECONDS = 60

NOT_YET_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    **shared.NOT_YET_SUPPORTED,
    "runtime": (RUNTIME_CUSTOM,),
    "capacity": shared.CAPACITY_TYPES,
    "runtime_options": (),
    "model.uri": (),
    "headroom": ("lendable",),
    "scale_to_zero": (False,),
    "scaling": (),
    "rate_limit": (),
}


@dataclass(frozen=True, slots=True)
class Ports:
    http: int = DEFAULT_HTTP_PORT
    grpc: int | None = None
    metrics: int | None = None

    @classmethod
    def from_json(cls, value: Json | None) -> Ports:
        body = value or {}
        return cls(value_of(body, "http", DEFAULT_HTTP_PORT), body.get("grpc"), body.get("metrics"))

    def to_json(self) -> dict[str, Any]:
        return {"http": self.http, "grpc": self.grpc, "metrics": self.metrics}

    def named(self) -> dict[str, int]:
        """The ports that are served, by their name in the pod and the Service."""
        return {name: port for name, port in self.to_json().items() if port is not None}


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """`path` None asks only whether the HTTP port takes connections."""

    path: str | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    failure_threshold: int = 3

    @classmethod
    def from_json(cls, body: Json) -> ProbeSpec:
        return cls(
            path=body.get("path"),
            initial_delay_seconds=value_of(body, "initial_delay_seconds", 0),
            period_seconds=value_of(body, "period_seconds", 10),
            failure_threshold=value_of(body, "failure_threshold", 3),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "initial_delay_seconds": self.initial_delay_seconds,
            "period_seconds": self.period_seconds,
            "failure_threshold": self.failure_threshold,
        }


@dataclass(frozen=True, slots=True)
class Probes:
    readiness: ProbeSpec = ProbeSpec()
    liveness: ProbeSpec | None = None
    """None: a container that still runs counts as alive."""
    load_budget_seconds: int = DEFAULT_LOAD_BUDGET_SECONDS
    """How long the container may take from its start until it is ready for the first time."""

    @classmethod
    def from_json(cls, value: Json | None) -> Probes:
        body = value or {}
        liveness = body.get("liveness")
        return cls(
            readiness=ProbeSpec.from_json(body.get("readiness") or {}),
            liveness=ProbeSpec.from_json(liveness) if liveness else None,
            load_budget_seconds=value_of(body, "load_budget_seconds", DEFAULT_LOAD_BUDGET_SECONDS),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "readiness": self.readiness.to_json(),
            "liveness": self.liveness.to_json() if self.liveness else None,
            "load_budget_seconds": self.load_budget_seconds,
        }


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The claim that holds the model, mounted read-only at `path`."""

    claim: str
    path: str = "/models"

    @classmethod
    def from_json(cls, value: Json | None) -> ModelSource | None:
        """None where no claim is given."""
        if not value or not value.get("claim"):
            return None
        return cls(value["claim"], value.get("path") or "/models")

    def to_json(self) -> dict[str, Any]:
        return {"claim": self.claim, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec(ContainerSpec):
    """An endpoint with a fixed number of replicas."""

    runtime: str = RUNTIME_CUSTOM
    model: ModelSource | None = None
    ports: Ports = Ports()
    probes: Probes = Probes()
    min_replicas: int = 1
    max_replicas: int = 1
    """Equal to `min_replicas` until there is a scaler."""
    strategy: str = SURGE
    max_downtime_seconds: int = 0
    """How long no replica may answer while pods are replaced in place; 0 where nobody has said."""
    when_blocked: str = WHEN_REFUSE
    """What becomes of a revision for whose surge there is no room."""
    request_timeout_seconds: int = DEFAULT_REQUEST_TIMEOUT_SECONDS

    @property
    @override
    def pods_at_once(self) -> int:
        return self.max_replicas

    @override
    def claim_uses(self) -> list[ClaimUse]:
        uses = ContainerSpec.claim_uses(self)
        return [*uses, ClaimUse("model", self.model.claim, read_only=True)] if self.model else uses

    @classmethod
    def from_json(cls, body: Json) -> EndpointSpec:
        """The spec of a body that `EndpointSerializer` has checked, or of `to_json`.

        Raises Invalid for a field that is not supported yet, and ignores fields it does not know.
        """
        minimum = value_of(body, "min_replicas", 1)
        rollout = body.get("rollout") or {}
        table = {**NOT_YET_SUPPORTED, "max_replicas": (minimum,)}
        shared.refuse_not_yet_supported(body, table)
        return cls(
            **shared.container_fields(body),
            runtime=value_of(body, "runtime", RUNTIME_CUSTOM),
            model=ModelSource.from_json(body.get("model")),
            ports=Ports.from_json(body.get("ports")),
            probes=Probes.from_json(body.get("probes")),
            min_replicas=minimum,
            max_replicas=value_of(body, "max_replicas", minimum),
            strategy=value_of(rollout, "strategy", SURGE),
            max_downtime_seconds=value_of(rollout, "max_downtime_seconds", 0),
            when_blocked=value_of(rollout, "when_blocked", WHEN_REFUSE),
            request_timeout_seconds=value_of(
                body, "request_timeout_seconds", DEFAULT_REQUEST_TIMEOUT_SECONDS
            ),
        )

    @override
    def to_json(self) -> dict[str, Any]:
        return {
            **ContainerSpec.to_json(self),
            "runtime": self.runtime,
            "model": self.model.to_json() if self.model else None,
            "ports": self.ports.to_json(),
            "probes": self.probes.to_json(),
            "min_replicas": self.min_replicas,
            "max_replicas": self.max_replicas,
            "rollout": {
                "strategy": self.strategy,
                "max_downtime_seconds": self.max_downtime_seconds,
                "when_blocked": self.when_blocked,
            },
            "request_timeout_seconds": self.request_timeout_seconds,
        }
