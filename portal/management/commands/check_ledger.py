from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from costs.ledger import check
from costs.reports.queries import ledger_difference
from foundation import clock


class Command(BaseCommand):
    help = "Recompute the whole ledger from pods, nodes and prices, and name each that differs. Exits 1 if one does."

    @override
    def handle(self, *_args: Any, **_options: Any) -> None:
        faults = check.check_all(now=clock.now())
        for fault in faults:
            line = f"{fault.about} {fault.key}: {fault.difference_micro_usd:+} micro-USD. {fault.message}"
            self.stdout.write(line)
        unbalanced = ledger_difference()
        if unbalanced:
            self.stdout.write(f"The postings add up to {unbalanced:+} micro-USD instead of 0.")
        if faults or unbalanced:
            raise CommandError("The ledger is not what its evidence says.")
        self.stdout.write("The ledger is what pods, nodes and prices say, to the micro-USD.")
