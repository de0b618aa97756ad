"""KEDA's scalers: what a trigger makes of its metadata, which metric it gives the autoscaler, and its value now."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import aiohttp

from devcluster.objects import Obj, quantity, show_quantity, timestamp

from .cron import parse

TIMEOUT_SECONDS = 3.0


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
    try:
        make = {"prometheus": _prometheus, "cron": _cron, "cpu": _cpu}[trigger["type"]]
    except KeyError:
        raise TriggerError(f"no scaler found for type: {trigger['type']}") from None
    if trigger.get("metricType") == "Utilization" and trigger["type"] != "cpu":
        raise TriggerError(
            "error getting scaler metric type: 'Utilization' metric type is unsupported for external metrics, allowed "
            "values are 'Value' or 'AverageValue'"
        )
    return make(index, trigger)


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
        self._given, self._prefix = trigger["metadata"], prefix

    def text(self, name: str, default: str | None = None) -> str:
        found = self._given.get(name) or default
        if found is None:
            raise TriggerError(f'{self._prefix}missing required parameter "{name}" in [triggerMetadata]')
        return str(found)

    def number(self, name: str, default: str | None = None) -> float:
        text = self.text(name, default)
        try:
            return float(text)
        except ValueError:
            self._wrong(name, text, "float64")
            raise AssertionError from None

    def whole(self, name: str) -> int:
        text = self.text(name)
        if re.fullmatch(r"[+-]?\d+", text) is None:
            self._wrong(name, text, "int64")
        return int(text)

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default).lower())
        if text not in {"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"}:
            why = (
                f'unable to parse boolean value "{text}": strconv.ParseBool: parsing "{text}": invalid syntax'
            )
            raise TriggerError(f'{self._prefix}unable to set param "{name}" value "{text}": {why}')
        return text[0] in "1tT"

    def _wrong(self, name: str, text: str, type_: str) -> None:
        why = f"unable to unmarshal to field type {type_}: invalid character"
        raise TriggerError(f'{self._prefix}unable to set param "{name}" value "{text}": {why}')


@dataclass(frozen=True, slots=True)
class _Prometheus:
    spec: Obj
    address: str
    query: str
    activation: float
    empty_is_zero: bool
    parameters: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    timeout: float

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        number = self._read(await self._answer(http))
        return number, number > self.activation

    async def _answer(self, http: aiohttp.ClientSession) -> list[Obj]:
        now = timestamp()
        more = "".join(f"&{quote(key)}={quote(text)}" for key, text in self.parameters)
        url = f"{self.address}/api/v1/query?query={quote(self.query, safe='')}&time={now}{more}"
        limit = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with http.get(url, headers=self.headers, timeout=limit) as answer:
                if not 200 <= answer.status <= 299:
                    raise TriggerError(f"prometheus query api returned error. status: {answer.status}")
                found = json.loads(await answer.read())["data"]["result"]
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TriggerError(f'Get "{url}": {str(error) or "context deadline exceeded"}') from error
        except (ValueError, KeyError, TypeError) as error:
            raise TriggerError(f"invalid answer of {self.address}: {error}") from error
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise TriggerError("json: cannot unmarshal number into Go struct field .data.result")
        return found

    def _read(self, result: list[Any]) -> float:
        if len(result) > 1:
            raise TriggerError(f"prometheus query {self.query} returned multiple elements")
        if not result or not result[0].get("value"):
            if self.empty_is_zero:
                return 0.0
            what = "the result is empty" if not result else "the value list is empty"
            raise TriggerError(f"prometheus metrics 'prometheus' target may be lost, {what}")
        number = float(result[0]["value"][1])
        if math.isfinite(number):
            return number
        if self.empty_is_zero:
            return 0.0
        raise TriggerError(f"prometheus query returns {number:f}")


def _prometheus(index: int, trigger: Obj) -> Scaler:
    given = _Metadata(trigger, "error parsing prometheus metadata: error parsing prometheus metadata: ")
    address, query, goal = given.text("serverAddress"), given.text("query"), given.number("threshold")
    target = _target(trigger, goal)
    headers = (part.partition("=") for part in given.text("customHeaders", "").split(",") if part)
    parameters = (part.partition("=") for part in given.text("queryParameters", "").split(",") if part)
    more = [(key.strip(), text.strip()) for key, _, text in parameters]
    if given.text("namespace", ""):
        more.insert(0, ("namespace", given.text("namespace")))
    return _Prometheus(
        spec=_external(index, "prometheus", target), address=address, query=query,
        activation=given.number("activationThreshold", "0"),
        empty_is_zero=given.boolean("ignoreNullValues", default=True), parameters=tuple(more),
        headers={key.strip(): text.strip() for key, _, text in headers}, timeout=_duration(given.text("timeout", "3s")),
    )  # fmt: skip


def _duration(text: str) -> float:
    """Go's `1m30s`, or milliseconds."""
    if text.isdigit():
        return int(text) / 1000
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise TriggerError(
            f"unable to parse duration value \"{text}\": must be either a duration string (e.g. '30s', '5m') or a number "
            "of milliseconds"
        )
    return sum(float(number) * units[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True)
class _Cron:
    spec: Obj
    start: str
    end: str
    zone: str
    replicas: int

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        try:
            now = datetime.fromtimestamp(time.time(), ZoneInfo(self.zone))
        except (ZoneInfoNotFoundError, ValueError):
            raise TriggerError(f"unable to load timezone: unknown time zone {self.zone}") from None
        start, end = parse(self.start).next(now), parse(self.end).next(now)
        # Within the interval its end comes before its next start.
        within = end is not None and (start is None or end < start)
        return float(self.replicas if within else 0), within


def _cron(index: int, trigger: Obj) -> Scaler:
    prefix = "error parsing cron metadata: "
    target, given = _target(trigger, 1.0), _Metadata(trigger, prefix)
    start, end, zone = given.text("start"), given.text("end"), given.text("timezone")
    replicas = given.whole("desiredReplicas")
    for word, text in (("start", start), ("end", end)):
        try:
            parse(text)
        except ValueError as error:
            raise TriggerError(f"{prefix}error parsing {word} schedule: {error}") from error
    if start == end:
        raise TriggerError(f"{prefix}start and end can not have exactly same time input")
    if not replicas:
        raise TriggerError(f"{prefix}no desiredReplicas specified")
    times = "-".join(_in_a_name(text) for text in (start, end))
    name = re.sub(r"[/.:%()]", "-", f"cron-{zone}-{times}")
    return _Cron(_external(index, name, target), start, end, zone, replicas)


def _in_a_name(text: str) -> str:
    for sign, word in ((" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")):
        text = text.replace(sign, word)
    return text


@dataclass(frozen=True, slots=True)
class _Cpu:
    """The autoscaler measures it itself."""

    spec: Obj

    async def value(self, http: aiohttp.ClientSession) -> tuple[float, bool]:
        return 0.0, True


def _cpu(_index: int, trigger: Obj) -> Scaler:
    prefix = "error parsing cpu metadata: "
    given, type_ = _Metadata(trigger, prefix), trigger.get("metricType", "")
    text = given.text("value")
    if type_ == "Utilization":
        target: Obj = {"type": type_, "averageUtilization": given.whole("value")}
    elif type_ == "AverageValue":
        target = {"type": type_, "averageValue": show_quantity(quantity(text))}
    else:
        allowed = "allowed values are 'Utilization' or 'AverageValue'"
        raise TriggerError(f"{prefix}unknown metric type: {type_}, {allowed}")
    only = given.text("containerName", "")
    if only:
        source = {"name": "cpu", "container": only, "target": target}
        return _Cpu({"type": "ContainerResource", "containerResource": source})
    return _Cpu({"type": "Resource", "resource": {"name": "cpu", "target": target}})
