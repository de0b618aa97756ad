"""Event objects as controllers and kubelets write them."""

from __future__ import annotations

import uuid

from .kinds import Kind
from .objects import Obj, name_of, namespace_of, timestamp, uid_of

# These write Events as events.k8s.io does: eventTime and series instead of count and the two timestamps.
_NEW_STYLE = ("default-scheduler",)


def made(
    kind: Kind, about: Obj, namespace: str, reason: str, message: str, *, source: str, warning: bool
) -> Obj:
    """The same words about the same object give the same name, so that repetitions meet."""
    now = timestamp()
    digest = uuid.uuid5(uuid.UUID(uid_of(about)), reason + message).hex[:16]
    involved = {
        "kind": kind.name, "apiVersion": kind.api_version, "name": name_of(about), "uid": uid_of(about),
        "resourceVersion": about["metadata"]["resourceVersion"],
    }  # fmt: skip
    if kind.namespaced:
        involved["namespace"] = namespace_of(about)
    event: Obj = {
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": f"{name_of(about)}.{digest}", "namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now,
        },
        "involvedObject": involved, "reason": reason, "message": message, "type": "Warning" if warning else "Normal",
        "reportingComponent": source,
    }  # fmt: skip
    if source in _NEW_STYLE:
        instance = {
            "reportingInstance": f"{source}-devcluster",
            "action": "Binding" if not warning else "Scheduling",
        }
        old: Obj = {"firstTimestamp": None, "lastTimestamp": None, "source": {}}
        return event | instance | old | {"eventTime": now.replace("Z", ".000000Z")}
    return event | {
        "count": 1, "firstTimestamp": now, "lastTimestamp": now, "eventTime": None, "source": {"component": source},
        "reportingInstance": "",
    }  # fmt: skip


def repeated(event: Obj) -> Obj:
    """One more of the same."""
    now, new = timestamp(), event | {"metadata": dict(event["metadata"])}
    if event["reportingComponent"] in _NEW_STYLE:
        seen = event.get("series", {}).get("count", 1)
        return new | {"series": {"count": seen + 1, "lastObservedTime": now.replace("Z", ".000000Z")}}
    return new | {"count": event.get("count", 1) + 1, "lastTimestamp": now}
