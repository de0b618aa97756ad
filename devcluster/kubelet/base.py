"""What both kubelets share: following the pods that are bound to a living node, and their status."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from aiohttp import web

from devcluster.cluster import Cluster
from devcluster.kinds import NODE, POD
from devcluster.objects import Obj, annotations_of, deleting, name_of, with_condition
from devcluster.store import Change

from .usage import Usage

log = logging.getLogger("devcluster")
LOST = "realcluster/lost"


def node_lost(node: Obj | None) -> bool:
    """A node whose kubelet is to be taken for dead: gone, or annotated so."""
    return node is None or annotations_of(node).get(LOST) == "true"


class Kubelet:
    """One object plays the kubelet of every node."""

    source: ClassVar[str] = "kubelet"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self) -> None:
        self.cluster.store.subscribe(self._changed)
        for pod in self.cluster.store.list(POD):
            self._pod_changed(pod)

    def _changed(self, change: Change) -> None:
        if change.kind is POD and change.type == "DELETED":
            self.gone(change.obj)
        elif change.kind is POD:
            self._pod_changed(change.obj)
        elif change.kind is NODE and change.old and node_lost(change.old) and not node_lost(change.obj):
            # The kubelet is back: it reports what it could not report meanwhile.
            for pod in self.cluster.pods_on(name_of(change.obj)):
                self._pod_changed(pod)

    def _pod_changed(self, pod: Obj) -> None:
        if self.reachable(pod):
            asyncio.get_running_loop().call_soon(self._sync, pod)

    def _sync(self, pod: Obj) -> None:
        live = self.cluster.store.newest(POD, pod)
        if live is not None and self.reachable(live):
            self.sync(live)

    def reachable(self, pod: Obj) -> bool:
        node = pod["spec"].get("nodeName")
        return bool(node) and not node_lost(self.cluster.store.get(NODE, "", node))

    def sync(self, pod: Obj) -> None:
        """The newest version of a bound pod; called on every change of it."""
        raise NotImplementedError

    def gone(self, pod: Obj) -> None:
        """The pod is no longer stored."""
        raise NotImplementedError

    async def log(self, request: web.Request, pod: Obj) -> web.StreamResponse:
        raise NotImplementedError

    async def stop(self) -> None:
        """End everything that runs."""
        raise NotImplementedError

    def usage(self, pod: Obj, container: str = "") -> Usage | None:
        """What the pod, or one container of it, uses; None where nothing is known of it."""
        return None

    def report(self, pod: Obj, **fields: Any) -> None:
        """Write status fields; `conditions` are merged by type."""
        live = self.cluster.store.newest(POD, pod)
        if live is None or not self.reachable(live):
            return
        status: Obj = live.get("status", {})
        conditions = status.get("conditions", [])
        for new in fields.pop("conditions", ()):
            conditions = with_condition(conditions, new)
        self.cluster.set_status(POD, live, status | fields | {"conditions": conditions})

    def release(self, pod: Obj) -> None:
        """All containers have ended and the pod is to be deleted: let it go."""
        live = self.cluster.store.newest(POD, pod)
        if live is not None and deleting(live):
            self.cluster.remove(POD, live, gracePeriodSeconds=0)
