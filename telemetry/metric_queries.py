"""Validates a scaler's Prometheus query by trying it before a scaler relies on it.

Prometheus has the series of all teams, and a query may select any of them: messages name labels, and never
their values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from django.conf import settings

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable

LABELS_SHOWN_MAX = 8
_SERIES = re.compile(r"\{(.*\}\]?|.*)", re.DOTALL)


@dataclass(frozen=True)
class QueryAnswer:
    """The result of trying a query. `fault` says what is wrong with it, `doubt` why it could not be tried."""

    value: float | None = None
    code: str = ""
    fault: str = ""
    doubt: str = ""


def try_query(url: str, query: str, *, timeout_seconds: float = prometheus.TIMEOUT_SECONDS) -> QueryAnswer:
    """The query's current value; one that takes longer is at fault, as a scaler asks it again and again. Must not be
    called inside a transaction.
    """
    if not url:
        return QueryAnswer(
            doubt="The portal knows no Prometheus (PORTAL_PROMETHEUS_URL), so nobody has tried this query."
        )
    try:
        series = prometheus.query(
            url, query, token=settings.PROMETHEUS_TOKEN, timeout_seconds=timeout_seconds
        )
    except ClusterRejected as error:
        # A parse error quotes the query; an evaluation error quotes the selected series.
        message = error.message if error.status == prometheus.BAD_DATA else _SERIES.sub("{…}", error.message)
        return QueryAnswer(code="bad_query", fault=f"Prometheus refuses this query: {message}")
    except prometheus.QueryTooSlow:
        message = (
            f"Prometheus had no result of this query within {timeout_seconds:g} seconds, and a scaler asks several times a "
            "minute. Select fewer series or a shorter time; if Prometheus is busy, try again later."
        )
        return QueryAnswer(code="query_too_slow", fault=message)
    except ClusterUnavailable as error:
        return QueryAnswer(
            doubt=f"Prometheus does not answer, so nobody has tried this query: {error.message}"
        )
    return _judged(series)


def _judged(series: list[prometheus.Element]) -> QueryAnswer:
    if len(series) > 1:
        message = (
            f"This query gives {len(series)} series, which differ in {_differing(series)}, and a scaler needs exactly "
            "one: put sum(…), avg(…) or max(…) around it."
        )
        return QueryAnswer(code="several_series", fault=message)
    if not series:
        message = (
            "This query gives no series now, and a scaler needs exactly one. Check names and labels; where nothing "
            "is there before the first request, add `or vector(0)`."
        )
        return QueryAnswer(code="no_series", fault=message)
    value = series[0].value
    if not math.isfinite(value):
        message = (
            f"This query gives {value} now, which is no number to scale by: keep divisions by zero out of it."
        )
        return QueryAnswer(code="not_finite", fault=message)
    return QueryAnswer(value=value)


def _differing(series: list[prometheus.Element]) -> str:
    """The names of the labels whose values differ between the series, in words."""
    names = {name for element in series for name in element.labels}
    differing = sorted(name for name in names if len({element.labels.get(name) for element in series}) > 1)
    shown = ", ".join(differing[:LABELS_SHOWN_MAX]) + (", …" if len(differing) > LABELS_SHOWN_MAX else "")
    return f"the label{'s' if len(differing) > 1 else ''} {shown}"
