"""How often somebody may ask, counted in Valkey: one atomic call for all counts of a request.

A count is a bucket of a minute's requests that refills all the time (GCRA): what is stored is when it will be full again, and at
which rate, so that another rate takes over what was used. What is refused is not counted. Without Valkey nothing is counted, and everything let through. A process remembers what it
refused, so that the same credential is refused again before anything is looked up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

import redis
from django.conf import settings
from django.core.cache import caches
from redis.commands.core import Script

from foundation import clock
from foundation.digits import whole_number
from foundation.errors import RateLimited
from foundation.http import clients
from foundation.http.context import is_api
from foundation.models import PlatformSettings
from foundation.outages import Outage

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
REMEMBERED_MAX: Final = 10_000
"""Credentials that a process remembers as refused; above it forgets all of them, and they are counted again."""
PAUSE_SECONDS: Final = 5.0
"""How long Valkey is not asked after it did not answer: no request waits for it meanwhile."""
BODY_BYTES: Final = 16 * 1024
"""A request to REST counts once, and once more for so many bytes of its body: what is submitted is kept, and one of a
megabyte takes the room of hundreds.
"""
FORM_BYTES: Final = 64 * 1024
"""The same of a form, which is sent again and again while somebody fills it in."""
_PREFIX: Final = "portal:rate"
_RATES: Final = f"{_PREFIX}s"
_RATES_SECONDS: Final = 60
_UNKNOWN: Final = -1

# KEYS: the rates, then the buckets. ARGV: now in ms, then for each bucket the name of its rate, the percentage of it, the
# rate itself or 0, and as how many it counts. Gives the milliseconds to wait, 0 when all was counted, -1 when the rates are not there.
_COUNT: Final = """
local now, wait, full, rates = tonumber(ARGV[1]), 0, {}, {}
for index = 2, #KEYS do
  local at = 2 + (index - 2) * 4
  local rate = tonumber(ARGV[at + 2])
  if rate == 0 then
    rate = tonumber(redis.call('HGET', KEYS[1], ARGV[at]) or 0)
    if rate == 0 then return -1 end
  end
  rate = math.max(1, rate * tonumber(ARGV[at + 1]) / 100)
  local at_rate, till = string.match(redis.call('GET', KEYS[index]) or '', '^(%S+) (%S+)$')
  local used = till and math.max(0, tonumber(till) - now) * tonumber(at_rate) / rate or 0
  full[index] = now + used + math.min(rate, tonumber(ARGV[at + 3])) * 60000 / rate
  rates[index] = rate
  wait = math.max(wait, full[index] - now - 60000)
end
if wait > 0.5 then return math.ceil(wait) end
for index = 2, #KEYS do
  local value = string.format('%.3f %.3f', rates[index], full[index])
  redis.call('SET', KEYS[index], value, 'PX', math.ceil(full[index] - now) + 1)
end
return 0
"""
_outage = Outage("rates")
_refused: dict[bytes, float] = {}


@dataclass(slots=True)
class _Pause:
    until: float = 0.0
    """By time.monotonic()."""


_pause = _Pause()


class Kind(StrEnum):
    """What is counted apart; the value is the platform setting that holds its rate a minute."""

    READS = "reads_per_minute"
    WRITES = "writes_per_minute"
    EXPENSIVE = "expensive_per_minute"
    UNKNOWN = "anonymous_per_minute"
    PAGES = "pages_per_minute"


@dataclass(frozen=True, slots=True)
class RateBucket:
    kind: Kind
    subject: str
    """Of whom, such as `user:7`."""
    percent: int = 100
    """What of the rate it may have."""
    cost: int = 1
    """As how many requests it counts; where that is more than the rate, as all of a minute's."""


def of_method(method: str) -> Kind:
    return Kind.READS if method in SAFE_METHODS else Kind.WRITES


def cost_of(request: Any, *, each: int) -> int:
    """As how many requests one counts that brings a body."""
    return 1 + (whole_number(str(request.META.get("CONTENT_LENGTH") or ""), digits=12) or 0) // each


def count(buckets: Sequence[RateBucket]) -> float:
    """Seconds to wait, 0 if the request was counted in all of them; where it is refused it is counted in none."""
    if time.monotonic() < _pause.until:
        return 0.0
    try:
        waits = _ask(buckets)
    except (redis.RedisError, OSError) as error:
        _outage.missed(error)
        _pause.until = time.monotonic() + PAUSE_SECONDS
        return 0.0
    _outage.answered()
    return max(0, waits) / 1000


def check(kind: Kind, subject: str) -> None:
    """Count what is no request of its own. Raises RateLimited above the rate."""
    if wait := count([RateBucket(kind, subject)]):
        seconds = math.ceil(wait)
        raise RateLimited(f"Too many requests: try again in {seconds} s.", retry_after_seconds=seconds)


def count_unknown(request: Any) -> float:
    """Count a request of nobody that is known, by its address; seconds to wait, 0 where it may be answered."""
    clients.unknow(request)
    wait = count([RateBucket(Kind.UNKNOWN, clients.address_of(request))])
    request.is_counted = True
    if wait:
        remember(request, wait)
    return wait


def remember(request: Any, seconds: float) -> None:
    """Refuse what comes with the same credential until then, without counting."""
    if len(_refused) >= REMEMBERED_MAX:
        _refused.clear()
    _refused[_credential(request)] = clock.now().timestamp() + seconds


def refused_for(request: Any) -> float:
    """Seconds for which this process refuses the request's credential; 0 where it does not."""
    if not _refused:
        return 0.0
    key = _credential(request)
    until = _refused.get(key)
    if until is None:
        return 0.0
    left = until - clock.now().timestamp()
    if left <= 0:
        _refused.pop(key, None)
    return max(0.0, left)


def forget(**_signal: Any) -> None:
    """After a change of the settings: the rates are read anew with the next request of any process."""
    _refused.clear()
    try:
        _client().delete(_RATES)
    except (redis.RedisError, OSError) as error:
        _outage.missed(error)


def _credential(request: Any) -> bytes:
    """What a request comes with, and which rate it is for: REST's of what it does, or that of pages."""
    kind = of_method(request.method) if is_api(request) else Kind.PAGES
    return kind.encode() + clients.credential_of(request)


def _ask(buckets: Sequence[RateBucket]) -> int:
    client, fixed = _client(), settings.REST_RATES or {}
    keys = [_RATES, *(f"{_PREFIX}:{bucket.kind}:{bucket.subject}" for bucket in buckets)]
    values: list[Any] = [round(clock.now().timestamp() * 1000)]
    for bucket in buckets:
        values += [bucket.kind.value, bucket.percent, fixed.get(bucket.kind.value, 0), bucket.cost]
    waits = int(_script()(keys=keys, args=values, client=client))
    if waits == _UNKNOWN:
        _store(client, PlatformSettings.current())
        waits = int(_script()(keys=keys, args=values, client=client))
    return waits


@cache
def _script() -> Script:
    """Sent by its hash; the text itself only where the server does not have it."""
    return Script(_client(), _COUNT)


def _store(client: Any, row: PlatformSettings) -> None:
    """For a minute, so that a rate that was read just before it was changed does not stay."""
    rates: Mapping[str, int] = {kind.value: getattr(row, kind.value) for kind in Kind}
    with client.pipeline() as pipeline:
        pipeline.hset(_RATES, mapping=rates)
        pipeline.expire(_RATES, _RATES_SECONDS)
        pipeline.execute()


def _client() -> Any:
    """The connection of Django's cache, which is configured for the server that there is."""
    return caches["default"]._cache.get_client(write=True)  # type: ignore[attr-defined]  # noqa: SLF001
