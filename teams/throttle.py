"""How often somebody may guess a password. What is slowed down is who guesses, never who is guessed at.

Failures count for an account from one address (an IPv6 network of 64 bits is one), and for the address over all
accounts; too many hold that pair, or that address, for a minute, and longer each time. Two kinds of people are not held
for what others do: in a browser that signed in to the account before (teams.devices) its failures alone count, and from
an address where the account signed in before those of the address over all accounts do not. While an account is guessed
at from many addresses a new one has fewer tries, so that no stranger keeps its owner out.

The counts are in the cache, which all web processes share; each is forgotten by itself. While the cache is away every
process counts for itself, and sign-in goes on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final, TypeVar

import redis
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache

from foundation import clock
from foundation.errors import RateLimited

log = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 60
HOLD_SECONDS_MAX: Final = 900
LEVEL_SECONDS: Final = 3600
"""How long it is remembered that something was held: the next time it is held for longer."""
KNOWN_SECONDS: Final = 30 * 86_400
FAILURES_PER_ACCOUNT_AND_ADDRESS = 10
FAILURES_PER_DEVICE = 10
# Over all accounts; higher, as an office has one address.
FAILURES_PER_ADDRESS = 60
# From here on a new address has fewer tries. It holds nobody.
FAILURES_PER_ACCOUNT = 100
FAILURES_FROM_A_NEW_ADDRESS = 2
LINKS_PER_ADDRESS = 60
# A user of IPv6 has at least a network of this length.
_NETWORK_BITS: Final = 64
_OWN_MAX: Final = 10_000

_own = LocMemCache("sign-in", {"OPTIONS": {"MAX_ENTRIES": _OWN_MAX}})
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PasswordAttempt:
    """A password that is tried now. It counts as a failure until `succeeded` is called."""

    counted: tuple[str, ...]
    known: str | None
    address: str | None = field(default=None)

    def succeeded(self) -> None:
        """Forget the account's failures from here, and take this attempt off those of the address."""
        _in_store(self._succeeded)

    def _succeeded(self, store: BaseCache) -> None:
        for subject in self.counted:
            if subject == self.address:
                _add(store, subject, -1)
            else:
                store.delete_many([_key("count", subject), _key("level", subject)])
        if self.known is not None:
            store.set(_key("known", self.known), 1, KNOWN_SECONDS)


def count_attempt(*, username: str, ip: str | None, device: str | None = None) -> PasswordAttempt:
    """Count an attempt with a password as a failure, until it is told to have succeeded.

    `device` is the browser's, if it signed in to this account before. Raises RateLimited while held.
    """
    account, address = username.casefold(), address_of(ip)
    return _in_store(lambda store: _begin(store, account, address, device))


def count_change(*, username: str, ip: str | None) -> PasswordAttempt:
    """The same for the old password that is asked for before a new one: a matter of its own."""
    subject = f"change\n{username.casefold()}\n{address_of(ip)}"
    return _in_store(lambda store: _take(store, {subject: FAILURES_PER_ACCOUNT_AND_ADDRESS}))


def count_bad_link(*, ip: str | None) -> None:
    """Count a sign-in link that lets nobody in, apart from passwords. Raises RateLimited while the address is held.

    One that does let somebody in is never held: it has more random text than anybody guesses.
    """
    subject = f"link\n{address_of(ip)}"
    _in_store(lambda store: _take(store, {subject: LINKS_PER_ADDRESS}))


def address_of(ip: str | None) -> str:
    """What counts as one address: itself, or its network of IPv6."""
    if ip is None:
        return "unknown"
    address = ip_address(ip)
    return ip if address.version == 4 else str(ip_network((ip, _NETWORK_BITS), strict=False))


def forget_own() -> None:
    """Forget what this process counted by itself, while the cache was away."""
    _own.clear()


def _begin(store: BaseCache, account: str, address: str, device: str | None) -> PasswordAttempt:
    here = f"{account}\n{address}"
    if device is not None:
        return _take(store, {f"device\n{account}\n{device}": FAILURES_PER_DEVICE}, known=here)
    everywhere = f"account\n{account}"
    known, guessed = _key("known", here), _key("count", everywhere)
    seen = store.get_many([known, guessed])
    if known in seen:
        return _take(store, {f"both\n{here}": FAILURES_PER_ACCOUNT_AND_ADDRESS}, known=here)
    attacked = int(seen.get(guessed, 0)) >= FAILURES_PER_ACCOUNT
    tries = FAILURES_FROM_A_NEW_ADDRESS if attacked else FAILURES_PER_ACCOUNT_AND_ADDRESS
    attempt = _take(
        store,
        {f"address\n{address}": FAILURES_PER_ADDRESS, f"both\n{here}": tries},
        known=here,
        spread=address,
    )
    if _add(store, everywhere) > FAILURES_PER_ACCOUNT:
        store.touch(guessed, WINDOW_SECONDS)  # until a minute has passed without a guess
    return attempt


def _take(
    store: BaseCache, limits: Mapping[str, int], *, known: str | None = None, spread: str | None = None
) -> PasswordAttempt:
    """Count one after the other, up to the first that has had too many, which is held from then on."""
    _check_held(store, limits)
    for subject, limit in limits.items():
        if _add(store, subject) > limit:
            raise _refusal(_hold(store, subject))
    return PasswordAttempt(tuple(limits), known, f"address\n{spread}" if spread else None)


def _check_held(store: BaseCache, subjects: Mapping[str, int]) -> None:
    now = clock.now().timestamp()
    held = store.get_many([_key("held", subject) for subject in subjects])
    left = max((until - now for until in held.values()), default=0.0)
    if left > 0:
        raise _refusal(left)
    store.delete_many(list(held))


def _hold(store: BaseCache, subject: str) -> float:
    """How many seconds it is held from now on; attempts that come together hold it once."""
    level = int(store.get(_key("level", subject), 0))
    seconds = min(WINDOW_SECONDS << level, HOLD_SECONDS_MAX)
    if store.add(_key("held", subject), clock.now().timestamp() + seconds, seconds):
        store.set(_key("level", subject), min(level + 1, 10), LEVEL_SECONDS)
        store.delete(_key("count", subject))
    return seconds


def _refusal(seconds: float) -> RateLimited:
    wait = max(1, round(seconds))
    told = f"{wait} seconds" if wait <= WINDOW_SECONDS else f"{-(-wait // WINDOW_SECONDS)} minutes"
    return RateLimited(f"Too many sign-in attempts. Wait {told}.", retry_after_seconds=wait)


def _in_store(act: Callable[[BaseCache], _T]) -> _T:
    try:
        return act(cache)
    except (redis.RedisError, OSError):
        log.warning("sign_in.counted_here", exc_info=True)
        return act(_own)


def _key(what: str, subject: str) -> str:
    return f"sign-in:{what}:{hashlib.sha256(subject.encode()).hexdigest()}"


def _add(store: BaseCache, subject: str, by: int = 1) -> int:
    key = _key("count", subject)
    if by > 0 and store.add(key, by, WINDOW_SECONDS):
        return by
    try:
        return int(store.incr(key, by))
    except ValueError:  # it expired in between
        if by > 0:
            store.set(key, by, WINDOW_SECONDS)
        return by
