"""KEDA's scalers: what a trigger makes of its metadata, which metric it gives the autoscaler, and its value now."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import aiohttp

from devcluster.objects import Obj, quantity, show_quantity, timestamp

from .cron import parse

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)
OWN_HEADERS: dict[str, dict[str, str]] = {}
"""What the Prometheus of this process asks for, by its address; no other server gets it."""
_BOOLEAN = re.compile("1|t|T|TRUE|true|True|0|f|F|FALSE|false|False")


class TriggerError(Exception):
    """A trigger that cannot be built, or that has no value; in KEDA's words."""


class Scaler(Protocol):
    """One trigger."""

    @property
    def spec(self) -> Obj:
        """The metric as the HorizontalPodAutoscaler names it."""

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        """Its value, and whether the workload is to be active. Raises TriggerError."""


def build(index: int, trigger: Obj) -> Scaler:
    """The scaler of a trigger. Raises TriggerError."""
    if trigger["type"] not in _SCALERS:
        raise TriggerError(f"no scaler found for type: {trigger['type']}")
    if trigger.get("metricType") == "Utilization" and trigger["type"] != "cpu":
        text = "'Utilization' metric type is unsupported for external metrics, allowed values are 'Value' or 'AverageValue'"
        raise TriggerError(f"error getting scaler metric type: {text}")
    return _SCALERS[trigger["type"]](index, trigger)


def _target(trigger: Obj, goal: float) -> Obj:
    """AverageValue is the default: so much for each replica."""
    type_ = trigger.get("metricType") or "AverageValue"
    key = "averageValue" if type_ == "AverageValue" else "value"
    return {"type": type_, key: show_quantity(quantity(f"{max(goal, 0.0):.3f}"))}


def _external(index: int, name: str, target: Obj) -> Obj:
    return {"type": "External", "external": {"metric": {"name": f"s{index}-{name}"}, "target": target}}


class _Metadata:
    """Typed values of a trigger's metadata; the errors name the scaler."""

    def __init__(self, trigger: Obj, prefix: str) -> None:
        self._values, self._prefix = trigger["metadata"], prefix

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name) or default
        if value is None:
            raise TriggerError(f'{self._prefix}missing required parameter "{name}" in [triggerMetadata]')
        return str(value)

    def number(self, name: str, default: str | None = None) -> float:
        return float(self._read(name, default, _NUMBER, "float64"))

    def whole(self, name: str) -> int:
        return int(self._read(name, None, _WHOLE, "int64"))

    def boolean(self, name: str, *, default: bool) -> bool:
        return self._read(name, str(default).lower(), _BOOLEAN, "bool")[0] in "1tT"

    def _read(self, name: str, default: str | None, form: re.Pattern[str], type_: str) -> str:
        text = self.text(name, default)
        if form.fullmatch(text) is None:
            why = f"unable to unmarshal to field type {type_}: invalid character"
            if type_ == "bool":
                why = f'unable to parse boolean value "{text}": strconv.ParseBool: parsing "{text}": invalid syntax'
            raise TriggerError(f'{self._prefix}unable to set param "{name}" value "{text}": {why}')
        return text


class _Prometheus:
    def __init__(self, index: int, trigger: Obj) -> None:
        metadata = _Metadata(
            trigger, "error parsing prometheus metadata: error parsing prometheus metadata: "
        )
        self._address, self._query = metadata.text("serverAddress"), metadata.text("query")
        self.spec = _external(index, "prometheus", _target(trigger, metadata.number("threshold")))
        self._activation = metadata.number("activationThreshold", "0")
        self._empty_is_zero = metadata.boolean("ignoreNullValues", default=True)

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        number = self._read(await self._answer(http))
        return number, number > self._activation

    async def _answer(self, http: aiohttp.ClientSession) -> list[Obj]:
        url = f"{self._address}/api/v1/query?query={quote(self._query, safe='')}&time={timestamp()}"
        try:
            async with http.get(url, headers=OWN_HEADERS.get(self._address), timeout=_TIMEOUT) as answer:
                if not 200 <= answer.status <= 299:
                    raise TriggerError(f"prometheus query api returned error. status: {answer.status}")
                result = json.loads(await answer.read())["data"]["result"]
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TriggerError(f'Get "{url}": {str(error) or "context deadline exceeded"}') from error
        except (ValueError, KeyError, TypeError) as error:
            raise TriggerError(f"invalid answer of {self._address}: {error}") from error
        if not isinstance(result, list) or not all(isinstance(item, dict) for item in result):
            raise TriggerError("json: cannot unmarshal number into Go struct field .data.result")
        return result

    def _read(self, result: list[Any]) -> float:
        if len(result) > 1:
            raise TriggerError(f"prometheus query {self._query} returned multiple elements")
        if not result or not result[0].get("value"):
            if self._empty_is_zero:
                return 0.0
            what = "the result is empty" if not result else "the value list is empty"
            raise TriggerError(f"prometheus metrics 'prometheus' target may be lost, {what}")
        number = float(result[0]["value"][1])
        if math.isfinite(number):
            return number
        if self._empty_is_zero:
            return 0.0
        raise TriggerError(f"prometheus query returns {number:f}")


class _Cron:
    def __init__(self, index: int, trigger: Obj) -> None:
        prefix = "error parsing cron metadata: "
        target, metadata = _target(trigger, 1.0), _Metadata(trigger, prefix)
        start, end, self._zone = metadata.text("start"), metadata.text("end"), metadata.text("timezone")
        self._replicas = metadata.whole("desiredReplicas")
        schedules = []
        for word, text in (("start", start), ("end", end)):
            try:
                schedules.append(parse(text))
            except ValueError as error:
                raise TriggerError(f"{prefix}error parsing {word} schedule: {error}") from error
        self._start, self._end = schedules
        if start == end:
            raise TriggerError(f"{prefix}start and end can not have exactly same time input")
        if not self._replicas:
            raise TriggerError(f"{prefix}no desiredReplicas specified")
        times = "-".join(_in_a_name(text) for text in (start, end))
        self.spec = _external(index, re.sub(r"[/.:%()]", "-", f"cron-{self._zone}-{times}"), target)

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        try:
            now = datetime.fromtimestamp(time.time(), ZoneInfo(self._zone))
        except (ZoneInfoNotFoundError, ValueError):
            raise TriggerError(f"unable to load timezone: unknown time zone {self._zone}") from None
        start, end = self._start.next(now), self._end.next(now)
        # Within the interval its end comes before its next start.
        within = end is not None and (start is None or end < start)
        return float(self._replicas if within else 0), within


def _in_a_name(text: str) -> str:
    for sign, word in ((" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")):
        text = text.replace(sign, word)
    return text


class _Cpu:
    """The autoscaler measures it itself."""

    def __init__(self, _index: int, trigger: Obj) -> None:
        prefix = "error parsing cpu metadata: "
        metadata, type_ = _Metadata(trigger, prefix), trigger.get("metricType", "")
        if type_ == "Utilization":
            target: Obj = {"type": type_, "averageUtilization": metadata.whole("value")}
        elif type_ == "AverageValue":
            target = {"type": type_, "averageValue": show_quantity(quantity(metadata.text("value")))}
        else:
            allowed = "allowed values are 'Utilization' or 'AverageValue'"
            raise TriggerError(f"{prefix}unknown metric type: {type_}, {allowed}")
        self.spec = {"type": "Resource", "resource": {"name": "cpu", "target": target}}

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        return 0.0, True


_SCALERS: dict[str, Callable[[int, Obj], Scaler]] = {"prometheus": _Prometheus, "cron": _Cron, "cpu": _Cpu}
