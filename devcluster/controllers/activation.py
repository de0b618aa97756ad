"""KEDA's scale loop: between zero and one by activation, what the ScaledObject says of it, and the autoscaler's health."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from devcluster.cluster import Cluster, Options
from devcluster.errors import ApiError
from devcluster.kinds import AUTOSCALER, SCALED_OBJECT
from devcluster.objects import (
    Obj,
    annotations_of,
    condition,
    is_true,
    key_of,
    namespace_of,
    seconds,
    timestamp,
)
from devcluster.validation.scaling import target_kind, target_of

from .autoscaler import scale_to
from .observing import Observer, Record, with_word
from .triggers import TriggerError

log = logging.getLogger("devcluster")
POLLING_DEFAULT, COOLDOWN_DEFAULT = 30, 300
_PREFIX = "autoscaling.keda.sh/"
READY = "ScaledObject is defined correctly and is ready for scaling"
OPERATOR = Options(manager="keda")


def annotated(obj: Obj, name: str) -> bool:
    """A switch among the annotations; any text that is no boolean counts as true."""
    text = annotations_of(obj).get(name)
    return text is not None and text not in {"0", "f", "F", "false", "FALSE", "False"}


async def follow(cluster: Cluster, observer: Observer, obj: Obj) -> None:
    """Look at a ScaledObject at its polling interval, until it goes or this is cancelled."""
    while (live := cluster.store.newest(SCALED_OBJECT, obj)) is not None:
        began = time.monotonic()
        try:
            records = await observer.look(live)
            seen = cluster.store.newest(SCALED_OBJECT, obj)
            if seen is not None:
                _tell_fallback(observer, live, seen, records)
                _Look(cluster, observer, seen, records).decide()
        except TriggerError:
            # The scaler's event has reported it; nothing is decided without the scaler.
            pass
        except Exception:
            log.exception("the ScaledObject %s/%s could not be looked at", *key_of(obj))
        interval = live["spec"].get("pollingInterval", POLLING_DEFAULT)
        await asyncio.sleep(max(0.0, began + interval - time.monotonic()))


def _tell_fallback(observer: Observer, before: Obj, now: Obj, records: list[Record]) -> None:
    was, fallen = is_true(before, "Fallback"), any(record.fallen_back for record in records)
    if fallen and not was:
        observer.event(now, "ScaledObjectFallbackActivated", "ScaledObject fallback is active")
    elif was and not fallen:
        text = "ScaledObject fallback is no longer active"
        observer.event(now, "ScaledObjectFallbackDeactivated", text)


class _Look:
    """One look at a ScaledObject by the answers of its triggers: what it decides and reports."""

    def __init__(self, cluster: Cluster, observer: Observer, obj: Obj, records: list[Record]) -> None:
        self._cluster, self._observer, self._obj, self._records = cluster, observer, obj, records
        self._spec, self._status = obj["spec"], dict(obj["status"])
        self._failed = any(record.error for record in records)
        self._least, self._idle = self._spec.get("minReplicaCount", 0), self._spec.get("idleReplicaCount")
        target = target_of(cluster.store, obj)
        self._replicas: Any = None if target is None else target["spec"]["replicas"]

    def decide(self) -> None:
        active = {r.metric for r in self._records if (r.active or r.fallen_back) and not r.error}
        self._say("Ready", "True", "ScaledObjectReady", READY)
        if self._replicas is None:
            kind = target_kind(self._spec)
            what = (
                f'{kind.resource if kind else "the kind"} "{self._spec["scaleTargetRef"]["name"]}" not found'
            )
            text = f"Error getting current replicas count for ScaleTarget: {what}"
            self._say("Ready", "False", "ErrorGettingCurrentReplicas", text)
        else:
            self._scale_by(active)
            self._tell_health()
        names = self._status.get("externalMetricNames", [])
        if names:
            self._status["triggersActivity"] = {name: {"isActive": name in active} for name in names}
        self._cluster.set_status(SCALED_OBJECT, self._obj, self._status)

    def _say(self, type_: str, *word: str) -> None:
        self._status["conditions"] = with_word(self._status.get("conditions", []), type_, *word)

    def _scale_by(self, active: set[str]) -> None:
        measured = all(trigger["type"] == "cpu" for trigger in self._spec["triggers"]) and not self._failed
        forced = annotated(self._obj, f"{_PREFIX}force-activation")
        if active or measured or forced:
            why = "activation is being forced by annotation" if forced else "triggers are active"
            self._say("Active", "True", "ScalerActive", f"Scaling is performed because {why}")
            self._while_active("caused by forced activation annotation" if forced else "")
        else:
            text = "Scaling is not performed because triggers are not active"
            self._say("Active", "False", "ScalerNotActive", text)
            self._while_idle()

    def _while_active(self, cause: str) -> None:
        if self._replicas == 0 or (self._idle is not None and self._replicas < self._least):
            if not annotated(self._obj, f"{_PREFIX}paused-scale-out"):
                metrics = ";".join(r.metric for r in self._records if r.active or r.fallen_back)
                self._wake(cause or f"triggered by {metrics}")
        elif self._failed:
            text = "Some triggers defined in ScaledObject are not working correctly"
            self._say("Ready", "Unknown", "PartialTriggerError", text)
        else:
            self._status["lastActiveTime"] = timestamp()

    def _while_idle(self) -> None:
        fallback = self._spec.get("fallback")
        if self._failed and fallback is not None and fallback["replicas"]:
            return
        if self._failed and fallback is None:
            text = "Triggers defined in ScaledObject are not working correctly"
            self._say("Ready", "False", "TriggerError", text)
        elif (self._idle is not None and self._replicas > self._idle) or (
            self._replicas > 0 and not self._least
        ):
            if not annotated(self._obj, f"{_PREFIX}paused-scale-in"):
                self._rest(self._least if self._idle is None else self._idle)
        elif self._idle is None and self._replicas < self._least:
            self._scale(self._least, "setting ScaleTarget replicas count to ScaledObject minReplicaCount")

    def _wake(self, by: str) -> None:
        what, error = self._scale(self._least or 1, "activating ScaleTarget")
        if error:
            self._event("KEDAScaleTargetActivationFailed", f"Failed to scale {what}: {error}", warning=True)
        else:
            self._event("KEDAScaleTargetActivated", f"Scaled {what}, {by}")
            self._status["lastActiveTime"] = timestamp()

    def _rest(self, replicas: int) -> None:
        due = seconds(self._obj["metadata"]["creationTimestamp"]) + self._spec.get("initialCooldownPeriod", 0)
        if "lastActiveTime" in self._status:
            due = seconds(self._status["lastActiveTime"]) + self._spec.get("cooldownPeriod", COOLDOWN_DEFAULT)
        if due >= time.time():
            text = "Scaler cooling down because triggers are not active"
            self._say("Active", "False", "ScalerCooldown", text)
            return
        what, error = self._scale(replicas, "deactivating ScaleTarget")
        if error:
            text = f"Failed to deactivate {what}: {error}"
            self._event("KEDAScaleTargetDeactivationFailed", text, warning=True)
        else:
            self._event("KEDAScaleTargetDeactivated", f"Deactivated {what}")

    def _scale(self, replicas: int, doing: str) -> tuple[str, str]:
        """What was to change, and why it could not."""
        kind, target = target_kind(self._spec), target_of(self._cluster.store, self._obj)
        where = f"{namespace_of(self._obj)}/{self._spec['scaleTargetRef']['name']}"
        what = f"{self._status['scaleTargetKind']} {where} from {self._replicas} to {replicas}"
        try:
            if kind is not None and target is not None:
                scale_to(self._cluster, kind, target, replicas, OPERATOR)
        except ApiError as error:
            self._say("Ready", "False", "ErrorScalingTarget", f"error {doing}: {error.message}")
            return what, error.message
        return what, ""

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._observer.event(self._obj, reason, message, warning=warning)

    def _tell_health(self) -> None:
        """What the autoscaler says of itself; nothing new where it says nothing."""
        hpa = self._cluster.store.get(AUTOSCALER, namespace_of(self._obj), self._status.get("hpaName", ""))
        known = condition(hpa, "ScalingActive") if hpa is not None else None
        if known is None:
            return
        if known["status"] == "True":
            self._say("HPAActive", "True", "HPAActive", "HPA is actively scaling")
        elif known["reason"] == "ScalingDisabled":
            self._say("HPAActive", "True", "ScalingDisabled", known["message"])
        else:
            text = f"HPA is not actively scaling: {known['message']}"
            self._say("HPAActive", "False", known["reason"] or "HPAMetricsUnavailable", text)
