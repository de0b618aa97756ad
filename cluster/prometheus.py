"""The one way to Prometheus: its HTTP API, asked with a time limit."""

from __future__ import annotations

from typing import Final

import urllib3

from cluster.errors import ClusterUnavailable

TIMEOUT_SECONDS: Final = 5.0


def version(url: str) -> str:
    """The version of the server at `url`. Raises ClusterUnavailable, saying what it answered instead."""
    address = f"{url.rstrip('/')}/api/v1/status/buildinfo"
    try:
        with urllib3.PoolManager(timeout=TIMEOUT_SECONDS, retries=False) as pool:
            answer = pool.request("GET", address, redirect=False)
            if answer.status != 200:
                raise ClusterUnavailable(f"{url} answered {answer.status}")
            return str(answer.json()["data"]["version"])
    except (urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ClusterUnavailable(f"{url} does not answer as Prometheus does: {error}") from error
