"""The one way to Prometheus: its HTTP API, asked with a time limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import urllib3

from cluster.errors import ClusterRejected, ClusterUnavailable

TIMEOUT_SECONDS: Final = 5.0
BAD_DATA: Final = 400
"""Status of a query that cannot be parsed; its error quotes nothing but the query."""
NOT_EVALUATED: Final = 422
"""Status of a query that cannot be evaluated; its error may quote series with the values of their labels."""


def version(url: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """The version of the server at `url`. Raises ClusterUnavailable, saying what it answered instead."""
    address = f"{url.rstrip('/')}/api/v1/status/buildinfo"
    try:
        with urllib3.PoolManager(timeout=timeout_seconds, retries=False) as pool:
            answer = pool.request("GET", address, redirect=False)
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


def query(url: str, text: str) -> list[Element]:
    """The current result of an instant query, as the scaler reads it: a vector.

    Raises ClusterRejected with the server's own words and its status for a query that is wrong or gives something else, and
    ClusterUnavailable where the server does not answer.
    """
    address = f"{url.rstrip('/')}/api/v1/query"
    try:
        with urllib3.PoolManager(timeout=TIMEOUT_SECONDS, retries=False) as pool:
            answer = pool.request(
                "POST", address, fields={"query": text}, encode_multipart=False, redirect=False
            )
            body = answer.json()
            if answer.status in {BAD_DATA, NOT_EVALUATED}:
                message = str(body.get("error") or "the query is wrong")
                raise ClusterRejected(message, status=answer.status)
            if answer.status != 200:
                raise ClusterUnavailable(f"{url} answered {answer.status}")
            return _elements(body["data"])
    except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterUnavailable(f"{url} does not answer as Prometheus does: {error}") from error


def _elements(data: dict[str, Any]) -> list[Element]:
    if data["resultType"] != "vector":
        raise ClusterRejected(f"the query gives a {data['resultType']}, and not an instant vector")
    return [Element(dict(series["metric"]), float(series["value"][1])) for series in data["result"]]
