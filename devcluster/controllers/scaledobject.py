"""KEDA's controller of ScaledObjects: their autoscaler, pausing, and the end."""

from __future__ import annotations

import asyncio
import copy
import logging
import re
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.cluster import Cluster
from devcluster.defaults import fill
from devcluster.errors import ApiError
from devcluster.kinds import AUTOSCALER, SCALED_OBJECT, Kind
from devcluster.objects import Obj, annotations_of, condition, dig, labels_of, name_of, namespace_of
from devcluster.store import Change
from devcluster.validation.scaling import (
    LABEL_MAX,
    MAX_DEFAULT,
    OWNER_LABEL,
    bounds,
    hpa_name,
    no_target_kind,
    repeated_trigger,
    target_kind,
    target_of,
)

from .activation import OPERATOR, READY, annotated, follow
from .autoscaler import scale_to
from .loop import Polling
from .observing import Observer, with_word
from .triggers import TriggerError

log = logging.getLogger("devcluster")
FINALIZER = "finalizer.keda.sh"
VERSION = "2.21.0"
PAUSED, PAUSED_AT = "autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas"
_TARGET_WRONG = "ScaledObject doesn't have correct scaleTargetRef specification"
_HPA_FAILED = "failed to ensure HPA is correctly created for ScaledObject"
_PAUSED_TEXT = "ScaledObject is paused"
_RETRY_FIRST, _RETRY_MOST = 0.5, 30.0


class _CheckError(Exception):
    """Why a ScaledObject is not ready."""


def _watched(obj: Obj) -> tuple[Any, ...]:
    """The parts of an object that the operator looks at; its own status is not among them."""
    metadata = obj["metadata"]
    parts = ("labels", "annotations", "finalizers", "deletionTimestamp")
    return (obj.get("spec"), *(metadata.get(part) for part in parts))


class ScaledObjects(Polling):
    """Key: (namespace, ScaledObject)."""

    kind, owned = SCALED_OBJECT, (AUTOSCALER,)

    def __init__(self, cluster: Cluster, observer: Observer) -> None:
        super().__init__(cluster)
        self._observer = observer
        self._generations: dict[Any, tuple[str, int]] = {}
        self._failures: dict[Any, int] = {}

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        old = change.old if change.type == "MODIFIED" else None
        if old is None or _watched(old) != _watched(change.obj):
            yield from super().keys(change)

    @override
    def reconcile(self, key: Any) -> float | None:
        obj = self.store.get(SCALED_OBJECT, *key)
        if obj is None:
            self._stop_polling(key)
            return None
        if objects.deleting(obj):
            self._finalize(key, obj)
            return None
        if FINALIZER not in obj["metadata"].get("finalizers", ()):
            add = [*obj["metadata"].get("finalizers", ()), FINALIZER]
            obj = self._change(obj, lambda new: new["metadata"].update(finalizers=add))
        if "conditions" not in obj.get("status", {}):
            unknown = [objects.made_condition(type_, "Unknown") for type_ in ("Ready", "Active", "Fallback")]
            obj = self._status(obj, conditions=[*unknown, objects.made_condition("Paused", "False")])
        try:
            message = self._bring(key, obj)
        except _CheckError as error:
            self._failures[key] = self._failures.get(key, 0) + 1
            self._not_ready(obj, str(error))
            return float(min(_RETRY_MOST, _RETRY_FIRST * 2 ** (self._failures[key] - 1)))
        self._failures.pop(key, None)
        self._ready(obj, message)
        return None

    # What it says

    def _live(self, obj: Obj) -> Obj:
        return self.store.newest(SCALED_OBJECT, obj) or obj

    def _change(self, obj: Obj, change: Any) -> Obj:
        return self.cluster.modify(SCALED_OBJECT, obj, change) or obj

    def _status(self, obj: Obj, **fields: Any) -> Obj:
        """Fields of the newest status; None takes one away."""
        status = self._live(obj).get("status", {}) | fields
        return self.cluster.set_status(SCALED_OBJECT, obj, {k: v for k, v in status.items() if v is not None})

    def _say(self, obj: Obj, words: dict[str, tuple[str, str, str]]) -> Obj:
        """Several conditions in one write."""
        known = self._live(obj)["status"]["conditions"]
        for type_, word in words.items():
            known = with_word(known, type_, *word)
        return self._status(obj, conditions=known)

    def _say_paused(self, obj: Obj, *, was_paused: bool) -> Obj:
        if was_paused:
            return obj
        self._observer.event(obj, "ScaledObjectPaused", _PAUSED_TEXT)
        return self._say(obj, {"Paused": ("True", "ScaledObjectPaused", _PAUSED_TEXT)})

    def _failed(self, obj: Obj, message: str) -> None:
        self._observer.event(obj, "ScaledObjectCheckFailed", message, warning=True)

    def _ready(self, obj: Obj, message: str) -> None:
        known = condition(self._live(obj), "Ready")
        if known is not None and known["status"] != "True":
            self._observer.event(obj, "ScaledObjectReady", "ScaledObject is ready for scaling")
        self._say(obj, {"Ready": ("True", "ScaledObjectReady", message)} | _without_fallback(obj))

    def _not_ready(self, obj: Obj, message: str) -> None:
        unknown = ("Unknown", "UnknownState", "ScaledObject check failed")
        words = {"Ready": ("False", "ScaledObjectCheckFailed", message), "Active": unknown}
        self._say(obj, words | _without_fallback(obj))
        self._failed(obj, message)

    # Bringing it forward

    def _bring(self, key: Any, obj: Obj) -> str:
        """Whatever is missing; the result is the message of the Ready condition. Raises _CheckError."""
        annotations, was_paused = annotations_of(obj), objects.is_true(obj, "Paused")
        one_way = [annotated(obj, f"{PAUSED}-scale-{way}") for way in ("in", "out")]
        if PAUSED_AT in annotations or annotated(obj, PAUSED):
            self._pause(key, obj, annotations.get(PAUSED_AT), was_paused=was_paused)
            return _PAUSED_TEXT
        if any(one_way):
            obj = self._say_paused(obj, was_paused=was_paused)
        elif was_paused:
            text = "pause annotation removed for ScaledObject"
            obj = self._say(obj, {"Paused": ("False", "ScaledObjectUnpaused", text)})
            self._observer.event(obj, "ScaledObjectUnpaused", text)
            obj = self._status(obj, pausedReplicaCount=None)
        if labels_of(obj).get(OWNER_LABEL) != name_of(obj):
            label = {OWNER_LABEL: name_of(obj)}
            obj = self._change(obj, lambda new: new["metadata"].setdefault("labels", {}).update(label))
        kind, target = self._target(obj)
        obj = self._know_target(obj, kind, target)
        counts, triggers = bounds(obj["spec"]), repeated_trigger(obj["spec"]["triggers"])
        for what, wrong in (("Idle/Min/Max Replica Counts", counts), ("triggers", triggers)):
            if wrong:
                raise _CheckError(f"ScaledObject doesn't have correct {what} specification: {wrong}")
        types = dict.fromkeys(trigger["type"] for trigger in obj["spec"]["triggers"])
        obj = self._status(obj, triggersTypes=",".join(types), authenticationsTypes="")
        made = self._keep_autoscaler(obj, kind)
        if made or self._generations.get(key) != (objects.uid_of(obj), obj["metadata"]["generation"]):
            self._poll(key, self._live(obj))
        return READY

    def _target(self, obj: Obj) -> tuple[Kind, Obj]:
        ref, kind = obj["spec"]["scaleTargetRef"], target_kind(obj["spec"])
        if kind is None:
            raise _CheckError(f"{_TARGET_WRONG}: {no_target_kind(obj['spec'])}")
        target = self.store.get(kind, namespace_of(obj), ref["name"])
        if target is None:
            self._failed(obj, "Target resource doesn't exist")
            raise _CheckError(f'{_TARGET_WRONG}: {kind.resource} "{ref["name"]}" not found')
        if "scale" not in kind.subresources:
            self._failed(obj, "Target resource doesn't expose /scale subresource")
            raise _CheckError(f"{_TARGET_WRONG}: the server could not find the requested resource")
        return kind, target

    def _know_target(self, obj: Obj, kind: Kind, target: Obj) -> Obj:
        gvkr = {"group": kind.group, "kind": kind.name, "resource": kind.plural, "version": kind.version}
        known = obj["status"].get("originalReplicaCount", target["spec"]["replicas"])
        name = f"{kind.api_version}.{kind.name}"
        return self._status(obj, scaleTargetKind=name, scaleTargetGVKR=gvkr, originalReplicaCount=known)

    # The autoscaler

    def _keep_autoscaler(self, obj: Obj, kind: Kind) -> bool:
        """Make or change it; True when it is new. Raises _CheckError."""
        try:
            specs = [scaler.spec for scaler in self._observer.scalers(obj)]
        except TriggerError as error:
            raise _CheckError(f"{_HPA_FAILED}: {error}") from error
        external = [s["external"]["metric"]["name"] for s in specs if s["type"] == "External"]
        resources = [s["resource"]["name"] for s in specs if s["type"] == "Resource"]
        health = {k: v for k, v in self._live(obj)["status"].get("health", {}).items() if k in external}
        names = {"externalMetricNames": external, "resourceMetricNames": resources, "health": health}
        self._status(obj, **{field: value or None for field, value in names.items()})
        wanted, known = self._autoscaler(obj, kind, specs), obj["status"].get("hpaName")
        if known is not None and known != name_of(wanted):
            self._delete_autoscaler(obj, known)
        live = self.store.get(AUTOSCALER, namespace_of(obj), name_of(wanted))
        try:
            if live is None:
                self.cluster.create(AUTOSCALER, namespace_of(obj), wanted, OPERATOR)
            elif _differs(live, wanted):
                self.cluster.modify(AUTOSCALER, live, lambda new: _adopt(new, wanted))
        except ApiError as error:
            raise _CheckError(f"{_HPA_FAILED}: {error.message}") from error
        self._status(obj, hpaName=name_of(wanted))
        return live is None

    def _autoscaler(self, obj: Obj, kind: Kind, specs: list[Obj]) -> Obj:
        spec, behavior = (
            obj["spec"],
            copy.deepcopy(dig(obj, "spec.advanced.horizontalPodAutoscalerConfig.behavior")),
        )
        for way, rules in (("in", "scaleDown"), ("out", "scaleUp")):
            if annotated(obj, f"{PAUSED}-scale-{way}"):
                behavior = behavior or {}
                behavior.setdefault(rules, {})["selectPolicy"] = "Disabled"
        metrics = [copy.deepcopy(spec) for spec in sorted(specs, key=lambda spec: str(spec["type"]))]
        for metric in metrics:
            if "external" in metric:
                metric["external"]["metric"]["selector"] = {"matchLabels": {OWNER_LABEL: name_of(obj)}}
        name = hpa_name(obj)
        labels = {
            "app.kubernetes.io/name": re.sub(r"[^A-Za-z0-9]+$", "", name[:LABEL_MAX]),
            "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": name_of(obj),
            "app.kubernetes.io/managed-by": "keda-operator",
        }  # fmt: skip
        annotations = annotations_of(obj)
        labels |= labels_of(obj)
        wanted: Obj = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [objects.owner_reference(SCALED_OBJECT, obj)]},
            "spec": {
                "scaleTargetRef": {"apiVersion": kind.api_version, "kind": kind.name, "name": spec["scaleTargetRef"]["name"]},
                "minReplicas": spec.get("minReplicaCount") or 1, "maxReplicas": spec.get("maxReplicaCount", MAX_DEFAULT),
                "metrics": metrics,
            } | ({"behavior": behavior} if behavior is not None else {}),
        }  # fmt: skip
        if annotations:
            wanted["metadata"]["annotations"] = dict(annotations)
        fill(AUTOSCALER, wanted)
        return wanted

    def _delete_autoscaler(self, obj: Obj, name: str) -> None:
        if self.store.get(AUTOSCALER, namespace_of(obj), name) is not None:
            self.cluster.delete(AUTOSCALER, namespace_of(obj), name)

    # Polling

    def _poll(self, key: Any, obj: Obj) -> None:
        if not self.end(key):
            self._observer.event(obj, "KEDAScalersStarted", "Started scalers watch")
        self._generations[key] = (objects.uid_of(obj), obj["metadata"]["generation"])
        self._tasks[key] = asyncio.create_task(follow(self.cluster, self._observer, obj))

    def _stop_polling(self, key: Any) -> bool:
        self._generations.pop(key, None)
        return self.end(key)

    def _pause(self, key: Any, obj: Obj, replicas: str | None, *, was_paused: bool) -> None:
        obj = self._say_paused(obj, was_paused=was_paused)
        if self._stop_polling(key):
            self._observer.event(obj, "KEDAScalersStopped", "Stopped scalers watch")
        self._delete_autoscaler(obj, obj["status"].get("hpaName") or hpa_name(obj))
        if replicas is None:
            self._status(obj, pausedReplicaCount=None)
            return
        if not re.fullmatch(r"[+-]?\d+", replicas):
            why = f'strconv.ParseInt: parsing "{replicas}": invalid syntax'
            text = "failed to scale target to paused replica count: failed to parse paused replica count"
            raise _CheckError(f"{text}: {why}")
        kind, target = self._target(obj)
        if target["spec"]["replicas"] != int(replicas):
            try:
                scale_to(self.cluster, kind, target, int(replicas), OPERATOR)
            except ApiError as error:
                text = "failed to scale target to paused replica count"
                raise _CheckError(f"{text}: {text}: {error.message}") from error
        self._status(obj, pausedReplicaCount=int(replicas))

    # The end

    def _finalize(self, key: Any, obj: Obj) -> None:
        if FINALIZER not in obj["metadata"].get("finalizers", ()):
            return
        self._stop_polling(key)
        self._observer.forget(obj)
        self._failures.pop(key, None)
        kind, target = target_kind(obj["spec"]), target_of(self.store, obj)
        original = obj.get("status", {}).get("originalReplicaCount")
        if (
            dig(obj, "spec.advanced.restoreToOriginalReplicaCount")
            and kind
            and target
            and original is not None
        ):
            scale_to(self.cluster, kind, target, original, OPERATOR)
        self._observer.event(obj, "ScaledObjectDeleted", "ScaledObject was deleted", warning=True)
        self.cluster.drop_finalizer(SCALED_OBJECT, obj, FINALIZER)


def _without_fallback(obj: Obj) -> dict[str, tuple[str, str, str]]:
    if "fallback" in obj["spec"]:
        return {}
    return {"Fallback": ("False", "NoFallbackFound", "No fallbacks are active on this scaled object")}


def _differs(live: Obj, wanted: Obj) -> bool:
    before, after = live["metadata"], wanted["metadata"]
    return wanted["spec"] != live["spec"] or any(
        after.get(p) != before.get(p) for p in ("labels", "annotations")
    )


def _adopt(live: Obj, wanted: Obj) -> None:
    """KEDA writes the whole object again."""
    live["spec"] = wanted["spec"]
    for part in ("labels", "annotations", "ownerReferences"):
        live["metadata"].pop(part, None)
        if part in wanted["metadata"]:
            live["metadata"][part] = wanted["metadata"][part]
