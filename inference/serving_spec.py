"""What an endpoint's pods serve by: ports, probes and the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference import runtimes
from inference.runtimes import CUSTOM, PRESETS, ServerPreset
from workloads.podspec import model_source
from workloads.podspec.specs import Json, value_of

DEFAULT_MODEL_PATH = "/models"
DEFAULT_LOAD_BUDGET_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Ports:
    http: int = PRESETS[CUSTOM].http
    grpc: int | None = None
    metrics: int | None = None

    @classmethod
    def from_json(cls, value: Json | None, preset: ServerPreset) -> Ports:
        """The ports of the request, and for the rest those on which such a server listens by itself."""
        body = value or {}
        return cls(
            value_of(body, "http", preset.http),
            value_of(body, "grpc", preset.grpc),
            value_of(body, "metrics", preset.metrics),
        )

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
    def from_json(cls, value: Json | None, preset: ServerPreset) -> Probes:
        """The probes of the request, with the preset's paths for what it leaves out."""
        body = value or {}
        readiness = {**(body.get("readiness") or {})}
        readiness["path"] = readiness.get("path") or preset.readiness_path
        return cls(
            readiness=ProbeSpec.from_json(readiness),
            liveness=cls._liveness(body.get("liveness"), preset),
            load_budget_seconds=value_of(body, "load_budget_seconds", DEFAULT_LOAD_BUDGET_SECONDS),
        )

    @staticmethod
    def _liveness(value: Json | None, preset: ServerPreset) -> ProbeSpec | None:
        if preset.liveness_path is None:
            return ProbeSpec.from_json(value) if value else None
        body = {
            "period_seconds": runtimes.LIVENESS_PERIOD_SECONDS,
            "failure_threshold": runtimes.LIVENESS_FAILURES,
            "path": preset.liveness_path,
        }
        return ProbeSpec.from_json(
            {**body, **{key: setting for key, setting in (value or {}).items() if setting is not None}}
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "readiness": self.readiness.to_json(),
            "liveness": self.liveness.to_json() if self.liveness else None,
            "load_budget_seconds": self.load_budget_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where the model is for the server: at `path`, read-only, from a claim or an object store; else in the image."""

    claim: str | None = None
    uri: str | None = None
    path: str = DEFAULT_MODEL_PATH
    secret: str | None = None
    """A Secret of the team with the credentials for `uri`."""
    size_limit: str | None = None
    """How much of the node's disk what is fetched may take."""

    @classmethod
    def from_json(cls, value: Json | None, preset: ServerPreset) -> ModelSource | None:
        """None where the request says nothing about a model."""
        settings = {key: setting for key, setting in (value or {}).items() if setting}
        if not settings.keys() & {"claim", "uri", "path"}:
            return None
        brought = "claim" in settings or "uri" in settings
        return cls(
            claim=settings.get("claim"),
            uri=settings.get("uri"),
            path=settings.get("path")
            or (DEFAULT_MODEL_PATH if brought else preset.model_folder or DEFAULT_MODEL_PATH),
            secret=settings.get("secret"),
            size_limit=settings.get("size_limit")
            or (model_source.DEFAULT_SIZE_LIMIT if "uri" in settings else None),
        )

    @property
    def brought(self) -> bool:
        """Whether it comes from elsewhere than the image."""
        return self.claim is not None or self.uri is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "uri": self.uri,
            "path": self.path,
            "secret": self.secret,
            "size_limit": self.size_limit,
        }
