"""The one way to Prometheus: its HTTP API, asked with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import urllib3

from cluster.errors import ClusterRejected, ClusterUnavailable

Of = TypeVar("Of")
TIMEOUT_SECONDS: Final = 5.0
BAD_DATA: Final = 400
"""Status of a query that cannot be parsed; its error quotes nothing but the query."""
NOT_EVALUATED: Final = 422
"""Status of a query that cannot be evaluated; its error may quote series with the values of their labels."""
_TOO_SLOW: Final = "timeout"
"""The `errorType` of a query that Prometheus itself gave up."""


class QueryTooSlow(ClusterUnavailable):
    """The server was reached and had no result in time: it is the query's fault, or that of who asks besides."""


def version(url: str, *, token: str = "", timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """The version of the server at `url`, which is given the bearer `token`, if any. Raises ClusterUnavailable, saying what it answered instead."""
    address = f"{url.rstrip('/')}/api/v1/status/buildinfo"
    try:
        with urllib3.PoolManager(timeout=timeout_seconds, retries=False) as pool:
            answer = pool.request("GET", address, headers=_headers(token), redirect=False)
            if answer.status != 200:
                raise ClusterUnavailable(f"{url} answered {answer.status}")
            return str(answer.json()["data"]["version"])
    except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ClusterUnavailable(f"{url} does not answer as Prometheus does: {error}") from error


@dataclass(frozen=True, slots=True)
class Element:
    """One series of an answer: its labels, and its value now."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Line:
    """One series over a time: its labels, and what it was at each Unix time, in seconds."""

    labels: dict[str, str]
    samples: tuple[tuple[float, float], ...]


def query(url: str, text: str, *, token: str = "", timeout_seconds: float = TIMEOUT_SECONDS) -> list[Element]:
    """The current result of an instant query, as the scaler reads it: a vector.

    Raises ClusterRejected with the server's own words and its status for a query that is wrong or gives something else,
    QueryTooSlow where it has no result in time, and ClusterUnavailable where the server does not answer.
    """
    return _asked(url, "query", {"query": text}, _elements, token, timeout_seconds)


def query_range(
    url: str,
    text: str,
    *,
    begin: datetime,
    end: datetime,
    step: timedelta,
    token: str = "",
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[Line]:
    """The result of a query at `begin` and after every `step` until `end`. Raises as `query` does."""
    fields = {
        "query": text,
        "start": str(begin.timestamp()),
        "end": str(end.timestamp()),
        "step": str(step.total_seconds()),
    }
    return _asked(url, "query_range", fields, _lines, token, timeout_seconds)


def _asked(
    url: str,
    call: str,
    fields: dict[str, str],
    read: Callable[[dict[str, Any]], list[Of]],
    token: str,
    timeout_seconds: float,
) -> list[Of]:
    address = f"{url.rstrip('/')}/api/v1/{call}"
    try:
        with urllib3.PoolManager(timeout=timeout_seconds, retries=False) as pool:
            answer = pool.request(
                "POST",
                address,
                # It goes on with a query that nobody waits for any more, unless it is told.
                fields={**fields, "timeout": f"{timeout_seconds:.3f}"},
                headers=_headers(token),
                encode_multipart=False,
                redirect=False,
            )
            body = answer.json()
            if answer.status in {BAD_DATA, NOT_EVALUATED}:
                message = str(body.get("error") or "the query is wrong")
                raise ClusterRejected(message, status=answer.status)
            if answer.status == 503 and body.get("errorType") == _TOO_SLOW:
                raise QueryTooSlow(f"{url} gave the query up")
            if answer.status != 200:
                raise ClusterUnavailable(f"{url} answered {answer.status}")
            return read(body["data"])
    except urllib3.exceptions.ReadTimeoutError as error:
        raise QueryTooSlow(f"{url} had no answer within {timeout_seconds:g} s") from error
    except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterUnavailable(f"{url} does not answer as Prometheus does: {error}") from error


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _elements(data: dict[str, Any]) -> list[Element]:
    if data["resultType"] != "vector":
        raise ClusterRejected(f"the query gives a {data['resultType']}, and not an instant vector")
    return [Element(dict(series["metric"]), float(series["value"][1])) for series in data["result"]]


def _lines(data: dict[str, Any]) -> list[Line]:
    return [
        Line(dict(series["metric"]), tuple((float(at), float(value)) for at, value in series["values"]))
        for series in data["result"]
    ]
