"""What Prometheus reads at every scrape about what takes several steps, from the rows that say how far it is."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from typing_extensions import override

from controller.closing import oldest_under_way
from foundation import clock
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector

CLOSING = ScrapedGauge(
    "portal_closing_oldest_seconds",
    "For how long the oldest closing of a team is under way; 0 where none is.",
)


class ClosingCollector(GaugeCollector):
    """Closings that go on for long hang: something of the team lives, is claimed or is counted still."""

    figures = (CLOSING,)

    @override
    def collect(self) -> Iterable[Metric]:
        began = oldest_under_way()
        yield CLOSING.family(max(0.0, (clock.now() - began).total_seconds()) if began else 0)


register_collector(ClosingCollector())
