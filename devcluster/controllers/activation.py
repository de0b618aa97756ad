"""KEDA's scale loop: between zero and one by activation, what the ScaledObject says of it, and the autoscaler's health."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from devcluster.cluster import Cluster, Options
from devcluster.errors import ApiError
from devcluster.kinds import AUTOSCALER, SCALED_OBJECT, Kind
from devcluster.objects import Obj, condition, name_of, namespace_of, seconds, timestamp, uid_of
from devcluster.validate_scaledobject import target_kind

from .autoscaler import scale_to
from .observing import Observer, Record, with_word
from .triggers import TriggerError

log = logging.getLogger("devcluster")
POLLING_DEFAULT, COOLDOWN_DEFAULT = 30, 300
FORCED = "autoscaling.keda.sh/force-activation"
_READY = "ScaledObject is defined correctly and is ready for scaling"
_OPERATOR = Options(manager="keda")


def annotated(obj: Obj, name: str) -> bool:
    """A switch among the annotations; any text that is no boolean counts as true."""
    text = (obj["metadata"].get("annotations") or {}).get(name)
    return text is not None and text not in {"0", "f", "F", "false", "FALSE", "False"}


@dataclass(slots=True)
class _Result:
    """What one look found and did."""

    words: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    active_at: str = ""


class Activation:
    """Looks at one ScaledObject at its polling interval."""

    def __init__(self, cluster: Cluster, observer: Observer) -> None:
        self._cluster, self._observer = cluster, observer

    async def follow(self, obj: Obj) -> None:
        """Until it is cancelled."""
        where, name = namespace_of(obj), name_of(obj)
        while True:
            began = time.monotonic()
            live = self._cluster.store.get(SCALED_OBJECT, where, name)
            if live is None or uid_of(live) != uid_of(obj):
                return
            try:
                await self._look(live)
            except TriggerError:
                # The scaler's event has told; nothing is decided without it.
                pass
            except Exception:
                log.exception("the ScaledObject %s/%s could not be looked at", where, name)
            interval = live["spec"].get("pollingInterval", POLLING_DEFAULT)
            await asyncio.sleep(max(0.0, began + interval - time.monotonic()))

    async def _look(self, obj: Obj) -> None:
        records = await self._observer.look(obj)
        live = self._cluster.store.get(SCALED_OBJECT, namespace_of(obj), name_of(obj))
        if live is None or uid_of(live) != uid_of(obj):
            return
        self._tell_fallback(obj, live, records)
        active = any(r.active or r.fallen_back for r in records if not r.error)
        failed = any(record.error for record in records)
        only_resources = all(trigger["type"] == "cpu" for trigger in live["spec"]["triggers"])
        result = self._request(live, records, active=active or (only_resources and not failed), failed=failed)
        self._write(live, records, result)

    def _tell_fallback(self, before: Obj, now: Obj, records: list[Record]) -> None:
        known = condition(before, "Fallback")
        was, fallen = known is not None and known["status"] == "True", any(r.fallen_back for r in records)
        if fallen and not was:
            self._observer.event(now, "ScaledObjectFallbackActivated", "ScaledObject fallback is active")
        elif was and not fallen:
            text = "ScaledObject fallback is no longer active"
            self._observer.event(now, "ScaledObjectFallbackDeactivated", text)

    # Deciding

    def _request(self, obj: Obj, records: list[Record], *, active: bool, failed: bool) -> _Result:
        result, kind = _Result({"Ready": ("True", "ScaledObjectReady", _READY)}), target_kind(obj["spec"])
        name = obj["spec"]["scaleTargetRef"]["name"]
        target = self._cluster.store.get(kind, namespace_of(obj), name) if kind else None
        if kind is None or target is None:
            resource = kind.resource if kind else "the kind"
            text = f'Error getting current replicas count for ScaleTarget: {resource} "{name}" not found'
            result.words["Ready"] = ("False", "ErrorGettingCurrentReplicas", text)
            return result
        forced = annotated(obj, FORCED)
        if active or forced:
            why = "activation is being forced by annotation" if forced else "triggers are active"
            result.words["Active"] = ("True", "ScalerActive", f"Scaling is performed because {why}")
            self._while_active(obj, (kind, target), records, result, failed=failed)
        else:
            text = "Scaling is not performed because triggers are not active"
            result.words["Active"] = ("False", "ScalerNotActive", text)
            self._while_idle(obj, (kind, target), result, failed=failed)
        health = self._autoscaler_health(obj)
        if health is not None:
            result.words["HPAActive"] = health
        return result

    def _while_active(
        self, obj: Obj, target: tuple[Kind, Obj], records: list[Record], result: _Result, *, failed: bool
    ) -> None:
        spec, current = obj["spec"], target[1]["spec"]["replicas"]
        if current == 0 or ("idleReplicaCount" in spec and current < spec.get("minReplicaCount", 0)):
            self._wake(obj, target, records, result)
        elif failed:
            text = "Some triggers defined in ScaledObject are not working correctly"
            result.words["Ready"] = ("Unknown", "PartialTriggerError", text)
        else:
            result.active_at = timestamp()

    def _while_idle(self, obj: Obj, target: tuple[Kind, Obj], result: _Result, *, failed: bool) -> None:
        spec, current = obj["spec"], target[1]["spec"]["replicas"]
        fallback, least, idle = (
            spec.get("fallback"),
            spec.get("minReplicaCount", 0),
            spec.get("idleReplicaCount"),
        )
        if failed and fallback is not None and fallback["replicas"]:
            return
        if failed and fallback is None:
            text = "Triggers defined in ScaledObject are not working correctly"
            result.words["Ready"] = ("False", "TriggerError", text)
        elif (idle is not None and current > idle) or (current > 0 and least == 0):
            self._rest(obj, target, least if idle is None else idle, result)
        elif idle is None and current < least:
            self._scale(
                target, least, result, "setting ScaleTarget replicas count to ScaledObject minReplicaCount"
            )

    def _wake(self, obj: Obj, target: tuple[Kind, Obj], records: list[Record], result: _Result) -> None:
        if annotated(obj, "autoscaling.keda.sh/paused-scale-out"):
            return
        before, after = target[1]["spec"]["replicas"], obj["spec"].get("minReplicaCount") or 1
        what = f"{obj['status']['scaleTargetKind']} {namespace_of(obj)}/{name_of(target[1])} from {before} to {after}"
        by = "triggered by " + ";".join(r.metric for r in records if r.active or r.fallen_back)
        if annotated(obj, FORCED):
            by = "caused by forced activation annotation"
        error = self._scale(target, after, result, "activating ScaleTarget")
        if error:
            text = f"Failed to scale {what}: {error}"
            self._observer.event(obj, "KEDAScaleTargetActivationFailed", text, warning=True)
            return
        self._observer.event(obj, "KEDAScaleTargetActivated", f"Scaled {what}, {by}")
        result.active_at = timestamp()

    def _rest(self, obj: Obj, target: tuple[Kind, Obj], after: int, result: _Result) -> None:
        if annotated(obj, "autoscaling.keda.sh/paused-scale-in"):
            return
        spec, last = obj["spec"], obj["status"].get("lastActiveTime")
        due = seconds(obj["metadata"]["creationTimestamp"]) + spec.get("initialCooldownPeriod", 0)
        if last is not None:
            due = seconds(last) + spec.get("cooldownPeriod", COOLDOWN_DEFAULT)
        if due >= time.time():
            text = "Scaler cooling down because triggers are not active"
            result.words["Active"] = ("False", "ScalerCooldown", text)
            return
        before = target[1]["spec"]["replicas"]
        what = f"{obj['status']['scaleTargetKind']} {namespace_of(obj)}/{name_of(target[1])} from {before} to {after}"
        error = self._scale(target, after, result, "deactivating ScaleTarget")
        if error:
            text = f"Failed to deactivate {what}: {error}"
            self._observer.event(obj, "KEDAScaleTargetDeactivationFailed", text, warning=True)
        else:
            self._observer.event(obj, "KEDAScaleTargetDeactivated", f"Deactivated {what}")

    def _scale(self, target: tuple[Kind, Obj], replicas: int, result: _Result, doing: str) -> str:
        """Empty, or why it could not be done."""
        try:
            scale_to(self._cluster, *target, replicas, _OPERATOR)
        except ApiError as error:
            result.words["Ready"] = ("False", "ErrorScalingTarget", f"error {doing}: {error.message}")
            return error.message
        return ""

    def _autoscaler_health(self, obj: Obj) -> tuple[str, str, str] | None:
        """Status, reason and message of HPAActive; None leaves what is known."""
        name = obj["status"].get("hpaName", "")
        hpa = self._cluster.store.get(AUTOSCALER, namespace_of(obj), name)
        known = condition(hpa, "ScalingActive") if hpa is not None else None
        if known is None:
            return None
        if known["status"] == "True":
            return "True", "HPAActive", "HPA is actively scaling"
        if known["reason"] == "ScalingDisabled":
            return "True", "ScalingDisabled", known["message"]
        reason = known["reason"] or "HPAMetricsUnavailable"
        return "False", reason, f"HPA is not actively scaling: {known['message']}"

    def _write(self, obj: Obj, records: list[Record], result: _Result) -> None:
        live = self._cluster.store.get(SCALED_OBJECT, namespace_of(obj), name_of(obj))
        if live is None or uid_of(live) != uid_of(obj):
            return
        status: Obj = dict(live["status"])
        for type_, word in result.words.items():
            status["conditions"] = with_word(status.get("conditions", []), type_, *word)
        if result.active_at:
            status["lastActiveTime"] = result.active_at
        active = {r.metric for r in records if (r.active or r.fallen_back) and not r.error}
        names = live["status"].get("externalMetricNames", [])
        if names:
            status["triggersActivity"] = {name: {"isActive": name in active} for name in names}
        self._cluster.set_status(SCALED_OBJECT, live, status)
