"""Whether a scaler could work with a query: it is asked of Prometheus before anybody relies on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable

SHOWN_MAX = 3


@dataclass(frozen=True)
class Answer:
    """What came of it. `fault` and `doubt` are sentences: the query is wrong, or nobody could tell."""

    value: float | None = None
    code: str = ""
    fault: str = ""
    doubt: str = ""


def try_query(url: str, query: str) -> Answer:
    """The query's value now. Not to be called inside a transaction."""
    if not url:
        return Answer(
            doubt="The portal knows no Prometheus (PORTAL_PROMETHEUS_URL), so nobody has tried this query."
        )
    try:
        found = prometheus.query(url, query)
    except ClusterRejected as error:
        return Answer(code="bad_query", fault=f"Prometheus refuses this query: {error.message}")
    except ClusterUnavailable as error:
        return Answer(doubt=f"Prometheus does not answer, so nobody has tried this query: {error.message}")
    return _judged(found)


def _judged(found: list[prometheus.Element]) -> Answer:
    if len(found) > 1:
        shown = ", ".join(_shown(each) for each in found[:SHOWN_MAX])
        message = (
            f"This query gives {len(found)} series ({shown}{', …' if len(found) > SHOWN_MAX else ''}), and a scaler "
            "needs exactly one: put sum(…), avg(…) or max(…) around it."
        )
        return Answer(code="several_series", fault=message)
    if not found:
        message = (
            "This query gives no series now, and a scaler needs exactly one. Check names and labels; where nothing "
            "is there before the first request, add `or vector(0)`."
        )
        return Answer(code="no_series", fault=message)
    value = found[0].value
    if not math.isfinite(value):
        message = (
            f"This query gives {value} now, which is no number to scale by: keep divisions by zero out of it."
        )
        return Answer(code="not_finite", fault=message)
    return Answer(value=value)


def _shown(element: prometheus.Element) -> str:
    labels = ", ".join(
        f'{key}="{value}"' for key, value in sorted(element.labels.items()) if key != "__name__"
    )
    return f"{element.labels.get('__name__', '')}{{{labels[:120]}}}"
