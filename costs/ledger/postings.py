"""Which postings of the ledger stand, after what was taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from costs.models import LedgerEntry

ENDED_BEFORE = "The pod had ended before."
STILL_THERE = "The pod was still there."
"""Why the ledger takes back what it posted beyond an end, and takes that back in turn."""


@dataclass
class Posting:
    """Both sides of a posting of usage, and until when it stands after what was taken back of it."""

    sides: dict[str, LedgerEntry]
    started_at: datetime
    ended_at: datetime
    price_id: int
    stands_until: datetime
    taken_back: dict[str, LedgerEntry] = field(default_factory=dict)
    """The newest reversal because of an end that was heard of late."""


def standing_postings(pod_uid: str) -> list[Posting]:
    """The postings of one pod, oldest first; what people have reversed does not stand, and does not come back."""
    entries = LedgerEntry.objects.filter(pod_uid=pod_uid).select_related("reverses__reverses").order_by("id")
    postings: dict[UUID, Posting] = {}
    for entry in entries:
        reversed_entry = entry.reverses
        if reversed_entry is None:
            if entry.price_id is not None:
                new = Posting({}, entry.started_at, entry.ended_at, entry.price_id, entry.ended_at)
                postings.setdefault(entry.transaction_id, new).sides[entry.account] = entry
            continue
        origin = reversed_entry.reverses or reversed_entry
        posting = postings.get(origin.transaction_id)
        if posting is None:
            continue
        if entry.reason == STILL_THERE:
            posting.stands_until = entry.ended_at
        elif entry.reason == ENDED_BEFORE:
            posting.stands_until = entry.started_at
            posting.taken_back[entry.account] = entry
        else:
            del postings[origin.transaction_id]
    return list(postings.values())
