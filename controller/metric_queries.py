"""Whether a scaler could work with a query: it is asked of Prometheus before anybody relies on it.

Prometheus has the series of all teams, and a query may find any of them: what is said of an answer names labels, and never
their values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from cluster import prometheus
from cluster.errors import ClusterRejected, ClusterUnavailable

LABELS_SHOWN_MAX = 8
_SERIES = re.compile(r"\{(.*\}\]?|.*)", re.DOTALL)


@dataclass(frozen=True)
class QueryAnswer:
    """What came of it. `fault` and `doubt` are sentences: the query is wrong, or nobody could tell."""

    value: float | None = None
    code: str = ""
    fault: str = ""
    doubt: str = ""


def try_query(url: str, query: str) -> QueryAnswer:
    """The query's value now. Not to be called inside a transaction."""
    if not url:
        return QueryAnswer(
            doubt="The portal knows no Prometheus (PORTAL_PROMETHEUS_URL), so nobody has tried this query."
        )
    try:
        found = prometheus.query(url, query)
    except ClusterRejected as error:
        # What it cannot parse it quotes from the query; what it cannot evaluate, from the series that were found.
        said = error.message if error.status == prometheus.BAD_DATA else _SERIES.sub("{…}", error.message)
        return QueryAnswer(code="bad_query", fault=f"Prometheus refuses this query: {said}")
    except ClusterUnavailable as error:
        return QueryAnswer(
            doubt=f"Prometheus does not answer, so nobody has tried this query: {error.message}"
        )
    return _judged(found)


def _judged(found: list[prometheus.Element]) -> QueryAnswer:
    if len(found) > 1:
        message = (
            f"This query gives {len(found)} series, which differ in {_differing(found)}, and a scaler needs exactly "
            "one: put sum(…), avg(…) or max(…) around it."
        )
        return QueryAnswer(code="several_series", fault=message)
    if not found:
        message = (
            "This query gives no series now, and a scaler needs exactly one. Check names and labels; where nothing "
            "is there before the first request, add `or vector(0)`."
        )
        return QueryAnswer(code="no_series", fault=message)
    value = found[0].value
    if not math.isfinite(value):
        message = (
            f"This query gives {value} now, which is no number to scale by: keep divisions by zero out of it."
        )
        return QueryAnswer(code="not_finite", fault=message)
    return QueryAnswer(value=value)


def _differing(found: list[prometheus.Element]) -> str:
    """The names of the labels in which the series are not all the same, in words."""
    names = {name for each in found for name in each.labels}
    differing = sorted(name for name in names if len({each.labels.get(name) for each in found}) > 1)
    shown = ", ".join(differing[:LABELS_SHOWN_MAX]) + (", …" if len(differing) > LABELS_SHOWN_MAX else "")
    return f"the label{'s' if len(differing) > 1 else ''} {shown}"
