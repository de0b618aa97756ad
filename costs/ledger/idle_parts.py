"""What of a node's cards nobody paid for, as exact card-seconds. Pure: integrates step functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from costs.pricing import Segment

IDLE = "idle"
STRANDED = "stranded"
UNCERTAIN = "uncertain"
OVERHELD = "overheld"


@dataclass(frozen=True)
class OfferedCards:
    """Cards that a node had in `[start, end)`, and how much of them flavors offer."""

    node_uid: str
    cards: Fraction
    offered: Fraction
    certain: bool
    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class HeldCards:
    """Cards, or the exact part of one, that a pod held in `[start, end)`."""

    cards: Fraction
    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class IdlePart:
    """Card-seconds of one kind in a segment, which has one price."""

    segment: Segment
    node_uid: str
    kind: str
    card_seconds: Fraction


def parts(segment: Segment, nodes: Sequence[OfferedCards], pods: Sequence[HeldCards]) -> Iterator[IdlePart]:
    """What of the segment, of one node's cards, no pod pays for; the first and the last moment of a part are those at
    which the node's own history changes. With what pods held, the parts add up to the node's cards x seconds exactly:
    what they held beyond that counts as less than nothing of it.

    A pod may hold what is not offered any more, such as a card that became unhealthy under it: then that is not stranded.
    """
    inner = {moment for node in nodes for moment in (node.start, node.end)}
    for start, end in _pieces(segment.start, segment.end, inner):
        there = [node for node in nodes if node.start <= start and (node.end is None or node.end >= end)]
        holding = [pod for pod in pods if pod.start < end and (pod.end is None or pod.end > start)]
        sums = _integrate(start, end, there, holding)
        uid = there[-1].node_uid if there else ""
        piece = Segment(start, end, segment.span)
        yield from (IdlePart(piece, uid, kind, total) for kind, total in sums.items() if total)


def _integrate(
    start: datetime, end: datetime, nodes: Sequence[OfferedCards], pods: Sequence[HeldCards]
) -> dict[str, Fraction]:
    cards = sum((node.cards for node in nodes), Fraction(0))
    offered = sum((node.offered for node in nodes), Fraction(0))
    certain = all(node.certain for node in nodes)
    sums = dict.fromkeys((IDLE, STRANDED, UNCERTAIN, OVERHELD), Fraction(0))
    steps = {moment for pod in pods for moment in (pod.start, pod.end)}
    for first, last in _pieces(start, end, steps):
        held = sum(
            (pod.cards for pod in pods if pod.start <= first and (pod.end is None or pod.end >= last)),
            Fraction(0),
        )
        seconds = int((last - first).total_seconds())
        sums[IDLE if certain else UNCERTAIN] += seconds * max(offered - held, Fraction(0))
        sums[STRANDED if certain else UNCERTAIN] += seconds * max(cards - max(offered, held), Fraction(0))
        sums[OVERHELD] += seconds * max(held - cards, Fraction(0))
    return sums


def _pieces(
    start: datetime, end: datetime, moments: set[datetime | None]
) -> Iterator[tuple[datetime, datetime]]:
    inside = sorted(moment for moment in moments if moment is not None and start < moment < end)
    edges = [start, *inside, end]
    yield from ((first, last) for first, last in itertools.pairwise(edges) if first < last)
