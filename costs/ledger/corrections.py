"""Makes what is in the ledger of a pod say what is known of it by now: when it ended, and until when it was seen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costs.ledger.accounts import ADJUSTMENT, team_account
from costs.ledger.entries import NOT_SEEN
from costs.ledger.postings import (
    ENDED_BEFORE,
    SEEN_AFTER_ALL,
    STILL_THERE,
    Posting,
    correction,
    payer_of,
    standing_postings,
)
from costs.models import LedgerEntry, PricedCard, UsageInterval
from costs.pricing import PriceSpan, Segment, accrued, lines


class Corrections:
    """What has to be posted for one pod; its lines point at each other, so each is saved before the next refers to it."""

    def __init__(
        self, row: UsageInterval, priced: PricedCard, spans: Sequence[PriceSpan], now: datetime
    ) -> None:
        self.row, self.priced, self.now = row, priced, now
        self.prices = {span.price_id: span for span in spans}

    def move_end(self, end: datetime | None, evidenced_until: datetime | None) -> None:
        """Make the postings stand until `end`, paid by the team until `evidenced_until`; None: all of it."""
        row = self.row
        until = row.settled_until if end is None else min(end, row.settled_until)
        for posting in standing_postings(row.pod_uid):
            first = posting.first
            stands = first.ended_at if end is None else min(max(end, first.started_at), first.ended_at)
            until = max(until, stands)
            unseen = None
            if evidenced_until is not None and max(evidenced_until, first.started_at) < stands:
                unseen = max(evidenced_until, first.started_at)
            moved = stands != posting.stands_until
            if not posting.disputed and posting.platform_from is not None:
                if not moved and posting.platform_from == unseen:
                    continue
                self._give_to_team(posting)
            if moved:
                self._stand_until(posting, stands)
            if unseen is not None and not posting.disputed:
                self._give_to_platform(posting, unseen)
        row.settled_until = until

    def _stand_until(self, posting: Posting, stands_until: datetime) -> None:
        back = stands_until < posting.stands_until
        start, end = sorted((stands_until, posting.stands_until))
        (line,), self.priced.carry = lines(
            [self._segment(posting, start, end)], self.row.cards * (-1 if back else 1), self.priced.carry
        )
        amount = line.amount_micro_usd
        sides = {payer_of(posting): amount, posting.supply_account: -amount}
        self._add(posting, sides, start, end, ENDED_BEFORE if back else STILL_THERE)

    def _give_to_platform(self, posting: Posting, start: datetime) -> None:
        """What stands from `start` on is paid by the platform. What comes of rounding stays where it was posted."""
        team, end = payer_of(posting), posting.stands_until
        whole = start <= posting.first.started_at
        amount = (
            posting.amounts[team] if whole else accrued([self._segment(posting, start, end)], self.row.cards)
        )
        self._add(posting, {team: -amount, ADJUSTMENT: amount}, start, end, NOT_SEEN)

    def _give_to_team(self, posting: Posting) -> None:
        start, end = posting.platform_from or posting.first.started_at, posting.stands_until
        amount = posting.amounts[ADJUSTMENT]
        team = posting.team_account or team_account(self.row.team.slug)
        self._add(posting, {team: amount, ADJUSTMENT: -amount}, start, end, SEEN_AFTER_ALL)

    def _segment(self, posting: Posting, start: datetime, end: datetime) -> Segment:
        return Segment(start, end, self.prices[posting.price_id])

    def _add(
        self, posting: Posting, sides: dict[str, int], start: datetime, end: datetime, reason: str
    ) -> None:
        made = correction(posting, sides, start=start, end=end, reason=reason, now=self.now)
        for entry in LedgerEntry.objects.bulk_create(made):
            posting.add(entry)
