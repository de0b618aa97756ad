"""Recomputes the ledger from what it was posted by, in steps that remember how far they came, and keeps what differs.

- Pods: the sum of seconds x units x price of a pod's lines is that of its row's own times: an integer, so exactly.
- Lanes: what was posted of a card is its exact cost, less what rounding has left over.
- Nodes: in each counted hour, what pods held and what nobody paid for are the node's cards.

It is written apart from what posts, and knows nothing of postings, corrections and carries but their lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from django.db import connection, transaction
from django.db.models import Max, Q, Sum
from django.db.models.functions import Abs

from costs.ledger.postings import ENDED_BEFORE, STILL_THERE
from costs.models import (
    IdleSpan,
    LaneSum,
    LedgerCheck,
    LedgerEntry,
    LedgerFault,
    Price,
    PricedCard,
    SupplyCursor,
    SupplyMark,
    UsageInterval,
)
from costs.pricing import PriceSpan
from costs.queries import PriceBook, spans_by_card
from foundation import leases
from workloads.models import NodeInterval, PodRecord

STEP: Final = 1_000
LINES_STEP: Final = 20_000
HOURS_STEP: Final = 24
HOUR: Final = timedelta(hours=1)
LATE: Final = 2 * HOUR
"""What was used so long ago is in the ledger, which takes it in each hour, unless its price is younger."""
Faults = dict[str, tuple[Fraction | int, str]]
"""By key how much too much the ledger has, in micro-USD, and what is wrong in words."""
POD, NODE, LANE = LedgerFault.About.POD, LedgerFault.About.NODE, LedgerFault.About.LANE

_WEIGHTS = """
SELECT e.pod_uid, sum(
    CASE WHEN e.reverses_id IS NULL OR e.reason = %(again)s THEN 1 WHEN e.reason = %(back)s THEN -1 ELSE 0 END
    * extract(epoch FROM e.ended_at - e.started_at) * e.units * p.micro_usd_per_card_hour
)
FROM costs_ledgerentry AS e JOIN costs_price AS p ON p.id = e.price_id
WHERE e.pod_uid = ANY(%(uids)s) AND (e.reverses_id IS NOT NULL OR e.pod_uid <> '' AND e.reverses_id IS NULL)
    AND e.account LIKE 'supply:%%'
GROUP BY e.pod_uid
"""
# What people have reversed before supply stayed is in whole amounts, and no second of it was taken back.
_LANES = """
SELECT p.priced_id, u.fraction_numerator, u.fraction_denominator, -sum(e.amount_micro_usd), sum(
    CASE WHEN e.pod_uid = '' THEN 0 WHEN e.reverses_id IS NULL OR e.reason = %(again)s THEN 1 ELSE -1 END
    * extract(epoch FROM e.ended_at - e.started_at) * e.units * p.micro_usd_per_card_hour
)
FROM costs_ledgerentry AS e JOIN costs_price AS p ON p.id = e.price_id
LEFT JOIN costs_usageinterval AS u ON u.pod_uid = e.pod_uid
WHERE e.id > %(after)s AND e.id <= %(until)s AND e.account LIKE 'supply:%%'
    AND (e.pod_uid = '' OR e.reverses_id IS NULL OR e.reason IN (%(again)s, %(back)s))
GROUP BY 1, 2, 3
"""


def difference() -> int:
    """Micro-USD by which the ledger differs from its evidence, as far as it was recomputed; 0 if it is right."""
    return LedgerFault.objects.aggregate(total=Sum(Abs("difference_micro_usd")))["total"] or 0


def go_on(*, now: datetime) -> bool:
    """The next step of every part; returns whether a round has ended with it."""
    state, _ = LedgerCheck.objects.get_or_create(pk=LedgerCheck.SINGLETON_PK)
    over = [
        _step_of_pods(state, now),
        _step_of_usage(state, now),
        _step_of_lanes(state, now),
        _step_of_hours(state, now),
    ]
    if all(over):
        state.pods_until, state.usage_until, state.hours_until = 0, 0, None
        state.rounds += 1
    state.checked_at = now
    with transaction.atomic():
        leases.check()
        state.save()
    return all(over)


def check_all(*, now: datetime) -> list[LedgerFault]:
    """A whole round at once; what differs."""
    LedgerCheck.objects.filter(pk=LedgerCheck.SINGLETON_PK).update(
        pods_until=0, usage_until=0, hours_until=None
    )
    while not go_on(now=now):
        pass
    return list(LedgerFault.objects.all())


def seal(pod_uids: Collection[str]) -> set[str]:
    """Verify these pods, and keep what their rows prove, so that the rows may be deleted; returns which are verified.

    Call in the transaction that deletes them. What differs, or is not settled, is not sealed, and its row has to stay.
    """
    usages = {row.pod_uid: row for row in UsageInterval.objects.filter(pod_uid__in=pod_uids)}
    pods = list(PodRecord.objects.filter(uid__in=pod_uids).select_related("workload"))
    posted, book = _weights(usages), spans_by_card()
    proved, verified = [], set()
    for pod in pods:
        usage = usages.get(pod.uid)
        if usage is None:
            if not _holds_units(pod):
                verified.add(pod.uid)
            continue
        weight = _evidence(pod, usage, book, usage.settled_until)
        if usage.ended_at == usage.settled_until and weight == posted.get(pod.uid, 0):
            usage.sealed = Decimal(weight)
            proved.append(usage)
            verified.add(pod.uid)
    UsageInterval.objects.bulk_update(proved, ["sealed"])
    return verified


# --- pods


def _step_of_pods(state: LedgerCheck, now: datetime) -> bool:
    """Pods that held something and have no interval."""
    rows = PodRecord.objects.filter(pk__gt=state.pods_until).select_related("workload__flavor").order_by("pk")
    pods = list(rows[:STEP])
    known = set(
        UsageInterval.objects.filter(pod_uid__in=[pod.uid for pod in pods]).values_list("pod_uid", flat=True)
    )
    lacking = [pod for pod in pods if pod.uid not in known and _holds_units(pod)]
    # Its interval may have been made since: it is in the same transaction as the row.
    made = set(
        UsageInterval.objects.filter(pod_uid__in=[pod.uid for pod in lacking]).values_list(
            "pod_uid", flat=True
        )
    )
    wrong: Faults = {
        pod.uid: (1, "The pod held GPUs, and there is no usage of it.")
        for pod in lacking
        if pod.uid not in made
    }
    _keep(POD, [], wrong, now)
    state.pods_until = pods[-1].pk if pods else state.pods_until
    return len(pods) < STEP


def _holds_units(pod: PodRecord) -> bool:
    return pod.units > 0 and pod.scheduled_at is not None and pod.workload.flavor_id is not None


def _step_of_usage(state: LedgerCheck, now: datetime) -> bool:
    rows = UsageInterval.objects.filter(pk__gt=state.usage_until).order_by("pk")
    usages = list(rows[:STEP])
    suspects = _wrong(usages, now)
    if suspects:
        # Somebody may have written between two reads: again, while nobody can post.
        with transaction.atomic():
            leases.check()
            lanes = {(row.card, row.capacity_type) for row in usages if row.pod_uid in suspects}
            _lock(lanes)
            suspects = _wrong(UsageInterval.objects.filter(pod_uid__in=list(suspects)), now)
    _keep(POD, [row.pod_uid for row in usages], suspects, now)
    state.usage_until = usages[-1].pk if usages else state.usage_until
    return len(usages) < STEP


def _lock(lanes: Collection[tuple[str, str]]) -> None:
    condition = Q(pk=None)
    for card, capacity_type in lanes:
        condition |= Q(card=card, capacity_type=capacity_type)
    list(PricedCard.objects.select_for_update().filter(condition).order_by("card", "capacity_type"))


class _Due:
    """Until when the ledger has to have what was used, whatever says how far it was posted."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._late = now.replace(microsecond=0) - LATE
        young = Price.objects.filter(created_at__gt=self._late)
        self._repriced = set(young.values_list("priced__card", "priced__capacity_type"))

    def of(self, usage: UsageInterval) -> datetime:
        """Where its posting is late, until then; else as far as it is posted."""
        if (usage.card, usage.capacity_type) in self._repriced:
            return usage.settled_until
        return max(usage.settled_until, min(usage.ended_at or self._late, self._late))

    def held_until(self, usage: UsageInterval) -> datetime | None:
        """Until when it counts as paid for, in the ledger or soon; None: it runs on."""
        return usage.ended_at if self.of(usage) == usage.settled_until else usage.settled_until


def _wrong(usages: Iterable[UsageInterval], now: datetime) -> Faults:
    """By UID what the ledger has too much of a pod, and in which words."""
    rows = {row.pod_uid: row for row in usages}
    pods = {pod.uid: pod for pod in PodRecord.objects.filter(uid__in=list(rows))}
    posted, book, due = _weights(rows), spans_by_card(), _Due(now)
    wrong: Faults = {}
    for uid, usage in rows.items():
        pod, weight = pods.get(uid), posted.get(uid, 0)
        if pod is None and usage.sealed is None:
            wrong[uid] = (
                max(_money(weight, usage), Fraction(1)),
                "Its row is gone, and with it what proves its lines.",
            )
            continue
        proved = int(usage.sealed or 0) if pod is None else _evidence(pod, usage, book, due.of(usage))
        if weight != proved:
            message = f"Its lines say {weight} seconds x units x price, its own times {proved}."
            wrong[uid] = (_money(weight - proved, usage), message)
    return wrong


def _money(weight: int, usage: UsageInterval) -> Fraction:
    return Fraction(weight * usage.fraction_numerator, usage.fraction_denominator * 3600)


def _weights(pod_uids: Collection[str]) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_WEIGHTS, {"uids": list(pod_uids), "back": ENDED_BEFORE, "again": STILL_THERE})
        return {uid: int(weight) for uid, weight in cursor.fetchall()}


def _evidence(pod: PodRecord, usage: UsageInterval, book: PriceBook, due: datetime) -> int:
    """Seconds x units x price by the pod's own times; of what is not all in the ledger yet until then."""
    if pod.scheduled_at is None:
        return 0
    start = pod.scheduled_at.replace(microsecond=0)
    end = due
    if pod.ended_at is not None and (usage.ended_at is None or due == usage.ended_at):
        end = pod.ended_at.replace(microsecond=0)
    spans = book.get((usage.card, usage.capacity_type), [])
    return sum(_seconds(start, end, span) * pod.units * span.micro_usd_per_card_hour for span in spans)


def _seconds(start: datetime, end: datetime, span: PriceSpan) -> int:
    first, last = max(start, span.start), end if span.until is None else min(end, span.until)
    return max(0, int((last - first).total_seconds()))


# --- lanes


def _step_of_lanes(state: LedgerCheck, now: datetime) -> bool:
    """Take the next lines into the sums of their lanes; at the end of the ledger compare these with what it cost."""
    last = LedgerEntry.objects.aggregate(last=Max("pk"))["last"] or 0
    if last - state.lines_until > 2 * LINES_STEP:
        _add_lines(state, state.lines_until + LINES_STEP)
        return False
    with transaction.atomic():
        leases.check()
        # Who posts holds a card's row: until this is over nobody does, and no line is in the making.
        cards = list(PricedCard.objects.select_for_update().order_by("card", "capacity_type"))
        _add_lines(state, LedgerEntry.objects.aggregate(last=Max("pk"))["last"] or 0)
        sums = {row.priced_id: row for row in LaneSum.objects.all()}
        wrong: Faults = {}
        for priced in cards:
            of_lane = sums.get(priced.pk) or LaneSum(priced=priced)
            too_much = of_lane.amount_micro_usd + priced.carry - of_lane.cost - _cost_of_spans(priced)
            if too_much:
                wrong[str(priced)] = (too_much, "What was posted is not what was used, idle and stranded.")
    _keep(LANE, [str(priced) for priced in cards], wrong, now)
    return True


def _add_lines(state: LedgerCheck, until: int) -> None:
    with transaction.atomic():
        leases.check()
        sums = {row.priced_id: row for row in LaneSum.objects.select_for_update()}
        with connection.cursor() as cursor:
            values: dict[str, int | str] = {
                "after": state.lines_until,
                "until": until,
                "back": ENDED_BEFORE,
                "again": STILL_THERE,
            }
            cursor.execute(_LANES, values)
            for priced_id, numerator, denominator, amount, weight in cursor.fetchall():
                of_lane = sums.setdefault(priced_id, LaneSum(priced_id=priced_id))
                cost = of_lane.cost + Fraction(int(weight) * (numerator or 0), (denominator or 1) * 3600)
                of_lane.amount_micro_usd += int(amount)
                of_lane.cost_numerator, of_lane.cost_denominator = (
                    Decimal(cost.numerator),
                    Decimal(cost.denominator),
                )
        for of_lane in sums.values():
            of_lane.save()
        state.lines_until = until
        state.save()


def _cost_of_spans(priced: PricedCard) -> Fraction:
    rows = IdleSpan.objects.filter(priced=priced).order_by()
    sums = rows.values_list("kind", "seconds_denominator", "price__micro_usd_per_card_hour").annotate(
        total=Sum("seconds_numerator")
    )
    total = Fraction(0)
    for kind, denominator, price, seconds in sums:
        sign = -1 if kind == IdleSpan.Kind.OVERHELD else 1
        total += Fraction(sign * int(seconds) * price, denominator * 3600)
    return total


# --- nodes


def _step_of_hours(state: LedgerCheck, now: datetime) -> bool:
    cursor = SupplyCursor.objects.first()
    if cursor is None:
        return True
    start = state.hours_until or cursor.began_at.replace(minute=0, second=0, microsecond=0)
    end = min(start + HOURS_STEP * HOUR, cursor.swept_until)
    book, due = spans_by_card(), _Due(now)
    hour = start
    while hour < end:
        for lane in PricedCard.objects.all():
            _check_hour(lane, hour, cursor.began_at, book, due)
        hour += HOUR
    state.hours_until = max(start, end)
    return state.hours_until >= cursor.swept_until


def _check_hour(lane: PricedCard, hour: datetime, began_at: datetime, book: PriceBook, due: _Due) -> None:
    known, wrong = _nodes_in(lane, hour, began_at, book, due)
    marked = SupplyMark.objects.filter(
        card=lane.card, capacity_type=lane.capacity_type, started_at__lt=hour + HOUR
    )
    # What is to be counted again is not known to be wrong.
    if wrong and marked.exists():
        return
    _keep(NODE, known, wrong, due.now)


def _nodes_in(
    lane: PricedCard, hour: datetime, began_at: datetime, book: PriceBook, due: _Due
) -> tuple[list[str], Faults]:
    spans = book.get((lane.card, lane.capacity_type), [])
    start, end = max(hour, began_at), hour + HOUR
    inside = Q(started_at__lt=end) & (Q(ended_at__isnull=True) | Q(ended_at__gt=start))
    had: dict[str, Fraction] = {}
    paid: dict[str, Fraction] = {}
    of_lane = {"card": lane.card, "capacity_type": lane.capacity_type}
    for node in NodeInterval.objects.filter(inside, **of_lane):
        cost = node.cards * _cost_in(node.started_at, node.ended_at, start, end, spans)
        had[node.node_name] = had.get(node.node_name, Fraction(0)) + cost
    for usage in UsageInterval.objects.filter(inside, **of_lane):
        cost = usage.cards * _cost_in(usage.started_at, due.held_until(usage), start, end, spans)
        paid[usage.node_name] = paid.get(usage.node_name, Fraction(0)) + cost
    rows = IdleSpan.objects.filter(priced=lane, started_at__gte=hour, started_at__lt=end).select_related(
        "price"
    )
    for row in rows:
        sign = -1 if row.kind == IdleSpan.Kind.OVERHELD else 1
        cost = sign * row.card_seconds * row.price.micro_usd_per_card_hour / 3600
        paid[row.node_name] = paid.get(row.node_name, Fraction(0)) + cost
    wrong: Faults = {}
    names = sorted({*had, *paid})
    for name in names:
        too_much = paid.get(name, Fraction(0)) - had.get(name, Fraction(0))
        if too_much:
            wrong[_hour_key(lane, hour, name)] = (
                too_much,
                "What pods held and what was idle is not what it had.",
            )
    return [_hour_key(lane, hour, name) for name in names], wrong


def _hour_key(lane: PricedCard, hour: datetime, node_name: str) -> str:
    return f"{node_name}, {lane}, {hour:%Y-%m-%dT%H}:00Z"


def _cost_in(
    since: datetime, until: datetime | None, start: datetime, end: datetime, spans: Sequence[PriceSpan]
) -> Fraction:
    """Micro-USD of one card in the part of `[since, until)` that lies in `[start, end)`, unrounded."""
    first, last = max(since, start), end if until is None else min(until, end)
    return sum(
        (Fraction(_seconds(first, last, span) * span.micro_usd_per_card_hour, 3600) for span in spans),
        Fraction(0),
    )


# --- what differs


def _keep(
    about: LedgerFault.About,
    looked_at: Collection[str],
    wrong: Faults,
    now: datetime,
) -> None:
    """Remember what is wrong, and forget what was and is not."""
    right = [key for key in looked_at if key not in wrong]
    with transaction.atomic():
        leases.check()
        if right:
            LedgerFault.objects.filter(about=about, key__in=right).delete()
        LedgerFault.objects.bulk_create(
            [
                LedgerFault(
                    about=about, key=key, difference_micro_usd=_away_from_0(by), message=message, seen_at=now
                )
                for key, (by, message) in wrong.items()
            ],
            update_conflicts=True,
            unique_fields=["about", "key"],
            update_fields=["difference_micro_usd", "message", "seen_at"],
        )


def _away_from_0(by: Fraction | int) -> int:
    exact = Fraction(by)
    up = -(-abs(exact).numerator // exact.denominator)
    return up if exact > 0 else -up
