"""What KEDA's operator keeps of each ScaledObject: its scalers, their last answers, and the fallback."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import aiohttp

from devcluster.cluster import Cluster
from devcluster.kinds import AUTOSCALER, SCALED_OBJECT
from devcluster.objects import Obj, condition, is_true, made_condition, namespace_of, phase_of, uid_of
from devcluster.validation.scaling import OWNER_LABEL, target_of

from .proposals import MetricError, milli
from .triggers import Scaler, TriggerError, build

SOURCE = "keda-operator"
_UNKNOWN = "rpc error: code = Unknown desc = error when getting metric values"


@dataclass(frozen=True, slots=True)
class Record:
    """One look at one trigger; `amount` is in thousandths, None where there is none."""

    metric: str
    amount: int | None
    active: bool
    fallen_back: bool
    error: str = ""


@dataclass(slots=True)
class _Known:
    """What is known of one ScaledObject, by its generation: other metadata makes other scalers."""

    generation: int
    scalers: list[Scaler]
    records: dict[str, Record] = field(default_factory=dict)


class Observer:
    """Asks the triggers; the autoscalers and the polling of the ScaledObjects share what it learns."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, _Known] = {}
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def forget(self, obj: Obj) -> None:
        self._known.pop(uid_of(obj), None)

    def scalers(self, obj: Obj) -> list[Scaler]:
        """The triggers' scalers; an event says of each that it was built. Raises TriggerError."""
        known, generation = self._known.get(uid_of(obj)), obj["metadata"]["generation"]
        if known is None or known.generation != generation:
            made = []
            for index, trigger in enumerate(obj["spec"]["triggers"]):
                try:
                    made.append(build(index, trigger))
                except TriggerError as error:
                    self.event(obj, "KEDAScalerFailed", str(error), warning=True)
                    raise
                self.event(obj, "KEDAScalersStarted", f"Scaler {trigger['type']} is built")
            known = self._known[uid_of(obj)] = _Known(generation, made)
        return known.scalers

    def event(self, obj: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        self._cluster.event(SCALED_OBJECT, obj, reason, message, source=SOURCE, warning=warning)

    # For the autoscaler

    async def metric(self, namespace: str, name: str, selector: Obj) -> int:
        """What KEDA's metrics adapter answers. Raises MetricError."""
        owner = (selector.get("matchLabels") or {}).get(OWNER_LABEL)
        obj = self._cluster.store.get(SCALED_OBJECT, namespace, owner) if owner else None
        if obj is None:
            raise MetricError(
                f"no matching metrics found for {name}: no ScaledObject is named by the selector"
            )
        try:
            scalers = self.scalers(obj)
        except TriggerError as error:
            raise MetricError(f"{_UNKNOWN} error getting scalers {error}") from error
        for scaler in scalers:
            if scaler.spec.get("external", {}).get("metric", {}).get("name") != name:
                continue
            record = self._known[uid_of(obj)].records[name] = await self._observe(obj, scaler)
            if record.amount is None:
                raise MetricError(f"{_UNKNOWN} metric:{name} encountered error")
            return record.amount
        raise MetricError(f"{_UNKNOWN} no matching metrics found for {name}")

    # For the ScaledObject

    async def look(self, obj: Obj) -> list[Record]:
        """Every external trigger; what the autoscaler has just seen is not asked for again. Raises TriggerError."""
        scalers, records = self.scalers(obj), []
        known, seen = self._known[uid_of(obj)], self._seen_by_autoscaler(obj)
        for scaler in scalers:
            if scaler.spec["type"] != "External":
                continue
            name = scaler.spec["external"]["metric"]["name"]
            record = known.records.get(name) if seen else None
            if record is None:
                record = known.records[name] = await self._observe(obj, scaler)
            if record.error:
                self.event(obj, "KEDAScalerFailed", record.error, warning=True)
            records.append(record)
        return records

    def _seen_by_autoscaler(self, obj: Obj) -> bool:
        """Whether KEDA leaves the asking to the autoscaler: where it never scales to zero by itself."""
        spec = obj["spec"]
        if not spec.get("minReplicaCount") or "idleReplicaCount" in spec:
            return False
        hpa = self._cluster.store.get(AUTOSCALER, namespace_of(obj), obj["status"].get("hpaName", ""))
        return hpa is not None and is_true(hpa, "ScalingActive")

    async def _observe(self, obj: Obj, scaler: Scaler) -> Record:
        if self._http is None:
            self._http = aiohttp.ClientSession()
        name = scaler.spec["external"]["metric"]["name"]
        try:
            value, active = await scaler.value(self._http)
        except TriggerError as error:
            return self._failed(obj, scaler, name, str(error))
        if "fallback" in obj["spec"]:
            self._note(obj, name, {"numberOfFailures": 0, "status": "Happy"})
        return Record(name, math.ceil(round(max(value, 0.0), 3) * 1000), active, fallen_back=False)

    # The fallback

    def _failed(self, obj: Obj, scaler: Scaler, name: str, error: str) -> Record:
        fallback = obj["spec"].get("fallback")
        live = self._cluster.store.newest(SCALED_OBJECT, obj)
        if fallback is None or live is None:
            return Record(name, None, active=False, fallen_back=False, error=error)
        before = live["status"].get("health", {}).get(name, {}).get("numberOfFailures", 0)
        self._note(obj, name, {"numberOfFailures": before + 1, "status": "Failing"})
        if before + 1 <= fallback["failureThreshold"]:
            return Record(name, None, active=False, fallen_back=False, error=error)
        amount = self._fallback_amount(obj, scaler)
        if amount is None:
            return Record(name, None, active=False, fallen_back=False, error="error performing fallback")
        return Record(name, amount, active=False, fallen_back=True)

    def _note(self, obj: Obj, name: str, health: Obj) -> None:
        """The health of a metric, and with it the Fallback condition."""
        live = self._cluster.store.newest(SCALED_OBJECT, obj)
        if live is None:
            return
        status = live["status"] | {"health": {**live["status"].get("health", {}), name: health}}
        limit = obj["spec"]["fallback"]["failureThreshold"]
        fallen = any(
            metric["status"] == "Failing" and metric["numberOfFailures"] > limit
            for metric in status["health"].values()
        )
        word = ("True", "FallbackExists", "At least one trigger is falling back on this scaled object")
        if not fallen:
            word = ("False", "NoFallbackFound", "No fallbacks are active on this scaled object")
        status["conditions"] = with_word(status.get("conditions", []), "Fallback", *word)
        self._cluster.set_status(SCALED_OBJECT, live, status)

    def _fallback_amount(self, obj: Obj, scaler: Scaler) -> int | None:
        """The value by which the autoscaler comes to the wanted number; None where no ready pod can be divided by."""
        fallback, workload = obj["spec"]["fallback"], target_of(self._cluster.store, obj)
        if workload is None:
            return None
        replicas = fallback["replicas"]
        target = scaler.spec["external"]["target"]
        if "averageValue" in target:
            return int(milli(target["averageValue"]) * replicas)
        pods = self._cluster.pods_of(namespace_of(obj), workload["spec"].get("selector"))
        ready = sum(phase_of(pod) == "Running" and is_true(pod, "Ready") for pod in pods)
        return int(milli(target["value"]) * replicas / ready) if ready else None


def with_word(
    conditions: list[Obj], type_: str, status: str, reason: str = "", message: str = ""
) -> list[Obj]:
    """The conditions with one of them set. KEDA's have no time of transition."""
    new = made_condition(type_, status, reason, message)
    if condition({"status": {"conditions": conditions}}, type_) is None:
        return [*conditions, new]
    return [new if known["type"] == type_ else known for known in conditions]
