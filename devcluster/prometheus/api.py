"""Prometheus' HTTP API: `query` and `status/buildinfo`, without a token and on loopback only."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from aiohttp import web

from devcluster.objects import seconds

from .engine import Moment, ParseError, parse
from .operators import ExecutionError
from .storage import Storage

BUILD = {
    "version": "2.42.0+devcluster", "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": "",
}  # fmt: skip


class PrometheusApi:
    """Answers from the storage; who listens on the port may ask."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_get("/api/v1/query", self._query)
        app.router.add_post("/api/v1/query", self._query)
        app.router.add_get("/api/v1/status/buildinfo", _buildinfo)
        app.router.add_route("*", "/api/v1/{path:.*}", _not_served)
        return app

    async def _query(self, request: web.Request) -> web.Response:
        form = await request.post() if request.method == "POST" else {}
        parameters = {**request.query, **{key: str(text) for key, text in form.items()}}
        try:
            at = _time(parameters)
            value = parse(parameters.get("query", ""))(Moment(self._storage, at))
        except ParseError as error:
            return _failure(400, "bad_data", f'invalid parameter "query": parse error: {error}')
        except ValueError as error:
            return _failure(400, "bad_data", f'invalid parameter "time": {error}')
        except ExecutionError as error:
            return _failure(422, "execution", str(error))
        if isinstance(value, float):
            return _success({"resultType": "scalar", "result": _pair(at, value)})
        vector = [{"metric": labels, "value": _pair(at, number)} for labels, number in value]
        return _success({"resultType": "vector", "result": vector})


async def _buildinfo(_request: web.Request) -> web.Response:
    return _success(BUILD)


async def _not_served(request: web.Request) -> web.Response:
    return _failure(404, "not_found", f"devcluster does not serve {request.path}, only /api/v1/query")


def _time(parameters: Mapping[str, str]) -> int:
    """Unix milliseconds, from seconds or an RFC 3339 time in UTC. ValueError where it is neither."""
    text = parameters.get("time", "")
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
