"""How often an endpoint may be called: a token bucket for each, in the memory of this process."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from workloads.podspec.specs import RateLimit


@dataclass(slots=True)
class _Bucket:
    rate: RateLimit
    left: float
    at: float


class Buckets:
    """All buckets of the process; a bucket that was not used is full."""

    def __init__(self) -> None:
        self._buckets: dict[UUID, _Bucket] = {}

    def take(self, endpoint: UUID, rate: RateLimit | None, *, now: float) -> float:
        """0.0 if one more call may pass at `now` (monotonic), else after how many seconds one may."""
        if rate is None:
            return 0.0
        bucket = self._buckets.get(endpoint)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[endpoint] = _Bucket(rate, float(rate.burst), now)
        gained = (now - bucket.at) * rate.requests_per_second
        bucket.left, bucket.at = min(float(rate.burst), bucket.left + gained), now
        if bucket.left >= 1.0:
            bucket.left -= 1.0
            return 0.0
        return (1.0 - bucket.left) / rate.requests_per_second

    def forget(self, endpoints: Collection[UUID]) -> None:
        """Drops their buckets."""
        for endpoint in endpoints:
            self._buckets.pop(endpoint, None)


def whole_seconds(seconds: float) -> int:
    """As Retry-After says it: never early, and at least 1."""
    return max(1, math.ceil(seconds))
