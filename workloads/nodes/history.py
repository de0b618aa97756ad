"""Keeps the history of nodes: which cards each had from when to when, and what of them flavors offered.

Called in the transaction that writes the node's row, and holds that row. What changes, changes in the second in which it
was observed. Of a time in which nobody watched it is not known when: what was known holds until the last sight of the
watch, and from then on there is a row that is not `certain`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max, Q, QuerySet

from cluster.names import DEFAULT_CLUSTER
from workloads.models import NodeInterval, NodeRecord, ResourceFlavor, WatchCursor
from workloads.nodes.supply import CardOffer, offers_of

WATCH_TRUSTED = timedelta(seconds=60)
"""A quiet watch is begun anew, and its cursor moved, every 20 seconds."""
COMES_UP = timedelta(minutes=15)
"""So long after a node was made its labels and device plugins still come: its cards were there from the start."""
_LOCK = 0x6E6F6465


def flavors_stay() -> None:
    """Until the transaction ends no flavor changes: what is judged by them now is judged by the latest. Before any row."""
    _lock("pg_advisory_xact_lock_shared")


def flavors_may_change() -> None:
    """Wait for those who judge nodes by the flavors, and let none begin until the transaction ends. Before any row."""
    _lock("pg_advisory_xact_lock")


def _lock(function: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [_LOCK])


def node_intervals(
    *, start: datetime, end: datetime, cluster: str = DEFAULT_CLUSTER
) -> QuerySet[NodeInterval]:
    """The rows of which a part lies in `[start, end)`, by their begin. Those without an end go on."""
    rows = NodeInterval.objects.of(cluster).filter(started_at__lt=end)
    return rows.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=start))


def evidenced_until(
    *, cluster: str, now: datetime, kind: str = NodeRecord.WATCH, trusted: timedelta = WATCH_TRUSTED
) -> datetime:
    """The second until which what is known of the nodes, or of another kind, holds: `now`, or the last sight of a watch
    that is older than is trusted.
    """
    seen_at = WatchCursor.objects.of(cluster).filter(kind=kind).aggregate(at=Max("seen_at"))["at"]
    return _second(now if seen_at is None or now - seen_at <= trusted else seen_at)


def node_seen(record: NodeRecord, *, before: NodeRecord | None, now: datetime) -> None:
    """Go on with the history of a node that is there. `before` is its row as it was; None for one that is new."""
    back = before is not None and before.gone_at is not None
    if before is not None and not back and _told_by(before) == _told_by(record):
        return
    rows = NodeInterval.objects.of(record.cluster).filter(node_uid=record.uid)
    there, offers = list(rows.filter(ended_at__isnull=True)), _offers([record])[0]
    sure = evidenced_until(cluster=record.cluster, now=now)
    if back and not there:
        # It was there all the time: whoever missed it was wrong.
        there = _as_they_were(rows)
        sure = min([sure, *(row.started_at for row in there)])
    elif offers and not rows.exists():
        there = _since_it_was_made(record, offers, sure, new=before is None, now=now)
    _go_on(record, there, offers, sure=sure, now=now)


def node_gone(record: NodeRecord, *, left_at: datetime | None = None, now: datetime) -> None:
    """End the history of a node that is not there any more. `left_at`: when it was asked to go, if that is known: it
    was still there then.
    """
    sure = evidenced_until(cluster=record.cluster, now=now)
    rows = NodeInterval.objects.of(record.cluster).filter(node_uid=record.uid, ended_at__isnull=True)
    _go_on(record, rows, (), sure=max(sure, _second(left_at)) if left_at else sure, now=now)


def keep_histories(*, cluster: str, now: datetime) -> int:
    """Begin or correct, from now on, the history of every node that is there and has not the one that its row and the
    flavors say: after one of these has changed, and of nodes of a time when none was kept. Returns of how many.
    """
    with transaction.atomic():
        flavors_stay()
        there = NodeRecord.objects.of(cluster).filter(gone_at__isnull=True)
        records = list(there.select_for_update(no_key=True).order_by("uid"))
        rows: dict[str, list[NodeInterval]] = {record.uid: [] for record in records}
        for row in NodeInterval.objects.of(cluster).filter(node_uid__in=list(rows), ended_at__isnull=True):
            rows[row.node_uid].append(row)
        return sum(
            _go_on(record, rows[record.uid], offers, sure=_second(now), now=now)
            for record, offers in zip(records, _offers(records), strict=True)
        )


def flavors_changed(*, now: datetime) -> None:
    """Judge all nodes anew, from now on; called after `flavors_may_change`, in the transaction that changes one."""
    for cluster in NodeRecord.objects.order_by().values_list("cluster", flat=True).distinct():
        keep_histories(cluster=cluster, now=now)


def _offers(records: Collection[NodeRecord]) -> list[tuple[CardOffer, ...]]:
    flavors = [flavor.facts for flavor in ResourceFlavor.objects.all()]
    return [offers_of(record.facts, record.capacity, flavors) for record in records]


def _told_by(record: NodeRecord) -> tuple[object, ...]:
    """By what its cards are told: a heartbeat changes none of these."""
    return record.labels, record.allocatable, record.capacity


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _since_it_was_made(
    record: NodeRecord, offers: Sequence[CardOffer], sure: datetime, *, new: bool, now: datetime
) -> list[NodeInterval]:
    """The rows that a node without any has until now: none, or since it was made.

    What was there when nodes were first followed begins now, as nobody knows what it offered before.
    """
    made, at = _second(record.created_at), _second(now)
    followed = WatchCursor.objects.of(record.cluster).filter(kind=NodeRecord.WATCH).exists()
    if made >= at or (not followed if new else at - made > COMES_UP):
        return []
    if new:
        # Made while nobody watched: what it offered until it was seen is as good as a guess.
        return [_row(record, offer, made, certain=sure == at) for offer in offers]
    return [_row(record, offer.unoffered(), made) for offer in offers]


def _as_they_were(rows: QuerySet[NodeInterval]) -> list[NodeInterval]:
    """The last rows of a node, to go on from their end."""
    ended_at = rows.aggregate(last=Max("ended_at"))["last"]
    if ended_at is None:
        return []
    again = list(rows.filter(ended_at=ended_at))
    for row in again:
        row.pk, row.started_at, row.ended_at, row.certain = None, ended_at, None, True
    return again


def _row(record: NodeRecord, offer: CardOffer, started_at: datetime, *, certain: bool = True) -> NodeInterval:
    return NodeInterval(
        cluster=record.cluster,
        node_uid=record.uid,
        node_name=record.name,
        card=offer.card,
        capacity_type=offer.capacity_type,
        cards=offer.cards,
        offered_numerator=offer.offered.numerator,
        offered_denominator=offer.offered.denominator,
        resources=offer.resources,
        certain=certain,
        started_at=started_at,
    )


def _offer_of(row: NodeInterval) -> CardOffer:
    return CardOffer(row.card, row.capacity_type, row.cards, row.offered, row.resources)


def _go_on(
    record: NodeRecord,
    there: Iterable[NodeInterval],
    offers: Sequence[CardOffer],
    *,
    sure: datetime,
    now: datetime,
) -> bool:
    """Write what the node is from now on, where `there` says otherwise; returns whether anything did."""
    rows = list(there)
    if not offers and record.gone_at is None:
        # Cards do not leave a node with its labels: nobody can have them, until it is said again what they are.
        offers = [_offer_of(row).unoffered() for row in rows]
    wanted = {(offer.card, offer.capacity_type): offer for offer in offers}
    changed = False
    for row in rows:
        if row.certain and _offer_of(row) == wanted.get((row.card, row.capacity_type)):
            del wanted[row.card, row.capacity_type]
            if row.pk:
                continue
            row.save()
        else:
            _end(record, row, sure=sure if row.certain else row.started_at, at=_second(now))
        changed = True
    if wanted:
        known = NodeInterval.objects.of(record.cluster).filter(node_uid=record.uid)
        # The clock of whoever wrote the last row may be ahead.
        begins = max(_second(now), known.aggregate(last=Max("ended_at"))["last"] or _second(now))
        NodeInterval.objects.bulk_create(_row(record, offer, begins) for offer in wanted.values())
    return changed or bool(wanted)


def _end(record: NodeRecord, row: NodeInterval, *, sure: datetime, at: datetime) -> None:
    """Close the row at the last second for which it is evidenced, and say of the rest that it is not."""
    until = max(row.started_at, min(sure, at))
    if until > row.started_at:
        row.ended_at = until
        row.save()
    elif row.pk:
        # Of the same second: what was written first was not so for a whole one.
        row.delete()
    if until < at:
        rest = _row(record, _offer_of(row), until, certain=False)
        rest.ended_at = at
        rest.save()
