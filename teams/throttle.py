"""How often somebody may try to sign in: counted in the cache, by user and address, and by address."""

from __future__ import annotations

import hashlib
import logging

import redis
from django.core.cache import cache

from foundation.errors import RateLimited

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60
ATTEMPTS_PER_USER_AND_IP = 10
ATTEMPTS_PER_IP = 60


def count_sign_in_attempt(*, username: str, ip: str | None) -> None:
    """Count an attempt. Raises RateLimited above 10 a minute for a user from an address, or 60 from an address.

    While the cache is away nobody is counted: passwords are still checked, and the portal stays usable.
    """
    address = ip or "unknown"
    limits = ((f"{username.casefold()}\n{address}", ATTEMPTS_PER_USER_AND_IP), (address, ATTEMPTS_PER_IP))
    try:
        over = [subject for subject, limit in limits if _count(subject) > limit]
    except (redis.RedisError, OSError):
        log.warning("sign_in.not_throttled", exc_info=True)
        return
    if over:
        raise RateLimited("Too many sign-in attempts. Wait a minute.", retry_after_seconds=WINDOW_SECONDS)


def _count(subject: str) -> int:
    key = f"sign-in:{hashlib.sha256(subject.encode()).hexdigest()}"
    if cache.add(key, 1, WINDOW_SECONDS):
        return 1
    try:
        return int(cache.incr(key))
    except ValueError:  # it expired in between
        cache.set(key, 1, WINDOW_SECONDS)
        return 1
