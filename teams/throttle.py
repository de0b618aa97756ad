"""How often a user may try to sign in: counted in the cache, by account and by address, each by itself."""

from __future__ import annotations

import hashlib
import logging
from ipaddress import ip_address, ip_network

import redis
from django.core.cache import cache

from foundation.errors import RateLimited

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60
ATTEMPTS_PER_ACCOUNT_AND_ADDRESS = 10
# Against guesses from many addresses; higher, so that one address alone cannot lock a user out.
ATTEMPTS_PER_ACCOUNT = 100
ATTEMPTS_PER_ADDRESS = 60
LINKS_PER_ADDRESS = 60
# A user of IPv6 has at least a network of this length.
_NETWORK_BITS = 64


def count_sign_in_attempt(*, username: str, ip: str | None) -> None:
    """Count an attempt with a password. Raises RateLimited above 10 a minute for an account from an address, 100
    for an account, or 60 from an address.

    Attempts above the limit of an address do not count for the account. While the cache is away no attempt is counted:
    passwords are still checked, and the portal stays usable.
    """
    account, address = username.casefold(), _address(ip)
    _refuse_above(
        (f"address\n{address}", ATTEMPTS_PER_ADDRESS),
        (f"both\n{account}\n{address}", ATTEMPTS_PER_ACCOUNT_AND_ADDRESS),
        (f"account\n{account}", ATTEMPTS_PER_ACCOUNT),
    )


def count_link_use(*, ip: str | None) -> None:
    """Count a sign-in link that is used, apart from passwords. Raises RateLimited above 60 a minute from an address."""
    _refuse_above((f"link\n{_address(ip)}", LINKS_PER_ADDRESS))


def _refuse_above(*limits: tuple[str, int]) -> None:
    """Count one after the other, up to the first that has had too many."""
    try:
        over = any(_count(subject) > limit for subject, limit in limits)
    except (redis.RedisError, OSError):
        log.warning("sign_in.not_throttled", exc_info=True)
        return
    if over:
        raise RateLimited("Too many sign-in attempts. Wait a minute.", retry_after_seconds=WINDOW_SECONDS)


def _address(ip: str | None) -> str:
    if ip is None:
        return "unknown"
    address = ip_address(ip)
    return ip if address.version == 4 else str(ip_network((ip, _NETWORK_BITS), strict=False))


def _count(subject: str) -> int:
    key = f"sign-in:{hashlib.sha256(subject.encode()).hexdigest()}"
    if cache.add(key, 1, WINDOW_SECONDS):
        return 1
    try:
        return int(cache.incr(key))
    except ValueError:  # it expired in between
        cache.set(key, 1, WINDOW_SECONDS)
        return 1
