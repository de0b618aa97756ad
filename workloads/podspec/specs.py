"""What a training run and an endpoint ask for alike: a container and the place where it runs.

A spec is made from JSON that a serializer has checked, and is stored in the row as `to_json` gives it, so
`from_json(spec.to_json()) == spec`. Values that are left out or null become the defaults written here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import FieldProblem, Invalid
from workloads.placement import ON_DEMAND, SPOT
from workloads.podrequests import PodGroup, beside_of

Json = Mapping[str, Any]

SPOT_FIRST = "spot-first"
CAPACITY_TYPES = (ON_DEMAND, SPOT)
DEFAULT_CPU = "1"
DEFAULT_MEMORY = "2Gi"
LEFT_OUT = ("cpu", "memory")
"""What the portal fills in where a request leaves it out."""
DEFAULT_SOURCE_PATH = "/workspace"
DEFAULT_GIT_REF = "HEAD"
GIT_PASSWORD_KEY = "password"  # noqa: S105 - a key's name
DEFAULT_USER = 1000

NOT_YET_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "template": (),
}
"""Fields of the request body that later versions give a meaning: path -> values that say nothing yet, besides
null and what is empty. `*` stands for every item of a list."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a resource is reserved, and how much may be used: two Kubernetes quantities."""

    request: str
    limit: str

    @classmethod
    def from_json(cls, value: Any) -> Amount:
        """From a quantity, or from {"request": quantity, "limit": quantity} of which one may be missing."""
        if isinstance(value, Mapping):
            request, limit = value.get("request"), value.get("limit")
            return cls(str(limit if request is None else request), str(request if limit is None else limit))
        return cls(str(value), str(value))

    def to_json(self) -> Any:
        return self.limit if self.request == self.limit else {"request": self.request, "limit": self.limit}


@dataclass(frozen=True, slots=True)
class EnvVar:
    """A variable with its value, or with the key of a Secret of the team in which the value is."""

    name: str
    value: str = ""
    secret: str | None = None
    key: str = ""

    @classmethod
    def from_json(cls, item: Json) -> EnvVar:
        if item.get("secret"):
            return cls(item["name"], secret=item["secret"], key=item.get("key") or "")
        return cls(item["name"], value_of(item, "value", ""))

    def to_json(self) -> dict[str, Any]:
        if self.secret is not None:
            return {"name": self.name, "secret": self.secret, "key": self.key}
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim of the team, mounted at `path`."""

    claim: str
    path: str
    read_only: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"claim": self.claim, "path": self.path, "read_only": self.read_only}


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that the pods mount; `field` is what asked for it."""

    field: str
    claim: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A key that a Secret of the team must have; `field` is what asked for it."""

    field: str
    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class ConfigMapMount:
    name: str
    path: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path}


@dataclass(frozen=True, slots=True)
class GitSource:
    """What is fetched of a git repository before the command starts."""

    url: str
    ref: str = DEFAULT_GIT_REF
    """Branch, tag or whole commit hash."""
    subdir: str = ""
    """Folder of the repository that the command starts in."""
    secret: str | None = None
    """A Secret of the team with the key `password`, and `username` where the host asks for one."""

    @classmethod
    def from_json(cls, value: Json | None) -> GitSource | None:
        """None without an address."""
        if not value or not value.get("url"):
            return None
        return cls(
            url=value["url"],
            ref=value.get("ref") or DEFAULT_GIT_REF,
            subdir=value.get("subdir") or "",
            secret=value.get("secret") or None,
        )

    def to_json(self) -> dict[str, Any]:
        return {"url": self.url, "ref": self.ref, "subdir": self.subdir, "secret": self.secret}


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How often something may be called: so many a second in the long run, `burst` at once."""

    requests_per_second: float
    burst: int

    @classmethod
    def from_json(cls, value: Json | None) -> RateLimit | None:
        """None without a rate. A burst that is left out is what a second allows, and at least 1."""
        rate = (value or {}).get("requests_per_second")
        if rate is None:
            return None
        return cls(float(rate), value_of(value or {}, "burst", max(1, math.ceil(rate))))

    def to_json(self) -> dict[str, Any]:
        return {"requests_per_second": self.requests_per_second, "burst": self.burst}


@dataclass(frozen=True, slots=True)
class Source:
    """Code brought without building an image, in the folder `path`: file name -> text, which lie there read-only, or
    what a git repository holds.
    """

    files: Mapping[str, str]
    path: str = DEFAULT_SOURCE_PATH
    git: GitSource | None = None

    @classmethod
    def from_json(cls, value: Json | None) -> Source | None:
        """None where there is neither a file nor a repository, because then there is nothing to bring."""
        git = GitSource.from_json(value.get("git")) if value else None
        if not value or not (value.get("files") or git):
            return None
        return cls(
            files=dict(value.get("files") or {}), path=value.get("path") or DEFAULT_SOURCE_PATH, git=git
        )

    @property
    def folder(self) -> str:
        """Where the command starts unless it says otherwise."""
        return f"{self.path}/{self.git.subdir}" if self.git and self.git.subdir else self.path

    def to_json(self) -> dict[str, Any]:
        git = {"git": self.git.to_json()} if self.git else {}
        return {"files": dict(self.files), **git, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """The part of a request that becomes the pod; runs and endpoints extend it."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    run_as_user: int = DEFAULT_USER
    env: tuple[EnvVar, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    flavor: str | None = None
    """None only for a request without GPUs that may run on any node."""
    capacity: str = ON_DEMAND
    gpus_per_replica: int = 0
    """Whole units of the flavor's resource, for each pod."""
    cpu: Amount = Amount(DEFAULT_CPU, DEFAULT_CPU)
    memory: Amount = Amount(DEFAULT_MEMORY, DEFAULT_MEMORY)
    """Includes what lies in /dev/shm."""
    shm: str | None = None
    ephemeral_storage: Amount | None = None
    volumes: tuple[Volume, ...] = ()
    config_maps: tuple[ConfigMapMount, ...] = ()
    extra_resources: Mapping[str, int] = field(default_factory=dict)
    """Further extended resources of each pod, such as network adapters: whole units by name."""
    priority: str = "normal"
    labels: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    image_pull_deadline_seconds: int | None = None
    """How long its image may fail to be pulled, where not as long as the platform's settings say."""
    left_out: frozenset[str] = field(default=frozenset(), compare=False)
    """Which of cpu and memory the request left to the portal. The amounts filled in for its GPUs are stored beside it, and
    never copied: see `typed`."""

    @property
    def first_capacity(self) -> str:
        """The capacity type that it waits for first."""
        return SPOT if self.capacity == SPOT_FIRST else self.capacity

    @property
    def effective_working_dir(self) -> str | None:
        """The folder in which the command starts; None leaves it to the image."""
        if self.working_dir is None and self.source is not None:
            return self.source.folder
        return self.working_dir

    @property
    def beside(self) -> tuple[int, int, int]:
        """What the scheduler sets aside for each of its pods with GPUs besides those."""
        storage = self.ephemeral_storage
        return beside_of(self.cpu.request, self.memory.request, storage.request if storage else "0")

    def pod_groups(self, pods: int) -> tuple[PodGroup, ...]:
        """Its pods by what they ask for besides GPUs, where so many of them have to start."""
        return (PodGroup(pods, self.beside),)

    @property
    def resumes(self) -> bool:
        """Whether an interruption costs no more than what it did since its last checkpoint."""
        return True

    @property
    def pods_at_once(self) -> int:
        """Pods that run at the same time, at most."""
        return 1

    def claim_uses(self) -> list[ClaimUse]:
        """Every claim that a pod mounts, as often as it does."""
        return [
            ClaimUse(f"volumes.{index}", volume.claim, volume.read_only)
            for index, volume in enumerate(self.volumes)
        ]

    def secret_uses(self) -> list[SecretUse]:
        """Every key of a Secret of the team without which a pod does not start."""
        uses = [
            SecretUse(f"env.{index}", item.secret, item.key)
            for index, item in enumerate(self.env)
            if item.secret is not None
        ]
        git = self.source.git if self.source else None
        if git is not None and git.secret is not None:
            uses.append(SecretUse("source.git", git.secret, GIT_PASSWORD_KEY))
        return uses

    def to_json(self) -> dict[str, Any]:
        """The whole request but its team, every field written out."""
        return {
            "name": self.name,
            "image": self.image,
            "command": list(self.command),
            "args": list(self.args),
            "working_dir": self.working_dir,
            "run_as_user": self.run_as_user,
            "env": [item.to_json() for item in self.env],
            "image_pull_secrets": list(self.image_pull_secrets),
            "flavor": self.flavor,
            "capacity": self.capacity,
            "gpus_per_replica": self.gpus_per_replica,
            "cpu": self.cpu.to_json(),
            "memory": self.memory.to_json(),
            "shm": self.shm,
            "ephemeral_storage": self.ephemeral_storage.to_json() if self.ephemeral_storage else None,
            "volumes": [item.to_json() for item in self.volumes],
            "config_maps": [item.to_json() for item in self.config_maps],
            "extra_resources": dict(self.extra_resources),
            "priority": self.priority,
            "labels": dict(self.labels),
            "source": self.source.to_json() if self.source else None,
            **(
                {"image_pull_deadline_seconds": self.image_pull_deadline_seconds}
                if self.image_pull_deadline_seconds is not None
                else {}
            ),
            **({"left_out": sorted(self.left_out)} if self.left_out else {}),
        }


def container_fields(body: Json) -> dict[str, Any]:
    """Keyword arguments of `ContainerSpec` for a checked body."""
    flavor = body.get("flavor") or None
    storage, left_out = body.get("ephemeral_storage"), body.get("left_out") or ()
    return {
        "name": body["name"],
        "image": body["image"],
        "command": tuple(body.get("command") or ()),
        "args": tuple(body.get("args") or ()),
        "working_dir": body.get("working_dir"),
        "run_as_user": value_of(body, "run_as_user", DEFAULT_USER),
        "env": tuple(map(EnvVar.from_json, body.get("env") or ())),
        "image_pull_secrets": tuple(body.get("image_pull_secrets") or ()),
        "flavor": flavor,
        "capacity": value_of(body, "capacity", ON_DEMAND),
        "gpus_per_replica": value_of(body, "gpus_per_replica", 1 if flavor else 0),
        "cpu": Amount.from_json(value_of(body, "cpu", DEFAULT_CPU)),
        "memory": Amount.from_json(value_of(body, "memory", DEFAULT_MEMORY)),
        "shm": body.get("shm"),
        "ephemeral_storage": None if storage is None else Amount.from_json(storage),
        "volumes": tuple(volume(item) for item in body.get("volumes") or ()),
        "config_maps": tuple(
            ConfigMapMount(item["name"], item["path"]) for item in body.get("config_maps") or ()
        ),
        "extra_resources": dict(body.get("extra_resources") or {}),
        "priority": value_of(body, "priority", "normal"),
        "labels": dict(body.get("labels") or {}),
        "source": Source.from_json(body.get("source")),
        "image_pull_deadline_seconds": body.get("image_pull_deadline_seconds"),
        "left_out": frozenset(name for name in LEFT_OUT if name in left_out or body.get(name) is None),
    }


def typed(stored: Json) -> dict[str, Any]:
    """A stored spec as the user asked for it: without what the portal filled in, which was for its GPUs alone."""
    filled_in = stored.get("left_out") or ()
    return {
        name: None if name in filled_in else value for name, value in stored.items() if name != "left_out"
    }


def volume(item: Json) -> Volume:
    return Volume(item["claim"], item["path"], bool(item.get("read_only")))


def value_of(body: Json, key: str, default: Any) -> Any:
    """The value, or the default where it is missing or null."""
    value = body.get(key)
    return default if value is None else value


def says_nothing(value: Any, defaults: Sequence[Any] = (), *, depth: int = 4) -> bool:
    """Whether a value of a field that is not supported yet may be passed over: null, empty, or a default.

    An object whose every value is null or empty is empty; below `depth` levels nothing is. Types count:
    `true` is not 1.
    """
    if value is None or value in ("", [], ()):
        return True
    if isinstance(value, Mapping):
        return depth > 0 and all(says_nothing(inner, depth=depth - 1) for inner in value.values())
    return any(type(value) is type(default) and value == default for default in defaults)


def refuse_not_yet_supported(body: Json, table: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise Invalid, naming every field of `table` that carries a value with a meaning.

    The serializers refuse these before; this keeps a row that a newer version wrote from being run as if
    the field were not there.
    """
    problems = [
        FieldProblem(field=path, code="not_yet_supported", message=not_yet_message(path))
        for pattern, defaults in table.items()
        for path, value in _values_at(body, pattern.split("."))
        if not says_nothing(value, defaults)
    ]
    if problems:
        raise Invalid.of_problems(problems)


def not_yet_message(path: str) -> str:
    return f"{path} is not supported yet; leave it out."


def _values_at(value: Any, pattern: list[str], walked: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not pattern:
        yield ".".join(walked), value
        return
    key, rest = pattern[0], pattern[1:]
    if key == "*" and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _values_at(item, rest, (*walked, str(index)))
    elif isinstance(value, Mapping) and key in value:
        yield from _values_at(value[key], rest, (*walked, key))
