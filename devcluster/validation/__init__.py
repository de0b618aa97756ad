"""What is refused of the served kinds, in the words of the real server: by field, by rules over several, by webhooks."""

from __future__ import annotations

from devcluster.errors import Fault
from devcluster.kinds import PYTORCH_JOB, SCALED_OBJECT, Kind
from devcluster.objects import Obj, deleting
from devcluster.store import Store

from . import constraints, kubernetes, scaling, training


def on_create(kind: Kind, obj: Obj) -> list[Fault]:
    faults = [*kubernetes.metadata(kind, obj), *constraints.faults(kind, obj)]
    if kind in kubernetes.RULES:
        faults += kubernetes.RULES[kind](obj)
    elif kind is SCALED_OBJECT and not faults:
        faults += scaling.rule(obj)
    return faults


def on_update(kind: Kind, old: Obj, new: Obj) -> list[Fault]:
    changes = training.queue_change(old, new) if kind is PYTORCH_JOB else kubernetes.changes(kind, old, new)
    return [*on_create(kind, new), *changes]


def review(store: Store, kind: Kind, obj: Obj) -> None:
    """The webhooks, which may look at other objects too; KEDA's looks at nothing that is on its way out."""
    if kind is PYTORCH_JOB:
        training.review(obj)
    elif kind is SCALED_OBJECT and not deleting(obj):
        scaling.review(store, obj)
