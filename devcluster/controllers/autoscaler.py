"""The HorizontalPodAutoscaler controller: asks its metrics at an interval and scales, with Kubernetes' conditions."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.cluster import Cluster, Options
from devcluster.errors import ApiError
from devcluster.kinds import AUTOSCALER, BY_NAME, Kind
from devcluster.objects import Obj, key_of, made_condition, namespace_of, uid_of
from devcluster.store import Change

from .loop import Polling
from .proposals import MetricError, Proposal, Target, Use, external, resource, selector_text
from .stabilize import Ask, Memory, decide

log = logging.getLogger("devcluster")
_MANAGER = Options(manager="kube-controller-manager")
_REASONS = {"External": "FailedGetExternalMetric", "Resource": "FailedGetResourceMetric"}
_NO_USAGE = (
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find "
    "the requested resource (get pods.metrics.k8s.io)"
)

External = Callable[[str, str, Obj], Awaitable[int]]
"""Namespace, metric and selector: its value in thousandths. Raises MetricError."""


def scale_to(cluster: Cluster, kind: Kind, target: Obj, replicas: int, manager: Options) -> None:
    """Through the scale subresource, so that the field has this manager from then on."""
    change = {"spec": {"replicas": replicas}}
    cluster.patch(kind, *key_of(target), "application/merge-patch+json", change, manager, sub="scale")


class _Failed(Exception):
    """All metrics failed, or those that could have forbidden to scale down."""


class _Round:
    """One look at one autoscaler."""

    def __init__(self, hpa: Obj) -> None:
        self.hpa, self.spec = hpa, hpa["spec"]
        self.status: Obj = copy.deepcopy(hpa["status"])
        self.conditions: list[Obj] = self.status.get("conditions") or []

    def say(self, type_: str, status: str, reason: str, message: str) -> None:
        self.conditions = objects.with_condition(
            self.conditions, made_condition(type_, status, reason, message)
        )


class Autoscalers(Polling):
    """Key: (namespace, autoscaler)."""

    kind, source = AUTOSCALER, "horizontal-pod-autoscaler"

    def __init__(self, cluster: Cluster, interval: float, value: External, use: Use | None) -> None:
        super().__init__(cluster)
        self._interval, self._value, self._use = interval, value, use
        self._memories: dict[str, Memory] = {}

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.type != "MODIFIED":
            yield from super().keys(change)

    @override
    def reconcile(self, key: Any) -> float | None:
        autoscaler = self.store.get(AUTOSCALER, *key)
        if autoscaler is None:
            self.end(key)
        elif key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._follow(key))
        return None

    async def _follow(self, key: Any) -> None:
        while True:
            # As in Kubernetes, also the first look is an interval after the creation.
            await asyncio.sleep(self._interval)
            autoscaler = self.store.get(AUTOSCALER, *key)
            if autoscaler is None:
                continue
            live = {uid_of(hpa) for hpa in self.store.list(AUTOSCALER)}
            self._memories = {uid: memory for uid, memory in self._memories.items() if uid in live}
            try:
                await self._look(_Round(autoscaler))
            except Exception:
                log.exception("the autoscaler %s could not be looked at", key)

    # One look

    async def _look(self, turn: _Round) -> None:
        ref, where = turn.spec["scaleTargetRef"], namespace_of(turn.hpa)
        kind = BY_NAME.get((ref["apiVersion"], ref["kind"]))
        target = self.store.get(kind, where, ref["name"]) if kind and "scale" in kind.subresources else None
        if kind is None or target is None:
            self._no_scale(turn, kind)
            return
        text = "the HPA controller was able to get the target's current scale"
        turn.say("AbleToScale", "True", "SucceededGetScale", text)
        memory = self._memories.setdefault(uid_of(turn.hpa), Memory())
        current = target["spec"]["replicas"]
        if not memory.recommended:
            memory.recommended.append((time.time(), current))
        try:
            desired, why, metrics = await self._desired(turn, target, memory)
        except _Failed as error:
            turn.status |= {"currentReplicas": current}
            self._store(turn)
            self.event(turn.hpa, "FailedComputeMetricsReplicas", str(error), warning=True)
            return
        if desired != current:
            try:
                scale_to(self.cluster, kind, target, desired, _MANAGER)
            except ApiError as error:
                self._cannot(turn, desired, why, error)
                return
            text = f"the HPA controller was able to update the target scale to {desired}"
            turn.say("AbleToScale", "True", "SucceededRescale", text)
            self.event(turn.hpa, "SuccessfulRescale", f"New size: {desired}; reason: {why}")
            memory.scaled(time.time(), current, desired, turn.spec.get("behavior"))
            turn.status["lastScaleTime"] = objects.timestamp()
        turn.status |= {"currentReplicas": current, "desiredReplicas": desired, "currentMetrics": metrics}
        self._store(turn)

    async def _desired(self, turn: _Round, target: Obj, memory: Memory) -> tuple[int, str, list[Obj] | None]:
        """How many replicas there should be, why, and what the metrics say."""
        current, least, most = target["spec"]["replicas"], turn.spec["minReplicas"], turn.spec["maxReplicas"]
        if current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            turn.say("ScalingActive", "False", "ScalingDisabled", text)
            return 0, "", None
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas", None
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas", None
        best, metrics = await self._asked(turn, target)
        why = "" if best.replicas == current else "All metrics below target"
        if best.replicas > current:
            why = f"{best.metric} above target"
        ask = Ask(time.time(), current, best.replicas, least, most)
        verdict = decide(memory, ask, turn.spec.get("behavior"))
        turn.say("AbleToScale", "True", *verdict.able)
        limited, reason, message = verdict.limited
        turn.say("ScalingLimited", str(limited), reason, message)
        return verdict.replicas, why, metrics

    async def _asked(self, turn: _Round, target: Obj) -> tuple[Proposal, list[Obj]]:
        """The metric that asks for the most; one that fails only forbids to scale down."""
        pods = self.cluster.pods_of(namespace_of(target), target["spec"].get("selector"))
        scale = Target(target["spec"]["replicas"], target.get("status", {}).get("replicas", 0), pods)
        best, failures, statuses = Proposal(0, "", {}), [], []
        for metric in turn.spec["metrics"]:
            try:
                one = await self._one(turn, metric, scale)
            except MetricError as error:
                failures.append((metric["type"], str(error)))
                statuses.append({"type": ""})
                self.event(turn.hpa, _REASONS[metric["type"]], str(error), warning=True)
                continue
            statuses.append(one.status)
            best = one if one.replicas > best.replicas or not best.metric else best
        if failures and (len(failures) == len(statuses) or best.replicas < scale.wanted):
            type_, text = failures[0]
            message = f"the HPA was unable to compute the replica count: {text}"
            turn.say("ScalingActive", "False", _REASONS[type_], message)
            turn.status["currentMetrics"] = statuses
            count = f"invalid metrics ({len(failures)} invalid out of {len(statuses)}), first error is"
            raise _Failed(f"{count}: {self._wrapped(turn, text, type_)}")
        text = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        turn.say("ScalingActive", "True", "ValidMetricFound", text)
        return best, statuses

    @staticmethod
    def _wrapped(turn: _Round, text: str, type_: str) -> str:
        first = next(metric for metric in turn.spec["metrics"] if metric["type"] == type_)
        if type_ != "External":
            return f"failed to get cpu resource metric value: {text}"
        name = first["external"]["metric"]["name"]
        inner = f"failed to get {name} external metric: {text}"
        if "value" in first["external"]["target"]:
            inner = f"failed to get external metric {name}: {text}"
        return f"failed to get {name} external metric value: {inner}"

    async def _one(self, turn: _Round, metric: Obj, scale: Target) -> Proposal:
        if metric["type"] == "External":
            source, where = metric["external"], namespace_of(turn.hpa)
            name, selector = source["metric"]["name"], source["metric"].get("selector")
            try:
                amount = await self._value(where, name, selector or {})
            except MetricError as error:
                shown = f"{where}/{name}/{selector_text(selector)}"
                text = "unable to fetch metrics from external metrics API"
                raise MetricError(f"unable to get external metric {shown}: {text}: {error}") from error
            return external(source, amount, scale)
        source = metric["resource"]
        word = "utilization" if "averageUtilization" in source["target"] else "usage"
        prefix, use = f"failed to get {source['name']} {word}", self._use
        if use is None:
            raise MetricError(f"{prefix}: {_NO_USAGE}")
        if source["name"] != "cpu":
            raise MetricError(f"{prefix}: devcluster measures no {source['name']}, only cpu")
        try:
            return resource(source, scale, use)
        except MetricError as error:
            raise MetricError(f"{prefix}: {error}") from error

    # What it says

    def _no_scale(self, turn: _Round, kind: Kind | None) -> None:
        ref = turn.spec["scaleTargetRef"]
        text = f'no matches for kind "{ref["kind"]}" in group "{ref["apiVersion"].partition("/")[0]}"'
        if kind is not None:
            text = f'{kind.resource} "{ref["name"]}" not found'
        self.event(turn.hpa, "FailedGetScale", text, warning=True)
        message = f"the HPA controller was unable to get the target's current scale: {text}"
        turn.say("AbleToScale", "False", "FailedGetScale", message)
        self._store(turn)

    def _cannot(self, turn: _Round, desired: int, why: str, error: ApiError) -> None:
        text = f"New size: {desired}; reason: {why}; error: {error.message}"
        self.event(turn.hpa, "FailedRescale", text, warning=True)
        message = f"the HPA controller was unable to update the target scale: {error.message}"
        turn.say("AbleToScale", "False", "FailedUpdateScale", message)
        self._store(turn)

    def _store(self, turn: _Round) -> None:
        self.cluster.set_status(AUTOSCALER, turn.hpa, turn.status | {"conditions": turn.conditions})
