"""The registry of workload kinds: names, URL paths, and properties that other packages need. Pure.

The app that owns a kind registers it with its adapter (`controller.reconcile.adapters`); all other code asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


class UnknownKind(LookupError):
    """No installed app has registered the kind."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No installed app has workloads of the kind {name!r}; there are: {', '.join(_registry)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKind:
    """One value of `Workload.kind`."""

    name: str
    """The value itself, which is also that of the kind label on its objects."""
    noun: str
    """What people call one in a sentence. The names of its pages' URLs begin with it, as in `run-detail`."""
    page_path: str
    """Where its pages are: `runs` for `/runs/`."""
    resource_path: str
    """Where REST has it: `training-runs` for `/api/v1/training-runs/`."""
    ends: bool
    """Whether it finishes by itself; if it does not, it is made again when a user deletes its object."""
    takes_requests: bool = False
    """Whether the gateway and monitoring reach its pods, on their ports `http`, `grpc` and `metrics`."""
    tracks: bool = False
    """Whether its pods get the address of the team's tracking server."""
    replicas_field: str = "replicas"
    """Field of its request that says how many pods it has at most."""

    def page_of(self, public_id: UUID | str) -> str:
        """Path of the page of one."""
        return f"/{self.page_path}/{public_id}/"

    @property
    def form_page(self) -> str:
        """Path of the form of a new one."""
        return f"/{self.page_path}/new/"

    @property
    def resources(self) -> str:
        """Path of all of them in REST, where one is submitted."""
        return f"/api/v1/{self.resource_path}/"

    def resource_of(self, public_id: UUID | str) -> str:
        """Path of one in REST."""
        return f"{self.resources}{public_id}/"


_registry: dict[str, WorkloadKind] = {}


def register_kind(kind: WorkloadKind) -> None:
    """Make the kind known. ValueError where another one has its name."""
    if _registry.setdefault(kind.name, kind) != kind:
        raise ValueError(f"Two apps want the kind {kind.name}.")


def kind_of(name: str) -> WorkloadKind:
    """The kind of that name; UnknownKind where no installed app owns it."""
    if name not in _registry:
        raise UnknownKind(name)
    return _registry[name]


def kinds() -> tuple[WorkloadKind, ...]:
    """All of them, in the order in which the apps are installed."""
    return tuple(_registry.values())
