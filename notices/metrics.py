"""Metrics of notices for Prometheus, read from the rows at every scrape."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from typing_extensions import override

from foundation import clock
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector
from notices.queries import backlog

OUTBOX_LAG = ScrapedGauge(
    "portal_notice_outbox_lag_seconds", "Age of the oldest event that was not handed on to its subscriptions."
)
PENDING = ScrapedGauge("portal_notices_pending", "Notices that are on their way.")
DEAD = ScrapedGauge("portal_notices_dead", "Notices that were given up.")


class NoticeCollector(GaugeCollector):
    """How far telling people is behind."""

    figures = (OUTBOX_LAG, PENDING, DEAD)

    @override
    def collect(self) -> Iterable[Metric]:
        behind = backlog(now=clock.now())
        yield OUTBOX_LAG.family(behind.lag_seconds)
        yield PENDING.family(behind.pending)
        yield DEAD.family(behind.dead)


register_collector(NoticeCollector())
