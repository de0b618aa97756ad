"""The little that claims and quotas need beside being stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster import quota
from devcluster.kinds import CLAIM, POD, QUOTA
from devcluster.objects import Obj, finished, namespace_of
from devcluster.store import Change

from .loop import Controller


class Claims(Controller):
    """Key: (namespace, claim). A claim is a folder, so it is bound at once."""

    kind = CLAIM

    @override
    def bring(self, obj: Obj) -> float | None:
        if obj["status"].get("phase") == "Pending":
            spec = obj["spec"]
            self.cluster.set_status(CLAIM, obj, {
                "phase": "Bound", "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            })  # fmt: skip
        return None


class Quotas(Controller):
    """Key: a namespace. Keeps `status.used` of its quotas."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        old, new = change.old, change.obj
        ended = change.kind is POD and old is not None and finished(old) != finished(new)
        if change.kind.namespaced and (change.kind is QUOTA or change.type != "MODIFIED" or ended):
            yield namespace_of(new)

    @override
    def reconcile(self, key: Any) -> float | None:
        for resource_quota in self.store.list(QUOTA, key):
            hard = (resource_quota.get("spec") or {}).get("hard") or {}
            used = quota.show(quota.used(self.store, key, hard), sorted(hard))
            self.cluster.set_status(QUOTA, resource_quota, {"hard": hard, "used": used})
        return None
