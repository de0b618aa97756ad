"""What work costs in time, and whether the rest of a team's budget pays for it. Pure; times are seconds since the epoch.

A run is promised the money for its time limit and for being stopped, or what is left where that is less; an endpoint
the money for an hour. Whole micro-USD, rounded up, so that a promise is never short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from foundation.money import format_usd
from policy.pool_snapshot import PoolSnapshot, PriceFacts, Waiter

HOUR = 3600
ENDPOINT_SECONDS = HOUR
"""What has no end is promised so much time at a go."""
STOP_MARGIN_SECONDS = 5
"""Besides the grace period, the least that passes between the decision to stop and the end of the last pod."""


@dataclass(frozen=True, slots=True)
class Need:
    """Micro-USD: with less than `least` it does not start, and more than `whole` it is not promised."""

    least: int
    whole: int


NOTHING = Need(0, 0)


@dataclass(frozen=True)
class MoneyEnd:
    """When what runs has to be looked at for its team's budget; `stops`: it begins to stop then, so that it ends within
    what is promised to it.
    """

    at: datetime
    stops: bool
    message: str = ""


def cost(prices: Sequence[PriceFacts], cards: Fraction, start: int, end: int) -> int:
    """Micro-USD for so many cards in `[start, end)`, rounded up; time without a price costs nothing."""
    exact = Fraction(0)
    for price in prices:
        since = max(start, price.since)
        until = end if price.until is None else min(end, price.until)
        if until > since:
            exact += cards * (until - since) * price.micro_usd / HOUR
    return -(-exact.numerator // exact.denominator)


def lasts_until(prices: Sequence[PriceFacts], cards: Fraction, start: int, money: int) -> int | None:
    """The last second up to which the money pays for so many cards from `start` on; None where it always will."""
    left = Fraction(max(0, money))
    for price in sorted(prices, key=lambda item: item.since):
        if price.until is not None and price.until <= start:
            continue
        since, rate = max(start, price.since), cards * price.micro_usd / HOUR
        if not rate:
            continue
        if price.until is None or left < rate * (price.until - since):
            return since + int(left / rate)
        left -= rate * (price.until - since)
    return None


def need(
    prices: Sequence[PriceFacts],
    cards: Fraction,
    *,
    seconds: int | None,
    start: int,
    ends_at: int,
    minimum: int,
    tail: int,
) -> Need:
    """What work from `start` on must have and may have of a period that ends at `ends_at`. `seconds` it may run, None
    without end; `minimum` is what it must be able to run at least, `tail` what it takes to stop it.
    """
    if seconds is None:
        hour = cost(prices, cards, start, min(start + ENDPOINT_SECONDS, ends_at))
        return Need(hour, hour)
    least = cost(prices, cards, start, min(start + min(seconds, minimum) + tail, ends_at))
    return Need(least, cost(prices, cards, start, min(start + seconds + tail, ends_at)))


def need_of(snapshot: PoolSnapshot, waiter: Waiter, ends_at: int, start: int) -> Need:
    """What the waiter needs of its team's budget when it starts at `start`."""
    rules = snapshot.rules
    return need(
        snapshot.prices,
        waiter.units * snapshot.flavor.gpu_fraction,
        seconds=waiter.seconds,
        start=start,
        ends_at=ends_at,
        minimum=rules.minimum_run_seconds,
        tail=rules.grace_seconds + STOP_MARGIN_SECONDS,
    )


def longest(snapshot: PoolSnapshot, waiter: Waiter, money: int, start: int) -> int:
    """The longest time limit whose whole cost the money pays for; 0 for none."""
    cards = waiter.units * snapshot.flavor.gpu_fraction
    until = lasts_until(snapshot.prices, cards, start, money)
    if until is None or waiter.seconds is None:
        return 0
    left = until - start - snapshot.rules.grace_seconds - STOP_MARGIN_SECONDS
    return max(0, left) if left < waiter.seconds else 0


def usd(micro: int) -> str:
    """An amount as people read it, down to where it is not rounded to nothing."""
    return format_usd(micro, 2 if abs(micro) >= 10_000 or not micro else 6)


def moment(seconds: int) -> str:
    """A time as people read it."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """What a request would take of its team's budget, in micro-USD; `left` before it."""

    amount: int
    left: int
    takes: int
    ends_at: datetime
    renews: bool

    @property
    def sentence(self) -> str:
        """In one line, for people."""
        when = "this month" if self.renews else f"until {self.ends_at:%Y-%m-%d}"
        return f"{usd(self.takes)} of {usd(self.left)} left {when}"


def share_of(snapshot: PoolSnapshot, waiter: Waiter) -> BudgetShare | None:
    """What the waiter would take of its team's budget; None where it has none, or nothing has a price."""
    facts = next((team for team in snapshot.teams if team.slug == waiter.team), None)
    budget = facts.budget if facts else None
    if budget is None or not snapshot.prices:
        return None
    takes = need_of(snapshot, waiter, budget.ends_at, snapshot.now).whole
    return BudgetShare(
        budget.amount, budget.left, takes, datetime.fromtimestamp(budget.ends_at, tz=UTC), budget.renews
    )
