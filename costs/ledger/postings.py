"""Which postings of a pod stand, and who pays for them, after what was corrected of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.db.models import Q

from costs.ledger.accounts import ADJUSTMENT, SUPPLY, TEAM
from costs.ledger.entries import NOT_SEEN
from costs.models import LedgerEntry

ENDED_BEFORE = "The pod had ended before."
STILL_THERE = "The pod was still there."
SEEN_AFTER_ALL = "The pod was there in this time after all."
OWN_REASONS = frozenset({ENDED_BEFORE, STILL_THERE, NOT_SEEN, SEEN_AFTER_ALL})
"""By these the ledger knows what it has corrected itself: people give theirs in other words."""
COPIED = (
    *("team_id", "workload_id", "pod_uid", "node_name", "flavor_name", "price_id", "units"),
    *("user_id", "project", "phase"),
)


@dataclass
class Posting:
    """A posting of usage with all that was posted about it since: it stands until `stands_until`, and what of that comes
    from `platform_from` on is paid by the platform.
    """

    first: LedgerEntry
    price_id: int
    stands_until: datetime
    platform_from: datetime | None = None
    newest: dict[str, LedgerEntry] = field(default_factory=dict)
    """By account the last line; a correction reverses it."""
    amounts: dict[str, int] = field(default_factory=dict)
    """By account what stands of it, in micro-USD."""
    disputed: bool = False
    """A person has reversed it: then it is the platform's, whatever turns out later."""
    supply_reversed: bool = False
    """So it was done before supply stayed: then nothing of it stands, and nothing is corrected any more."""

    @property
    def team_account(self) -> str | None:
        return next((account for account in self.newest if account.startswith(TEAM)), None)

    @property
    def supply_account(self) -> str:
        return next(account for account in self.newest if account.startswith(SUPPLY))

    def add(self, entry: LedgerEntry) -> None:
        """Take in the next line about it, in the order of their ids."""
        self.newest[entry.account] = entry
        self.amounts[entry.account] = self.amounts.get(entry.account, 0) + entry.amount_micro_usd
        if entry.reason == ENDED_BEFORE:
            self.stands_until = entry.started_at
        elif entry.reason == STILL_THERE:
            self.stands_until = entry.ended_at
        elif entry.reason == NOT_SEEN:
            self.platform_from = entry.started_at
        elif entry.reason == SEEN_AFTER_ALL:
            self.platform_from = None
        elif entry.reverses_id is not None:
            self.disputed = True
            self.supply_reversed |= entry.account.startswith(SUPPLY)


def postings_of(entries: Iterable[LedgerEntry]) -> list[Posting]:
    """The postings that these lines, in the order of their ids, say; each is complete where all of its pod are given."""
    by_id: dict[int, LedgerEntry] = {}
    postings: dict[UUID, Posting] = {}
    for entry in entries:
        by_id[entry.pk] = entry
        first = entry
        while first.reverses_id is not None and first.reverses_id in by_id:
            first = by_id[first.reverses_id]
        posting = postings.get(first.transaction_id)
        if posting is None:
            if first.reverses_id is not None or first.price_id is None:
                continue
            posting = postings[first.transaction_id] = Posting(first, first.price_id, first.ended_at)
        posting.add(entry)
    return list(postings.values())


def lines_of_pods(pod_uids: Iterable[str]) -> Iterator[LedgerEntry]:
    """All lines about these pods, in the order of their ids."""
    # Each half has an index of its own.
    first, corrections = Q(reverses__isnull=True) & ~Q(pod_uid=""), Q(reverses__isnull=False)
    rows = LedgerEntry.objects.filter(first | corrections, pod_uid__in=list(pod_uids))
    return rows.order_by("id").iterator()


def standing_postings(pod_uid: str) -> list[Posting]:
    """The postings of one pod, oldest first, that the ledger may still have to correct."""
    return [posting for posting in postings_of(lines_of_pods([pod_uid])) if not posting.supply_reversed]


def correction(
    posting: Posting,
    sides: Mapping[str, int],
    *,
    start: datetime,
    end: datetime,
    reason: str,
    now: datetime,
) -> list[LedgerEntry]:
    """Lines about `[start, end)` of the posting: what is added to each account, in micro-USD; they add up to 0. What is
    corrected keeps its phase, project and price.
    """
    transaction_id = uuid4()
    return [
        LedgerEntry(
            **{name: getattr(posting.first, name) for name in COPIED},
            transaction_id=transaction_id,
            account=account,
            started_at=start,
            ended_at=end,
            amount_micro_usd=amount,
            reverses=posting.newest.get(account, posting.first),
            reason=reason,
            posted_at=now,
        )
        for account, amount in sides.items()
    ]


def opposite(row: LedgerEntry, transaction_id: UUID, *, reason: str, now: datetime) -> LedgerEntry:
    """The line that takes this one back as a whole."""
    return LedgerEntry(
        **{name: getattr(row, name) for name in COPIED},
        transaction_id=transaction_id,
        account=row.account,
        started_at=row.started_at,
        ended_at=row.ended_at,
        amount_micro_usd=-row.amount_micro_usd,
        reverses=row,
        reason=reason,
        posted_at=now,
    )


def payer_of(posting: Posting) -> str:
    """The account that pays for what of it is evidenced."""
    if posting.disputed or posting.team_account is None:
        return ADJUSTMENT
    return posting.team_account
