"""What a training run asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from jobs.kinds import JOB, KINDS, MPI_JOB
from workloads.podrequests import PodGroup, beside_of
from workloads.podspec import specs as shared
from workloads.podspec.grammar import is_inside
from workloads.podspec.specs import Amount, ClaimUse, ContainerSpec, Json, Volume, value_of

NOT_YET_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    **{path: says for path, says in shared.NOT_YET_SUPPORTED.items() if path != "template"},
    "kind": tuple(KINDS),
}
LAUNCHER = "Launcher"
SMALL_CPU = Amount.from_json(shared.DEFAULT_CPU)
SMALL_MEMORY = Amount.from_json(shared.DEFAULT_MEMORY)
CLUSTER_RUNTIME = "ClusterTrainingRuntime"


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

    def own_mount(self, volumes: Sequence[Volume]) -> Volume | None:
        """The mount of `claim` at `path`; None without a claim, or where a volume holds the path anyway."""
        if self.claim is None or self.holder(volumes) is not None:
            return None
        return Volume(self.claim, self.path)


@dataclass(frozen=True, slots=True)
class ReplicaRole:
    """Pods of a run that are not alike the others. What is None is as the others have it, where the request says that."""

    name: str
    replicas: int = 1
    gpus_per_replica: int = 0
    """Either none, or as many as each of the others has."""
    cpu: Amount | None = None
    memory: Amount | None = None

    @classmethod
    def from_json(cls, value: Json) -> ReplicaRole:
        cpu, memory = value.get("cpu"), value.get("memory")
        return cls(
            name=value["name"],
            replicas=value_of(value, "replicas", 1),
            gpus_per_replica=value_of(value, "gpus_per_replica", 0),
            cpu=None if cpu is None else Amount.from_json(cpu),
            memory=None if memory is None else Amount.from_json(memory),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "replicas": self.replicas,
            "gpus_per_replica": self.gpus_per_replica,
            "cpu": self.cpu.to_json() if self.cpu else None,
            "memory": self.memory.to_json() if self.memory else None,
        }


@dataclass(frozen=True, slots=True)
class Elastic:
    """With how few pods the training may go on, and with how many at most."""

    min_replicas: int
    max_replicas: int

    @classmethod
    def from_json(cls, value: Json | None) -> Elastic | None:
        if not value or value.get("min_replicas") is None:
            return None
        return cls(value["min_replicas"], value["max_replicas"])

    def to_json(self) -> dict[str, Any]:
        return {"min_replicas": self.min_replicas, "max_replicas": self.max_replicas}


@dataclass(frozen=True, slots=True)
class RuntimeRef:
    """The training runtime that a TrainJob is made from."""

    name: str
    kind: str = CLUSTER_RUNTIME

    @classmethod
    def from_json(cls, value: Json | None) -> RuntimeRef | None:
        if not value or not value.get("name"):
            return None
        return cls(value["name"], value_of(value, "kind", CLUSTER_RUNTIME))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRunSpec(ContainerSpec):
    """A training run: of one pod, or of several that start together."""

    kind: str = JOB
    replicas: int = 1
    """Pods, all of them alike and all needed: they are admitted, started, retried and ended together. A PyTorchJob's
    master is one of them; the pods of `roles` are not."""
    roles: tuple[ReplicaRole, ...] = ()
    elastic: Elastic | None = None
    topology: str = "any"
    """How near each other its pods would best be: a hint to the scheduler."""
    gang: bool = True
    """Whether a scheduler for gangs places its pods, where the cluster has one."""
    nproc_per_node: int | None = None
    """Processes that torchrun starts in each pod; None leaves it to the command, or to the number of GPUs."""
    slots_per_worker: int | None = None
    """Processes that mpirun starts in each worker; None is one for each GPU."""
    runtime_ref: RuntimeRef | None = None
    checkpoint: CheckpointSpec | None = None
    time_limit_seconds: int | None = None
    """Starting and Running together, over all attempts; None until the service fills in the default."""
    max_retries: int = 0
    retry_exit_codes: tuple[int, ...] = ()
    """Exit codes that are worth another try; empty leaves that to the cause of the failure."""
    template: str | None = None
    """Name of the template whose defaults were filled in, and its version then."""
    template_version: int | None = None

    @property
    def all_roles(self) -> tuple[ReplicaRole, ...]:
        """The roles asked for, and the launcher that an MPIJob has even where the request has none."""
        if self.kind != MPI_JOB or any(role.name == LAUNCHER for role in self.roles):
            return self.roles
        return (ReplicaRole(LAUNCHER), *self.roles)

    @property
    def pods(self) -> int:
        """All pods of one attempt."""
        return self.replicas + sum(role.replicas for role in self.all_roles)

    @property
    def pods_with_gpus(self) -> int:
        """The pods that take units of the flavor, each the same number."""
        if not self.gpus_per_replica:
            return self.pods
        return self.replicas + sum(role.replicas for role in self.roles if role.gpus_per_replica)

    def of_role(self, role: ReplicaRole) -> TrainingRunSpec:
        """What a pod of the role asks for: a launcher, which only starts the others, little unless it says more."""
        small = role.name == LAUNCHER
        return replace(
            self,
            gpus_per_replica=role.gpus_per_replica,
            cpu=role.cpu or (SMALL_CPU if small else self.cpu),
            memory=role.memory or (SMALL_MEMORY if small else self.memory),
            shm=self.shm if role.gpus_per_replica else None,
            extra_resources=self.extra_resources if role.gpus_per_replica else {},
        )

    @property
    @override
    def beside(self) -> tuple[int, int, int]:
        """The amounts of the greediest of its pods with GPUs: which of them a node gets is not known before."""
        with_gpus = (self.of_role(role) for role in self.roles if role.gpus_per_replica)
        storage = self.ephemeral_storage.request if self.ephemeral_storage else "0"
        asked = [beside_of(part.cpu.request, part.memory.request, storage) for part in (self, *with_gpus)]
        return max(amounts[0] for amounts in asked), max(amounts[1] for amounts in asked), asked[0][2]

    @override
    def pod_groups(self, pods: int) -> tuple[PodGroup, ...]:
        """The pods of the run itself, and of each role."""
        of_roles = (
            PodGroup(
                role.replicas,
                self.of_role(role).beside,
                f"roles.{self.roles.index(role)}." if role in self.roles else "",
            )
            for role in self.all_roles
        )
        return (PodGroup(self.replicas, self.beside), *of_roles)

    @property
    @override
    def resumes(self) -> bool:
        return self.checkpoint is not None

    @property
    @override
    def pods_at_once(self) -> int:
        return self.pods

    @property
    def checkpoint_mount(self) -> Volume | None:
        """The volume that its pods mount for checkpoints alone; None where they need none."""
        return self.checkpoint.own_mount(self.volumes) if self.checkpoint else None

    @property
    def mounted_volumes(self) -> tuple[Volume, ...]:
        """Every volume that its pods mount, that of checkpoints last."""
        own = self.checkpoint_mount
        return self.volumes if own is None else (*self.volumes, own)

    @override
    def claim_uses(self) -> list[ClaimUse]:
        uses, own = ContainerSpec.claim_uses(self), self.checkpoint_mount
        return uses if own is None else [*uses, ClaimUse("checkpoint", own.claim, own.read_only)]

    @classmethod
    def from_json(cls, body: Json) -> TrainingRunSpec:
        """The spec of a body that `TrainingRunSerializer` has checked, or of `to_json`.

        Raises Invalid for a field that is not supported yet, and ignores fields it does not know.
        """
        shared.refuse_not_yet_supported(body, NOT_YET_SUPPORTED)
        return cls(
            **shared.container_fields(body),
            kind=value_of(body, "kind", JOB),
            replicas=_replicas(body),
            roles=tuple(ReplicaRole.from_json(item) for item in body.get("roles") or ()),
            elastic=Elastic.from_json(body.get("elastic")),
            topology=value_of(body, "topology", "any"),
            gang=value_of(body, "gang", True),
            nproc_per_node=body.get("nproc_per_node"),
            slots_per_worker=body.get("slots_per_worker"),
            runtime_ref=RuntimeRef.from_json(body.get("runtime_ref")),
            checkpoint=CheckpointSpec.from_json(body.get("checkpoint")),
            time_limit_seconds=body.get("time_limit_seconds"),
            max_retries=value_of(body, "max_retries", 0),
            retry_exit_codes=tuple((body.get("retry") or {}).get("exit_codes") or ()),
            template=body.get("template") or None,
            template_version=body.get("template_version"),
        )

    @override
    def to_json(self) -> dict[str, Any]:
        return {
            **ContainerSpec.to_json(self),
            "kind": self.kind,
            "replicas": self.replicas,
            "roles": [role.to_json() for role in self.roles],
            "elastic": self.elastic.to_json() if self.elastic else None,
            "topology": self.topology,
            "gang": self.gang,
            "nproc_per_node": self.nproc_per_node,
            "slots_per_worker": self.slots_per_worker,
            "runtime_ref": self.runtime_ref.to_json() if self.runtime_ref else None,
            "checkpoint": self.checkpoint.to_json() if self.checkpoint else None,
            "time_limit_seconds": self.time_limit_seconds,
            "max_retries": self.max_retries,
            "retry": {"exit_codes": list(self.retry_exit_codes)},
            "template": self.template,
            "template_version": self.template_version,
        }


def _replicas(body: Json) -> int:
    """An elastic run asks for as many as it may have."""
    elastic = Elastic.from_json(body.get("elastic"))
    return int(value_of(body, "replicas", elastic.max_replicas if elastic else 1))
