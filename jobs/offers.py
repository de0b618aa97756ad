"""Which kinds of runs this portal offers now."""

from __future__ import annotations

from foundation.errors import Invalid
from foundation.models import PlatformSettings
from jobs.kinds import KINDS, RunKind
from workloads.watches import Followed, followed_kinds


def offered_kinds(followed: Followed = followed_kinds) -> dict[str, str]:
    """Address of the object by the name of the kind, of each that the API serves and the settings name.

    What the API serves is what the watcher found when it last asked.
    """
    named = PlatformSettings.current().optional_kinds
    served = followed()
    addresses = {kind.name: _served(kind, served) for kind in KINDS.values()}
    return {
        name: address
        for name, address in addresses.items()
        if address and (KINDS[name].always_there or name in named)
    }


def object_kind(kind: str) -> str:
    """Address of what a new run of the kind is in the cluster. Invalid, naming `kind`, where it is not offered."""
    if KINDS[kind].always_there:
        return KINDS[kind].objects[0].address
    offered = offered_kinds()
    if kind in offered:
        return offered[kind]
    if _served(KINDS[kind], followed_kinds()):
        why = "the setting optional_kinds does not name it"
    else:
        why = "the cluster does not serve it"
    message = f"A {kind} cannot be run here: {why}. Possible are: {', '.join(offered)}."
    raise Invalid.of_field("kind", message, code="kind_not_offered")


def _served(kind: RunKind, followed: frozenset[str]) -> str:
    """Address of the first of its objects that is served; empty where none is."""
    if kind.always_there:
        return kind.objects[0].address
    return next((resource.address for resource in kind.objects if resource.address in followed), "")
