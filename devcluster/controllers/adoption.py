"""Owners and their objects, by selector: one without a controller is adopted, one that no longer matches is let go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from devcluster import objects
from devcluster.cluster import Cluster
from devcluster.kinds import Kind
from devcluster.objects import Obj, controller_of, deleting, matches, namespace_of, owner_reference, uid_of
from devcluster.store import Change, Store


def claimed(cluster: Cluster, kind: Kind, owner_kind: Kind, owner: Obj) -> list[Obj]:
    """The objects of `kind` that `owner` controls, once each that concerns it is adopted or let go."""
    owned = []
    for obj in cluster.store.list(kind, namespace_of(owner)):
        reference = controller_of(obj)
        if reference is None:
            if _fits(owner, obj) and not (deleting(owner) or deleting(obj) or objects.finished(obj)):
                owned.append(_adopt(cluster, kind, owner_kind, owner, obj))
        elif reference["uid"] == uid_of(owner):
            if _fits(owner, obj) or deleting(owner):
                owned.append(obj)
            else:
                cluster.release(kind, obj, uid_of(owner))
    return owned


def concerned(store: Store, owner_kind: Kind, change: Change) -> Iterable[tuple[str, str]]:
    """Keys of the owners that have, had or may adopt the changed object."""
    where, owner = namespace_of(change.obj), controller_of(change.obj)
    for reference in (owner, controller_of(change.old) if change.old else None):
        if reference is not None and reference["kind"] == owner_kind.name:
            yield where, reference["name"]
    if owner is None and change.type != "DELETED":
        yield from (
            objects.key_of(candidate)
            for candidate in store.list(owner_kind, where)
            if _fits(candidate, change.obj)
        )


def _fits(owner: Obj, obj: Obj) -> bool:
    return matches(owner["spec"]["selector"], objects.labels_of(obj))


def _adopt(cluster: Cluster, kind: Kind, owner_kind: Kind, owner: Obj, obj: Obj) -> Obj:
    def change(new: Obj) -> None:
        new["metadata"].setdefault("ownerReferences", []).append(owner_reference(owner_kind, owner))

    return cluster.modify(kind, obj, change) or obj


def pod_of(kind: Kind, owner: Obj, name: str = "", **metadata: Any) -> Obj:
    """A pod of the owner's template, named after the owner unless it has a `name`."""
    template, name = owner["spec"]["template"], name or objects.name_of(owner)
    inherited = {k: v for k, v in (template.get("metadata") or {}).items() if k in {"labels", "annotations"}}
    own = {
        "generateName": f"{name}-", "name": f"{name[:57]}-{objects.random_suffix()}", "ownerReferences": [owner_reference(kind, owner)],
    }  # fmt: skip
    return {"metadata": inherited | own | metadata, "spec": template["spec"]}
