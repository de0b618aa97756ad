"""Which kinds of runs this portal offers now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cluster import kinds
from foundation.errors import Invalid
from foundation.models import PlatformSettings
from jobs.kinds import KINDS, MPI_JOB_V1, RunKind
from teams.pod_security import Hindrance
from workloads.watches import Followed, followed_kinds


def offered_kinds(followed: Followed = followed_kinds) -> dict[str, str]:
    """Address of the object by the name of the kind, of each that the API serves and the settings name.

    What the API serves is what the watcher found when it last asked.
    """
    named = PlatformSettings.current().optional_kinds
    served = followed()
    addresses = {kind.name: _served(kind, served, named) for kind in KINDS.values()}
    return {
        name: address
        for name, address in addresses.items()
        if address and (KINDS[name].always_there or name in named)
    }


REFUSED_BY_RESTRICTED: Mapping[str, Hindrance] = {
    kinds.PYTORCH_JOB.address: Hindrance(
        kind="PyTorchJob",
        why="the training operator puts an init container into every worker, without a security context",
        fix="give it deploy/training-operator-init-container.yaml for that container, then set pod_security to restricted: "
        "docs/how-to/hold-pods-to-restricted.md",
    ),
    kinds.MPI_JOB.address: Hindrance(
        kind="MPIJob v1",
        why="the training operator puts an init container into the launcher, without a security context",
        fix=f"nothing gives it one: take {MPI_JOB_V1} out of optional_kinds, and use the MPI operator's MPIJob v2",
    ),
    kinds.TRAIN_JOB.address: Hindrance(
        kind="TrainJob",
        why="containers beside the one that trains are as the cluster's training runtimes have them",
        fix="give all containers of the runtimes what restricted wants, then set pod_security to restricted",
    ),
}
"""By address of the object of a run: what there is in its pods that the portal did not put there. TFJobs and MPIJobs v2 have
nothing of the kind.
"""


def refused_by_restricted(served: frozenset[str] | None = None) -> list[Hindrance]:
    """Of every kind that is offered now whose pods Pod Security restricted refuses, or may; `served` is what the cluster
    serves, where that is known.
    """
    offered = offered_kinds(followed_kinds if served is None else lambda: served).values()
    return [REFUSED_BY_RESTRICTED[address] for address in offered if address in REFUSED_BY_RESTRICTED]


def object_kind(kind: str) -> str:
    """Address of what a new run of the kind is in the cluster. Invalid, naming `kind`, where it is not offered."""
    if KINDS[kind].always_there:
        return KINDS[kind].objects[0].address
    offered = offered_kinds()
    if kind in offered:
        return offered[kind]
    served, named = followed_kinds(), PlatformSettings.current().optional_kinds
    if _served(KINDS[kind], served, named):
        why = "the setting optional_kinds does not name it"
    elif _served(KINDS[kind], served, (MPI_JOB_V1,)):
        why = (
            "the cluster serves MPIJob v1 alone, whose launcher gets a token of the cluster that may run commands in the "
            f"workers; the setting optional_kinds does not name {MPI_JOB_V1}"
        )
    else:
        why = "the cluster does not serve it"
    message = f"A {kind} cannot be run here: {why}. Possible are: {', '.join(offered)}."
    raise Invalid.of_field("kind", message, code="kind_not_offered")


def _served(kind: RunKind, followed: frozenset[str], named: Collection[str]) -> str:
    """Address of the first of its objects that is served and may be used; empty where none is."""
    if kind.always_there:
        return kind.objects[0].address
    usable = (each for each in kind.objects if each != kinds.MPI_JOB or MPI_JOB_V1 in named)
    return next((resource.address for resource in usable if resource.address in followed), "")
