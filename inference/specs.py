"""What an inference endpoint asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from inference import runtimes
from inference.runtimes import CUSTOM, PRESETS, ServerPreset
from inference.scaling_spec import ScalingSpec
from inference.serving_spec import ModelSource, Ports, Probes
from workloads.podspec import model_source
from workloads.podspec import specs as shared
from workloads.podspec.specs import ClaimUse, ContainerSpec, Json, RateLimit, SecretUse, value_of

KIND = "endpoint"
SURGE = "surge"
REPLACE = "replace"
STRATEGIES = (SURGE, REPLACE)
WHEN_REFUSE = "refuse"
WHEN_WAIT = "wait"
WHEN_REPLACE = "replace"
WHEN_BLOCKED = (WHEN_REFUSE, WHEN_WAIT, WHEN_REPLACE)
SIZE_FIELDS = ("min_replicas", "max_replicas", "headroom", "scale_to_zero", "scaling")
"""How many pods there are: they may change without any pod becoming another one, and no rollback takes them back."""
CAPACITIES = (*shared.CAPACITY_TYPES, shared.SPOT_FIRST)
LENDABLE = "lendable"
RESERVED = "reserved"
HEADROOMS = (LENDABLE, RESERVED)
DRAIN_SECONDS = 5
"""How long a pod keeps serving after its deletion begins, until no proxy sends it new requests any more."""
DEFAULT_REQUEST_TIMEOUT_SECONDS = 60
NOT_YET_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    **shared.NOT_YET_SUPPORTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec(ContainerSpec):
    """An endpoint: from `min_replicas` to `max_replicas` run, and the latter are claimed."""

    runtime: str = CUSTOM
    """What the image serves with: see `runtimes`."""
    runtime_options: Mapping[str, Any] = field(default_factory=dict)
    model: ModelSource | None = None
    ports: Ports = field(default_factory=Ports)
    probes: Probes = field(default_factory=Probes)
    min_replicas: int = 1
    max_replicas: int = 1
    headroom: str = LENDABLE
    """Whether what is claimed for replicas that do not run may be lent to preemptible runs of the team."""
    scale_to_zero: bool = False
    """Whether no replica runs while no request comes; `min_replicas` is then what it wakes to."""
    scaling: ScalingSpec | None = None
    strategy: str = SURGE
    max_downtime_seconds: int = 0
    """How long no replica may answer while pods are replaced in place; 0 where no limit is set."""
    when_blocked: str = WHEN_REFUSE
    """What becomes of a revision for whose surge there is no room."""
    request_timeout_seconds: int = DEFAULT_REQUEST_TIMEOUT_SECONDS
    rate_limit: RateLimit | None = None
    """How often the gateway lets it be called; None: as often as anybody likes."""

    @property
    @override
    def pods_at_once(self) -> int:
        return self.max_replicas

    @property
    def scales(self) -> bool:
        """Whether anything but the portal may change the number of replicas."""
        return self.scaling is not None and (self.max_replicas > self.min_replicas or self.scale_to_zero)

    @override
    def claim_uses(self) -> list[ClaimUse]:
        uses = ContainerSpec.claim_uses(self)
        if self.model is None or self.model.claim is None:
            return uses
        return [*uses, ClaimUse("model", self.model.claim, read_only=True)]

    @override
    def secret_uses(self) -> list[SecretUse]:
        uses = ContainerSpec.secret_uses(self)
        model = self.model
        if model is None or model.uri is None or model.secret is None:
            return uses
        keys = model_source.needed_keys(model.uri)
        return [*uses, *(SecretUse("model", model.secret, key) for key in keys)]

    @property
    def preset(self) -> ServerPreset:
        return PRESETS[self.runtime]

    def started(self) -> runtimes.Started:
        """How its server is started, with what the preset fills in."""
        return runtimes.start(
            self.runtime,
            runtimes.ServerRequest(
                command=self.command,
                args=self.args,
                ports=self.ports.named(),
                options=self.runtime_options,
                model_path=self.model.path if self.model else None,
                brought=self.model is not None and self.model.brought,
                gpus=self.gpus_per_replica,
                request_timeout_seconds=self.request_timeout_seconds,
            ),
        )

    @classmethod
    def from_json(cls, body: Json) -> EndpointSpec:
        """The spec of a body that `EndpointSerializer` has checked, or of `to_json`.

        Raises Invalid for a field that is not supported yet, and ignores fields it does not know.
        """
        minimum = value_of(body, "min_replicas", 1)
        rollout = body.get("rollout") or {}
        shared.refuse_not_yet_supported(body, NOT_YET_SUPPORTED)
        runtime = value_of(body, "runtime", CUSTOM)
        preset = PRESETS[runtime]
        return cls(
            **shared.container_fields(body),
            runtime=runtime,
            runtime_options=_set_options(body.get("runtime_options")),
            model=ModelSource.from_json(body.get("model"), preset),
            ports=Ports.from_json(body.get("ports"), preset),
            probes=Probes.from_json(body.get("probes"), preset),
            min_replicas=minimum,
            max_replicas=value_of(body, "max_replicas", minimum),
            headroom=value_of(body, "headroom", LENDABLE),
            scale_to_zero=value_of(body, "scale_to_zero", False),
            scaling=ScalingSpec.from_json(body.get("scaling")),
            strategy=value_of(rollout, "strategy", SURGE),
            max_downtime_seconds=value_of(rollout, "max_downtime_seconds", 0),
            when_blocked=value_of(rollout, "when_blocked", WHEN_REFUSE),
            request_timeout_seconds=value_of(
                body, "request_timeout_seconds", DEFAULT_REQUEST_TIMEOUT_SECONDS
            ),
            rate_limit=RateLimit.from_json(body.get("rate_limit")),
        )

    @override
    def to_json(self) -> dict[str, Any]:
        return {
            **ContainerSpec.to_json(self),
            "runtime": self.runtime,
            "runtime_options": dict(self.runtime_options),
            "model": self.model.to_json() if self.model else None,
            "ports": self.ports.to_json(),
            "probes": self.probes.to_json(),
            "min_replicas": self.min_replicas,
            "max_replicas": self.max_replicas,
            "headroom": self.headroom,
            "scale_to_zero": self.scale_to_zero,
            "scaling": self.scaling.to_json() if self.scaling else None,
            "rollout": {
                "strategy": self.strategy,
                "max_downtime_seconds": self.max_downtime_seconds,
                "when_blocked": self.when_blocked,
            },
            "request_timeout_seconds": self.request_timeout_seconds,
            "rate_limit": self.rate_limit.to_json() if self.rate_limit else None,
        }


def _set_options(value: Json | None) -> dict[str, Any]:
    """The options that say something."""
    return {key: setting for key, setting in (value or {}).items() if not shared.says_nothing(setting)}
