"""How an endpoint is scaled now, how long it took to wake, and what it saved while it slept. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Protocol

from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from console.pages.reading import OF_A_ROLLOUT, newest_moves
from console.pages.timeline import Moved
from costs.queries import PriceBook, rate_now, spans_by_card
from inference.autoscaling.platform import engine
from inference.models import Endpoint, ScaleSample
from inference.specs import EndpointSpec
from workloads.models import Workload
from workloads.states import Phase, Reason

WAKES_SHOWN = 20
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Wake:
    """From the call that found no replica until one was ready."""

    at: datetime
    seconds: int


@dataclass(frozen=True)
class Scaling:
    """How many replicas there may be, and what chooses."""

    engine: str | None
    """`keda` or `hpa`; None where the number of replicas is fixed."""
    trigger: str | None
    minimum: int
    maximum: int
    paused: bool
    paused_replicas: int | None
    newest: ScaleSample | None


@dataclass(frozen=True)
class Slept:
    """What sleeping at zero replicas cost the callers, and what it saved."""

    wakes: tuple[Wake, ...]
    """The newest first."""
    asleep_seconds: int
    """Over its whole life, the present sleep included."""
    saved_micro_usd: int | None
    """What the replicas would have cost at today's price that did not run while it slept; None without a price."""

    @property
    def cold_start_seconds(self) -> int | None:
        """Seconds of the newest wake."""
        return self.wakes[0].seconds if self.wakes else None


def scaling_of(
    endpoint: Endpoint, spec: EndpointSpec, *, newest: ScaleSample | None, by: Callable[[], str] = engine
) -> Scaling:
    """How it scales, by the wanted spec and the newest sample; `by` names the engine, and is called only where one scales."""
    return Scaling(
        engine=by() if spec.scales else None,
        trigger=spec.scaling.trigger if spec.scaling and spec.scales else None,
        minimum=0 if spec.scale_to_zero else spec.min_replicas,
        maximum=spec.max_replicas,
        paused=endpoint.scaler_paused,
        paused_replicas=endpoint.paused_replicas,
        newest=newest,
    )


class Lived(Moved, Protocol):
    """A move, and how many seconds its endpoint has slept in its whole life."""

    asleep: float


def slept(
    workload: Workload,
    spec: EndpointSpec,
    *,
    now: datetime,
    price_book: PriceBook | None = None,
    moves: Sequence[Lived] | None = None,
) -> Slept:
    """How it slept, by its newest moves, the oldest first, with `asleep_of`; one query each for them and for
    `spans_by_card` where the caller has not read them.
    """
    known = newest_moves(workload, asleep=asleep_of(workload, now=now)) if moves is None else moves
    asleep = round(known[-1].asleep) if known else 0
    prices = spans_by_card() if price_book is None else price_book
    rate = _rate(workload, spec.min_replicas * spec.gpus_per_replica, prices, now)
    return Slept(
        wakes=tuple(_wakes(known)[:WAKES_SHOWN]),
        asleep_seconds=asleep,
        saved_micro_usd=None if rate is None else round(Fraction(rate * asleep, SECONDS_PER_HOUR)),
    )


# Added up in the database: an endpoint that slept and woke for a year has more moves than a page can read.
_ASLEEP = """(
    SELECT coalesce(extract(epoch FROM sum(until - at)), 0)::float8
    FROM (SELECT at, reason, lead(at, 1, %s) OVER (ORDER BY id) AS until FROM workloads_workloadevent
          WHERE workload_id = %s AND NOT starts_with(source, %s)) AS moves
    WHERE reason = %s
)"""


def asleep_of(workload: Workload, *, now: datetime) -> RawSQL:
    """How many seconds the endpoint has slept by now, by all its moves; to be read with rows, once for all of them."""
    values = (now, workload.pk, OF_A_ROLLOUT, Reason.SCALED_TO_ZERO.value)
    return RawSQL(_ASLEEP, values, output_field=FloatField())  # noqa: S611 (a constant, and its values)


def _wakes(moves: Iterable[Moved]) -> list[Wake]:
    """The newest first."""
    wakes = []
    called_at: datetime | None = None
    for move in moves:
        at, phase, reason = move.at, move.to_phase, move.reason
        if reason == Reason.WAKING:
            called_at = called_at or at
        elif called_at is not None and phase == Phase.RUNNING and reason != Reason.SCALED_TO_ZERO:
            wakes.append(Wake(called_at, round((at - called_at).total_seconds())))
            called_at = None
        elif reason == Reason.SCALED_TO_ZERO or phase not in {Phase.STARTING, Phase.ADMITTED}:
            called_at = None
    return wakes[::-1]


def _rate(workload: Workload, units: int, price_book: PriceBook, now: datetime) -> int | None:
    """Micro-USD an hour of so many units of its flavor; None where it has none, or that has no price."""
    if workload.flavor is None or not units:
        return None
    return rate_now(workload.flavor, workload.capacity_type, units, price_book, now)
