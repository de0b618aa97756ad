"""What Prometheus reads about the ledger at every scrape."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from django.core.cache import cache
from prometheus_client.core import Metric
from typing_extensions import override

from costs.ledger import check, idle
from costs.models import LedgerCheck
from costs.reports.check import rollup_difference
from costs.reports.queries import ledger_difference
from foundation.http.metrics import GaugeCollector, ScrapedGauge, register_collector

KEPT_SECONDS = 300
_KEY = "costs:ledger-differences"
LEDGER_DIFFERENCE = ScrapedGauge(
    "portal_ledger_difference_micro_usd",
    "Micro-USD by which the ledger differs from what pods and nodes prove, as far as that was recomputed, and the sum over"
    f" all its postings: both are 0. Asked again every {KEPT_SECONDS // 60} minutes.",
)
OVERHELD = ScrapedGauge(
    "portal_overheld_card_seconds",
    "Card-seconds that pods held beyond what their nodes had: the history of one of them is wrong.",
)
LEDGER_CHECKED = ScrapedGauge(
    "portal_ledger_checked_timestamp_seconds",
    "When the last step of recomputing the ledger ended; 0 before the first.",
)
ROLLUP_DIFFERENCE = ScrapedGauge(
    "portal_cost_rollup_difference_micro_usd",
    "By how much the sums that reports are made of differ from the ledger's lines, which is 0; compared day by day, over and over.",
)


class LedgerCollector(GaugeCollector):
    """The sum reads the whole ledger: seconds of it every few minutes, however often it is scraped."""

    figures = (LEDGER_DIFFERENCE, OVERHELD, LEDGER_CHECKED, ROLLUP_DIFFERENCE)

    @override
    def collect(self) -> Iterable[Metric]:
        sums = cache.get_or_set(_KEY, _differences, KEPT_SECONDS) or (0, 0)
        yield LEDGER_DIFFERENCE.family(sums[0])
        yield OVERHELD.family(sums[1])
        checked_at = LedgerCheck.objects.values_list("checked_at", flat=True).first()
        yield LEDGER_CHECKED.family(int(checked_at.timestamp()) if checked_at else 0)
        yield ROLLUP_DIFFERENCE.family(rollup_difference())


def _differences() -> tuple[int, int]:
    unbalanced = ledger_difference()
    faults = check.difference()
    # Of two signs that would make up for each other neither is hidden.
    return (unbalanced + (faults if unbalanced >= 0 else -faults)), ceil(idle.overheld_card_seconds())


register_collector(LedgerCollector())
