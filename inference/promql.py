"""The queries of an endpoint's scaler to Prometheus; each gives one number. Pure.

An empty answer is an error to the scaler, and so shows: each query gives 0 where nothing happens, and nothing at all only
where its source is not scraped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from inference.enforced_query import Border
from telemetry import served_metrics
from telemetry.gpu_metrics import EXPORTED_PREFIX, MIG_SLICE, WHOLE_GPU, by_job, of_job

AVERAGE = "value"
TOTAL = "average-value"
METRIC_TYPES = (AVERAGE, TOTAL)
"""What a query measures: one number for all replicas (an average, a percentage), or a sum that they share."""
WINDOW = "1m"
"""Over which rates are taken where it holds two samples at least: four at an interval of 15 s."""
SPARSE_WINDOW = "5m"
"""Where WINDOW holds fewer, as with Prometheus' default interval of a minute, the last two samples within this are taken.

Wider windows for all would do without it, but follow the load five times as slowly, also where scrapes are frequent.
"""
_TOTALS = ("sum", "count")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a query is about."""

    endpoint_id: str
    namespace: str
    object_name: str
    runtime: str
    is_mig: bool
    exported_labels: bool
    """Whether the pods of DCGM's metrics are in `exported_pod`, as Prometheus' default honorLabels=false makes it."""
    dcgm_job: str = ""
    """Whose GPU metrics are believed; empty for everybody's."""

    @property
    def border(self) -> Border:
        """The series that a query of its team's own may see."""
        return Border(self.namespace, self.exported_labels, self.dcgm_job)


@dataclass(frozen=True, slots=True)
class Signal:
    query: str
    metric_type: str
    """`value`: compared as it is; `average-value`: divided by the number of replicas first."""


@dataclass(frozen=True, slots=True)
class RuntimeSignal:
    """What a model server measures of itself: names of its series, without the matchers of the endpoint's pods."""

    total: str
    count: str = ""
    """Where `total` grows by each of these, the latency is their ratio; empty for a gauge."""
    milliseconds: float = 1
    """How many milliseconds one unit of `total` is."""


def guessed_type(query: str) -> str:
    """A sum or a count is shared by the replicas; of anything else its value is compared as it is.

    To divide an average by the number of replicas is the common fault: the endpoint then never gets past two of them.
    """
    text = query.lstrip().lower()
    is_total = any(
        text.startswith(word) and text[len(word) :].lstrip()[:1] in {"(", "b", "w"} for word in _TOTALS
    )
    return TOTAL if is_total else AVERAGE


def in_flight(endpoint_id: str) -> str:
    """Requests that the gateway holds or passes on: those that wait for a replica at zero among them."""
    return _through_gateway(f"sum({served_metrics.REQUESTS_IN_FLIGHT}{_endpoint(endpoint_id)})")


def requests_per_second(endpoint_id: str) -> str:
    return _through_gateway(_rate(served_metrics.REQUESTS_TOTAL + _endpoint(endpoint_id)))


def _rate(counter: str) -> str:
    """What all its series grow by in a second; sparse ones that have ended are no longer counted."""
    return f"sum(rate({counter}[{WINDOW}]) or irate({counter}[{SPARSE_WINDOW}]) and {counter})"


def _through_gateway(query: str) -> str:
    """0 for an endpoint without a call so far, as long as a gateway is scraped at all."""
    return f"{query} or 0 * sum({served_metrics.GATEWAY_UP})"


def _endpoint(endpoint_id: str) -> str:
    return f'{{{served_metrics.ENDPOINT_LABEL}="{endpoint_id}"}}'


def gpu_utilization(subject: Subject) -> str:
    """Percent over the endpoint's pods: a pod that has no GPU yet is not counted, none at all is 0."""
    prefix = EXPORTED_PREFIX if subject.exported_labels else ""
    matchers = _pods(subject, f"{prefix}namespace", f"{prefix}pod", of_job(subject.dcgm_job))
    metric, factor = (MIG_SLICE, " * 100") if subject.is_mig else (WHOLE_GPU, "")
    return f"avg({metric}{matchers}){factor} or 0 * avg({by_job(metric, subject.dcgm_job)})"


def of_runtime(signal: RuntimeSignal, subject: Subject) -> Signal:
    """What the server measures, over the endpoint's pods: a gauge as a sum, a latency in milliseconds."""
    matchers = _pods(subject, "namespace", "pod")
    if not signal.count:
        return Signal(f"sum({signal.total}{matchers})", TOTAL)
    spent, answered = _rate(signal.total + matchers), _rate(signal.count + matchers)
    # Without the filter, no requests would be 0 / 0, which is no number.
    return Signal(f"{plain(signal.milliseconds)} * {spent} / ({answered} > 0) or 0 * {answered}", AVERAGE)


def _pods(subject: Subject, namespace: str, pod: str, believed: str = "") -> str:
    """Exactly the pods of one Deployment, whose names end in two generated parts."""
    own = f'{namespace}="{subject.namespace}",{pod}=~"{subject.object_name}-[a-z0-9]+-[a-z0-9]+"'
    return f"{{{own},{believed}}}" if believed else f"{{{own}}}"


def plain(value: float) -> str:
    """A number as KEDA reads it: no exponent, and no point where none is needed."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no threshold.")
    text = format(Decimal(str(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
