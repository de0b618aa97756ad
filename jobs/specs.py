"""What a training run asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from controller import specs as shared
from controller.grammar import is_inside
from controller.specs import ClaimUse, ContainerSpec, Json, Volume, value_of

KIND_JOB = "job"
KINDS_LATER = ("pytorchjob", "tfjob", "mpijob", "trainjob")

NOT_YET_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    **{path: says for path, says in shared.NOT_YET_SUPPORTED.items() if path != "template"},
    "kind": (KIND_JOB,),
    "capacity": shared.CAPACITY_TYPES,
    "roles": (),
    "elastic": (),
    "topology": ("any",),
    "gang": (True,),
    "nproc_per_node": (),
    "slots_per_worker": (1,),
    "runtime_ref": (),
    "retry": (),
}


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Where checkpoints are written. `claim` None: `path` lies in a volume that is mounted anyway."""

    path: str
    claim: str | None = None
    interval_seconds: int | None = None
    """How often the run promises to write one; None where it does not say."""

    @classmethod
    def from_json(cls, value: Json | None) -> CheckpointSpec | None:
        """None where no path is given."""
        if not value or not value.get("path"):
            return None
        return cls(
            path=value["path"], claim=value.get("claim"), interval_seconds=value.get("interval_seconds")
        )

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "claim": self.claim, "interval_seconds": self.interval_seconds}

    def holder(self, volumes: Sequence[Volume]) -> Volume | None:
        """The volume in whose mount `path` lies; None where the checkpoint needs a mount of its own."""
        around = [volume for volume in volumes if is_inside(self.path, volume.path)]
        nearest = max(around, key=lambda volume: len(volume.path), default=None)
        if nearest is None or self.claim not in {None, nearest.claim}:
            return None
        return nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRunSpec(ContainerSpec):
    """A training run: of one pod, or of several equal ones that start together."""

    kind: str = KIND_JOB
    replicas: int = 1
    """Pods, all of them alike and all needed: they are admitted, started, retried and ended together."""
    checkpoint: CheckpointSpec | None = None
    time_limit_seconds: int | None = None
    """Starting and Running together, over all attempts; None until the service fills in the default."""
    max_retries: int = 0
    template: str | None = None
    """Name of the template whose defaults were filled in, and its version then."""
    template_version: int | None = None

    @property
    @override
    def pods_at_once(self) -> int:
        return self.replicas

    @override
    def claim_uses(self) -> list[ClaimUse]:
        uses = ContainerSpec.claim_uses(self)
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.claim is None or checkpoint.holder(self.volumes) is not None:
            return uses
        return [*uses, ClaimUse("checkpoint", checkpoint.claim, read_only=False)]

    @classmethod
    def from_json(cls, body: Json) -> TrainingRunSpec:
        """The spec of a body that `TrainingRunSerializer` has checked, or of `to_json`.

        Raises Invalid for a field that is not supported yet, and ignores fields it does not know.
        """
        shared.refuse_not_yet_supported(body, NOT_YET_SUPPORTED)
        return cls(
            **shared.container_fields(body),
            kind=value_of(body, "kind", KIND_JOB),
            replicas=value_of(body, "replicas", 1),
            checkpoint=CheckpointSpec.from_json(body.get("checkpoint")),
            time_limit_seconds=body.get("time_limit_seconds"),
            max_retries=value_of(body, "max_retries", 0),
            template=body.get("template") or None,
            template_version=body.get("template_version"),
        )

    @override
    def to_json(self) -> dict[str, Any]:
        return {
            **ContainerSpec.to_json(self),
            "kind": self.kind,
            "replicas": self.replicas,
            "checkpoint": self.checkpoint.to_json() if self.checkpoint else None,
            "time_limit_seconds": self.time_limit_seconds,
            "max_retries": self.max_retries,
            "template": self.template,
            "template_version": self.template_version,
        }
