"""Prometheus' HTTP API: `query`, `query_range` and `status/buildinfo`, on loopback only, for who has the token."""

from __future__ import annotations

import hmac
import math
import time
from decimal import Decimal
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from devcluster.objects import seconds

from .engine import Expression, Moment, ParseError, parse
from .functions import LabelSet, label_set
from .operators import ExecutionError
from .storage import Storage

BUILD = {"version": "2.42.0+devcluster"} | dict.fromkeys(("revision", "branch", "buildUser", "buildDate"), "")


class PrometheusApi:
    """Answers from the storage."""

    def __init__(self, storage: Storage, token: str) -> None:
        self._storage, self._wanted = storage, ascii(f"Bearer {token}")

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 20, middlewares=[self._authorized])
        for name in ("query", "query_range"):
            app.router.add_route("*", f"/api/v1/{name}", self._query)
        app.router.add_get("/api/v1/status/buildinfo", _buildinfo)
        app.router.add_route("*", "/api/v1/{path:.*}", _not_served)
        return app

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not hmac.compare_digest(ascii(request.headers.get("Authorization")), self._wanted):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    async def _query(self, request: web.Request) -> web.Response:
        form = await request.post() if request.method == "POST" else {}
        asked = {**request.query, **{key: str(text) for key, text in form.items()}}
        try:
            value = parse(asked.get("query", ""))
            if not request.path.endswith("_range"):
                return _success(_now(value, self._storage, _time(asked.get("time", ""))))
            step = round(float(asked.get("step", "")) * 1000)
            times = range(_time(asked.get("start", "")), _time(asked.get("end", "")) + 1, step)
            if len(times) > 11_000:
                return _failure(
                    400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries"
                )
            return _success(_over(value, self._storage, times))
        except ParseError as error:
            return _failure(400, "bad_data", f'invalid parameter "query": parse error: {error}')
        except ValueError as error:
            return _failure(400, "bad_data", f'invalid parameter "time": {error}')
        except ExecutionError as error:
            return _failure(422, "execution", str(error))


def _now(expression: Expression, storage: Storage, at: int) -> dict[str, Any]:
    value = expression(Moment(storage, at))
    if isinstance(value, float):
        return {"resultType": "scalar", "result": _pair(at, value)}
    return {"resultType": "vector", "result": [{"metric": m, "value": _pair(at, v)} for m, v in value]}


def _over(expression: Expression, storage: Storage, times: range) -> dict[str, Any]:
    found: dict[LabelSet, list[Any]] = {}
    for at in times:
        value = expression(Moment(storage, at))
        for labels, number in [({}, value)] if isinstance(value, float) else value:
            found.setdefault(label_set(labels), []).append(_pair(at, number))
    return {"resultType": "matrix", "result": [{"metric": dict(m), "values": v} for m, v in found.items()]}


async def _buildinfo(_request: web.Request) -> web.Response:
    return _success(BUILD)


async def _not_served(request: web.Request) -> web.Response:
    return _failure(404, "not_found", f"devcluster does not serve {request.path}, only /api/v1/query")


def _time(text: str) -> int:
    """Unix milliseconds, from seconds or an RFC 3339 time in UTC. ValueError where it is neither."""
    if not text:
        return int(time.time() * 1000)
    for read in (float, seconds):
        try:
            moment = read(text)
        except ValueError:
            continue
        if math.isfinite(moment):
            return round(moment * 1000)
    raise ValueError(f'cannot parse "{text}" to a valid timestamp')


def _pair(at: int, value: float) -> list[Any]:
    return [at // 1000 if at % 1000 == 0 else at / 1000, shown(value)]


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


def _failure(status: int, type_: str, error: str) -> web.Response:
    return web.json_response({"status": "error", "errorType": type_, "error": error}, status=status)
