"""docs/reference/metrics.md: what the portal's processes tell Prometheus, from the metrics themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import Metric

from controller import measures
from foundation.http import metrics as web
from portal.runtime import metrics_server, work

_TYPES = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}
_COUNTED: dict[str, tuple[Counter | Gauge | Histogram, ...]] = {
    "web": (web.REQUESTS, web.REQUEST_SECONDS),
    "worker": (
        work.TASKS,
        measures.ADMISSION_SECONDS,
        measures.PASS_SECONDS,
        measures.RECONCILES,
        measures.RECONCILE_ERRORS,
    ),
    "worker, beat, watcher": (metrics_server.AGE,),
}


def page() -> list[str]:
    """The lines of the page."""
    return [
        "# Metrics of the portal",
        "",
        "Each process serves `/metrics` on `PORTAL_METRICS_BIND` ([why](../adr/0020-metrics-on-a-listener-of-their-own.md)).",
        "`deploy/prometheus/rules.yaml` has the recording and alert rules over them, `deploy/grafana/` the dashboards, and each alert",
        "has a page in [runbooks](../runbooks/README.md). Metrics of endpoints' requests, which the live process serves, are in",
        "[Serving](serving.md); those of GPUs come from dcgm-exporter ([GPU metrics](gpu-metrics.md)).",
        "",
        "## Read from the rows",
        "",
        "Gauges. Every web process reads them from the database at each scrape, and says the same: take `max`, not `sum`, over processes.",
        "",
        "| metric | labels | says |",
        "|---|---|---|",
        *_read(sorted(web.scraped_figures(), key=lambda family: family.name)),
        "",
        "## Counted by a process",
        "",
        "From the start of the process: take `rate` or `increase`, and `sum` over processes.",
        "",
        "| metric | type | process | labels | says |",
        "|---|---|---|---|---|",
        *_counted(),
        "",
        "Besides, each process tells its CPU, memory and open files (`process_…`, `python_…`).",
    ]


def _read(families: Iterable[Metric]) -> Iterator[str]:
    for family in families:
        labels = getattr(family, "_labelnames", ())
        yield f"| `{family.name}` | {_names(labels)} | {family.documentation} |"


def _counted() -> Iterator[str]:
    names = set(REGISTRY._names_to_collectors)  # noqa: SLF001 - it has no list of its names
    for process, measured in _COUNTED.items():
        for each in measured:
            (family,) = each.describe()
            name = f"{family.name}_total" if isinstance(each, Counter) else family.name
            if name not in names:
                raise KeyError(name)
            labels = getattr(each, "_labelnames", ())
            yield f"| `{name}` | {_TYPES[type(each)]} | {process} | {_names(labels)} | {family.documentation} |"


def _names(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)
