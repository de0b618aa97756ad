"""What people correct of the ledger: a team's line is taken back, once, and paid by the platform."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from costs.ledger import lost_work
from costs.ledger.accounts import ADJUSTMENT
from costs.ledger.excess import hold_charges, keep_within_limits
from costs.ledger.postings import OWN_REASONS, Posting, correction, lines_of_pods, postings_of
from costs.models import LedgerEntry, PricedCard
from foundation.errors import Conflict, Invalid
from teams.actors import Actor
from teams.audit import record_audit


def reverse(entry: LedgerEntry, *, reason: str, actor: Actor, now: datetime) -> list[LedgerEntry]:
    """Take back from the team what stands of a posting; the platform pays for it, as the supply was used.

    What the platform has taken over of the workload already, beyond what it was promised, is not given back twice. Returns
    the team's line and the platform's. Conflict if that was done before, if the ledger has taken all of it back
    itself, and for what no team pays. Invalid for a reason by which the ledger knows what it has corrected itself.
    """
    if reason.strip() in OWN_REASONS:
        message = "This is what the ledger says of itself: give the reason in other words."
        raise Invalid.of_field("reason", message, code="reserved")
    with transaction.atomic():
        # Whose end is moved has the card's row: until that is over it is not known what is left to reverse.
        PricedCard.objects.select_for_update(of=("self",)).filter(prices=entry.price_id).first()
        about = set() if entry.workload_id is None else {entry.workload_id}
        hold_charges(about)
        posting = _posting_of(entry)
        team = posting.team_account
        if team is None:
            raise Conflict("No team pays for this posting.", code="no_team_pays")
        end = posting.platform_from or posting.stands_until
        made = LedgerEntry.objects.bulk_create(
            correction(
                posting,
                {team: -posting.amounts[team], ADJUSTMENT: posting.amounts[team]},
                start=posting.first.started_at,
                end=end,
                reason=reason,
                now=now,
            )
        )
        keep_within_limits(about, since=posting.first.started_at, now=now)
        lost_work.look_again(workload_ids=about)
        record_audit(
            actor=actor,
            action="ledger.reversed",
            target_kind="ledger",
            target_id=str(entry.transaction_id),
            team=entry.team,
            after={"transaction_id": str(made[0].transaction_id)},
            reason=reason,
            now=now,
        )
    return made


def _posting_of(entry: LedgerEntry) -> Posting:
    """The posting of usage that this line is of; Conflict where nothing is left to reverse."""
    if entry.reverses_id is not None or not entry.pod_uid:
        raise Conflict("Only what was posted for a pod can be reversed.", code="not_a_charge")
    found = postings_of(lines_of_pods([entry.pod_uid]))
    posting = next(each for each in found if each.first.transaction_id == entry.transaction_id)
    if posting.disputed:
        raise Conflict("This posting was reversed already.", code="already_reversed")
    if posting.stands_until <= posting.first.started_at:
        raise Conflict("The ledger has taken this posting back itself.", code="already_taken_back")
    if posting.platform_from is not None and posting.platform_from <= posting.first.started_at:
        raise Conflict("The platform pays for this already.", code="no_team_pays")
    return posting
