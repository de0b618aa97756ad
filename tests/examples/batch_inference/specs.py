"""What a batch asks for: a model's image, the dataset, and how many pods share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from workloads.podspec import specs as shared
from workloads.podspec.specs import ContainerSpec, Json, value_of

KIND = "batch-inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInferenceSpec(ContainerSpec):
    """A model that goes over a dataset once."""

    dataset: str
    """Where its pods read; each takes its share by its number."""
    results: str
    """Where they write."""
    replicas: int = 1
    time_limit_seconds: int | None = None
    """None until the service fills in the default."""
    max_retries: int = 0

    @property
    @override
    def pods_at_once(self) -> int:
        return self.replicas

    @classmethod
    def from_json(cls, body: Json) -> BatchInferenceSpec:
        """The spec of a body that `BatchInferenceSerializer` has checked, or of `to_json`."""
        shared.refuse_not_yet_supported(body, shared.NOT_YET_SUPPORTED)
        return cls(
            **shared.container_fields(body),
            dataset=body["dataset"],
            results=body["results"],
            replicas=value_of(body, "replicas", 1),
            time_limit_seconds=body.get("time_limit_seconds"),
            max_retries=value_of(body, "max_retries", 0),
        )

    @override
    def to_json(self) -> dict[str, Any]:
        return {
            **ContainerSpec.to_json(self),
            "dataset": self.dataset,
            "results": self.results,
            "replicas": self.replicas,
            "time_limit_seconds": self.time_limit_seconds,
            "max_retries": self.max_retries,
        }
