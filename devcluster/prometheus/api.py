"""Prometheus' HTTP API: `query`, `query_range`, `targets` and `status/buildinfo`, without a token and on loopback only."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from aiohttp import web
from multidict import MultiDictProxy

from devcluster.objects import seconds

from .engine import STEPS_MAX, Engine, Value
from .lexer import ParseError, milliseconds
from .matching import ExecutionError
from .nodes import MATRIX, SCALAR, STRING, VECTOR, Node, Selector
from .parser import parse
from .scrape import Scraper
from .storage import Series, Storage

YIELD_EVERY = 20
_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+")
BUILD = {
    "version": "2.42.0+devcluster", "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": "",
}  # fmt: skip


class _BadDataError(Exception):
    """A parameter that is none."""


class PrometheusApi:
    """Answers from the storage; who listens on the port may ask."""

    def __init__(self, storage: Storage, scraper: Scraper) -> None:
        self._storage, self._scraper = storage, scraper

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 20)
        for path, handler in (("query", self._query), ("query_range", self._query_range)):
            app.router.add_route("GET", f"/api/v1/{path}", handler)
            app.router.add_route("POST", f"/api/v1/{path}", handler)
        app.router.add_get("/api/v1/status/buildinfo", self._buildinfo)
        app.router.add_get("/api/v1/targets", self._targets)
        for path in ("/-/healthy", "/-/ready"):
            app.router.add_get(path, self._healthy)
        return app

    async def _query(self, request: web.Request) -> web.Response:
        given = await _parameters(request)
        try:
            at = _time(given, "time", time.time())
            node = _parsed(given)
            data = self._instant(node, at)
        except _BadDataError as error:
            return _failure(400, "bad_data", str(error))
        except ExecutionError as error:
            return _failure(422, "execution", str(error))
        return _success(data)

    async def _query_range(self, request: web.Request) -> web.Response:
        given = await _parameters(request)
        try:
            start, end, step = _span(given)
            node = _parsed(given)
            _check_range_type(node)
            data = await self._range(node, start, end, step)
        except _BadDataError as error:
            return _failure(400, "bad_data", str(error))
        except ExecutionError as error:
            return _failure(422, "execution", str(error))
        return _success(data)

    async def _buildinfo(self, _request: web.Request) -> web.Response:
        return _success(BUILD)

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="devcluster is healthy.\n")

    async def _targets(self, _request: web.Request) -> web.Response:
        found = [
            {
                "labels": dict(target.labels), "scrapeUrl": target.url, "lastError": error,
                "health": "down" if error else "up",
            }
            for target, error in self._scraper.errors.items()
        ]  # fmt: skip
        return _success({"activeTargets": found, "droppedTargets": []})

    # Evaluating

    def _instant(self, node: Node, at: int) -> dict[str, Any]:
        if isinstance(node, Selector) and node.type == MATRIX:
            end = at - node.offset
            found = [
                {"metric": series.labels, "values": [_pair(t, v) for t, v in points]}
                for series in self._storage.select(node.matchers)
                if (points := series.between(end - node.span, end))
            ]
            return {"resultType": "matrix", "result": found}
        value = Engine(self._storage, at).value(node)
        if node.type == SCALAR:
            return {"resultType": "scalar", "result": _pair(at, float(str(value)))}
        if node.type == STRING:
            return {"resultType": "string", "result": [_seconds(at), value]}
        return {
            "resultType": "vector",
            "result": [{"metric": labels, "value": _pair(at, number)} for labels, number in _elements(value)],
        }

    async def _range(self, node: Node, start: int, end: int, step: int) -> dict[str, Any]:
        selected: dict[int, list[Series]] = {}
        found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
        for index, at in enumerate(range(start, end + 1, step)):
            if index % YIELD_EVERY == 0:
                # A long range leaves the others their turn.
                await asyncio.sleep(0)
            value = Engine(self._storage, at, selected).value(node)
            elements = [({}, float(value))] if isinstance(value, float) else _elements(value)
            for labels, number in elements:
                key = tuple(sorted(labels.items()))
                found.setdefault(key, {"metric": labels, "values": []})["values"].append(_pair(at, number))
        return {"resultType": "matrix", "result": [found[key] for key in sorted(found)]}


def _elements(value: Value) -> list[tuple[dict[str, str], float]]:
    return value if isinstance(value, list) else []


async def _parameters(request: web.Request) -> Mapping[str, str]:
    """Of the URL, and of a form."""
    given: dict[str, str] = {}
    if request.method == "POST":
        form: MultiDictProxy[Any] = await request.post()
        given |= {key: str(text) for key, text in form.items()}
    return dict(request.query) | given


def _parsed(given: Mapping[str, str]) -> Node:
    query = given.get("query", "")
    try:
        return parse(query)
    except ParseError as error:
        raise _BadDataError(f'invalid parameter "query": {error.told(query)}') from error


def _time(given: Mapping[str, str], name: str, default: float | None) -> int:
    """Unix milliseconds, from seconds or an RFC 3339 time in UTC."""
    text = given.get(name, "")
    if not text and default is not None:
        return int(default * 1000)
    try:
        found = float(text)
    except ValueError:
        try:
            found = seconds(text)
        except ValueError:
            found = math.nan
    if not math.isfinite(found):
        raise _BadDataError(f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp')
    return round(found * 1000)


def _span(given: Mapping[str, str]) -> tuple[int, int, int]:
    """Start, end and step in milliseconds."""
    start, end, step = _time(given, "start", None), _time(given, "end", None), _step(given)
    if end < start:
        raise _BadDataError('invalid parameter "end": end timestamp must not be before start time')
    if (end - start) / step > STEPS_MAX:
        raise _BadDataError(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
        )
    return start, end, step


def _check_range_type(node: Node) -> None:
    if node.type not in {SCALAR, VECTOR}:
        text = f'invalid expression type "{node.type}" for range query, must be Scalar or instant Vector'
        raise _BadDataError(f'invalid parameter "query": {text}')


def _step(given: Mapping[str, str]) -> int:
    text = given.get("step", "")
    if _DURATION.fullmatch(text):
        step = milliseconds(text)
    else:
        try:
            step = round(float(text) * 1000)
        except (ValueError, OverflowError):
            raise _BadDataError(
                f'invalid parameter "step": cannot parse "{text}" to a valid duration'
            ) from None
    if step <= 0:
        raise _BadDataError(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer'
        )
    return step


def _pair(at: int, value: float) -> list[Any]:
    return [_seconds(at), shown(value)]


def _seconds(at: int) -> float | int:
    return at // 1000 if at % 1000 == 0 else at / 1000


def shown(value: float) -> str:
    """A float as Go prints it: the shortest that reads back, without an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _success(data: Any) -> web.Response:
    return web.json_response({"status": "success", "data": data})


def _failure(code: int, type_: str, message: str) -> web.Response:
    body = {"status": "error", "errorType": type_, "error": message}
    return web.Response(body=json.dumps(body).encode(), status=code, content_type="application/json")
