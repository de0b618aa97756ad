"""Who may do a periodic job now: decided by PostgreSQL and by its clock, with a number that shows who came later."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import connection

log = logging.getLogger(__name__)

_ACQUIRE = """
INSERT INTO foundation_lease (name, holder, fencing, expires_at)
VALUES (%(name)s, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(ttl)s))
ON CONFLICT (name) DO UPDATE SET
    fencing = foundation_lease.fencing + CASE
        WHEN foundation_lease.holder = %(holder)s AND foundation_lease.expires_at > clock_timestamp() THEN 0 ELSE 1 END,
    holder = %(holder)s,
    expires_at = clock_timestamp() + make_interval(secs => %(ttl)s)
WHERE foundation_lease.expires_at <= clock_timestamp() OR foundation_lease.holder = %(holder)s
RETURNING fencing
"""
_STILL_HELD = "SELECT 1 FROM foundation_lease WHERE name = %(name)s AND fencing = %(fencing)s FOR SHARE"
_RELEASE = """
UPDATE foundation_lease SET expires_at = clock_timestamp()
WHERE name = %(name)s AND holder = %(holder)s AND fencing = %(fencing)s AND expires_at > clock_timestamp()
"""
_START = secrets.token_hex(4)
_term: ContextVar[tuple[str, int] | None] = ContextVar("term", default=None)


def this_process() -> str:
    """What this process holds leases as: host:pid:start. A container that starts again has the name and the number of
    the one before it, whose lease may still run; the third part is drawn at every start.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{_START}"


class LeaseLostError(Exception):
    """Another process does the job now: what this one was about to write is not written."""


def acquire(*, name: str, holder: str, ttl_seconds: float) -> int | None:
    """The fencing number under which `holder` holds the lease for `ttl_seconds`; None if another does.

    One statement, so of two who ask at once one gets it. Asking again while holding renews and keeps the
    number; after expiry the number grows, also for the same holder.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ACQUIRE, {"name": name, "holder": holder, "ttl": ttl_seconds})
        row = cursor.fetchone()
    return int(row[0]) if row else None


@contextmanager
def periodic(name: str, *, seconds: float) -> Iterator[bool]:
    """Whether the job of that name is done here now: two beats or a late message make no second run of it, in another
    thread of this process no more than elsewhere.

    One that has been overtaken ends at its next `check`, which is not an error.
    """
    name, holder = f"periodic:{name}", f"{this_process()}:{secrets.token_hex(4)}"
    fencing = acquire(name=name, holder=holder, ttl_seconds=seconds)
    if fencing is None:
        yield False
        return
    token = _term.set((name, fencing))
    try:
        yield True
    except LeaseLostError:
        log.warning("lease.lost", extra={"lease": name, "holder": holder, "fencing": fencing})
    finally:
        _term.reset(token)


def check() -> None:
    """First thing in every transaction in which a periodic job writes. LeaseLostError if another process has taken
    the job over; until the transaction ends none can. Does nothing where no job runs.

    Asked outside of one, before what no transaction holds (a file, an object of the cluster), it says how it was just
    now.
    """
    held = _term.get()
    if held is None:
        return
    with connection.cursor() as cursor:
        cursor.execute(_STILL_HELD, {"name": held[0], "fencing": held[1]})
        if cursor.fetchone() is None:
            raise LeaseLostError(f"{held[0]} is another run's job by now.")


def release(*, name: str, holder: str, fencing: int) -> bool:
    """Give the lease back early; False if it was not held any more."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, {"name": name, "holder": holder, "fencing": fencing})
        return bool(cursor.rowcount)
