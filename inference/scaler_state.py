"""How an endpoint is scaled now, how long it took to wake, and what it saved while it slept. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from controller.timeline import Moved
from costs.queries import PriceBook, rate_now, spans_by_card
from inference.models import Endpoint, ScaleSample
from inference.platform import engine
from inference.scalers import scales
from inference.specs import EndpointSpec
from workloads.models import Workload, WorkloadEvent
from workloads.states import Phase, Reason

WAKES_SHOWN = 20
SECONDS_PER_HOUR = 3600
_REASONS = frozenset(Reason)


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
    """What sleeping at zero replicas cost those who called, and saved."""

    wakes: tuple[Wake, ...]
    """The newest first."""
    asleep_seconds: int
    """Over its whole life, the present sleep included."""
    saved_micro_usd: int | None
    """What the replicas would have cost at today's price that did not run while it slept; None without a price."""

    @property
    def cold_start_seconds(self) -> int | None:
        """Of the newest wake."""
        return self.wakes[0].seconds if self.wakes else None


def scaling_of(
    endpoint: Endpoint, spec: EndpointSpec, *, newest: ScaleSample | None, by: Callable[[], str] = engine
) -> Scaling:
    """By the spec that is wanted and the newest sample; `by` says which engine scales, and is asked only where one does."""
    return Scaling(
        engine=by() if scales(spec) else None,
        trigger=spec.scaling.trigger if spec.scaling and scales(spec) else None,
        minimum=0 if spec.scale_to_zero else spec.min_replicas,
        maximum=spec.max_replicas,
        paused=endpoint.scaler_paused,
        paused_replicas=endpoint.paused_replicas,
        newest=newest,
    )


def slept(
    workload: Workload,
    spec: EndpointSpec,
    *,
    now: datetime,
    price_book: PriceBook | None = None,
    moves: Iterable[Moved] | None = None,
) -> Slept:
    """By all moves that were written down, the oldest first; one query each for them and for `spans_by_card` where the
    caller has not read them.
    """
    asleep, wakes = _sleeps(_moves(workload) if moves is None else moves, now)
    prices = spans_by_card() if price_book is None else price_book
    rate = _rate(workload, spec.min_replicas * spec.gpus_per_replica, prices, now)
    return Slept(
        wakes=tuple(wakes[:WAKES_SHOWN]),
        asleep_seconds=asleep,
        saved_micro_usd=None if rate is None else round(Fraction(rate * asleep, SECONDS_PER_HOUR)),
    )


def _moves(workload: Workload) -> Iterable[Moved]:
    rows = WorkloadEvent.objects.filter(workload=workload).order_by("id")
    return rows.values_list("at", "to_phase", "reason", "attempt", named=True)


def _sleeps(moves: Iterable[Moved], now: datetime) -> tuple[int, list[Wake]]:
    """Seconds asleep, and the wakes, newest first, by the moves that were written down."""
    asleep, wakes = 0.0, []
    slept_since: datetime | None = None
    called_at: datetime | None = None
    for move in moves:
        at, phase, reason = move.at, move.to_phase, move.reason
        if reason not in _REASONS:
            # A step of a rollout, which moves nothing.
            continue
        if slept_since is not None and reason != Reason.SCALED_TO_ZERO:
            asleep += (at - slept_since).total_seconds()
        if reason == Reason.WAKING:
            called_at = called_at or at
        elif called_at is not None and phase == Phase.RUNNING and reason != Reason.SCALED_TO_ZERO:
            wakes.append(Wake(called_at, round((at - called_at).total_seconds())))
            called_at = None
        elif reason == Reason.SCALED_TO_ZERO or phase not in {Phase.STARTING, Phase.ADMITTED}:
            called_at = None
        slept_since = (slept_since or at) if reason == Reason.SCALED_TO_ZERO else None
    if slept_since is not None:
        asleep += (now - slept_since).total_seconds()
    return round(asleep), wakes[::-1]


def _rate(workload: Workload, units: int, price_book: PriceBook, now: datetime) -> int | None:
    """Micro-USD an hour of so many units of its flavor; None where it has none, or that has no price."""
    if workload.flavor is None or not units:
        return None
    return rate_now(workload.flavor, workload.capacity_type, units, price_book, now)
