"""What Prometheus reads about the ledger at every scrape."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.cache import cache
from prometheus_client.core import Metric
from typing_extensions import override

from costs.reports.check import rollup_difference
from costs.reports.queries import ledger_difference
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector

KEPT_SECONDS = 300
_KEY = "costs:ledger-difference"
LEDGER_DIFFERENCE = ScrapedGauge(
    "portal_ledger_difference_micro_usd",
    f"Sum over all postings of the ledger, which is 0; summed again every {KEPT_SECONDS // 60} minutes.",
)
ROLLUP_DIFFERENCE = ScrapedGauge(
    "portal_cost_rollup_difference_micro_usd",
    "By how much the sums that reports are made of differ from the ledger's lines, which is 0; compared day by day, over and over.",
)


class LedgerCollector(GaugeCollector):
    """The sum reads the whole ledger: seconds of it every few minutes, however often it is scraped."""

    figures = (LEDGER_DIFFERENCE, ROLLUP_DIFFERENCE)

    @override
    def collect(self) -> Iterable[Metric]:
        yield LEDGER_DIFFERENCE.family(int(cache.get_or_set(_KEY, ledger_difference, KEPT_SECONDS) or 0))
        yield ROLLUP_DIFFERENCE.family(rollup_difference())


register_collector(LedgerCollector())
