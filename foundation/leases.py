"""Who may do a periodic job now: decided by PostgreSQL, with a number that shows who came later."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection

from foundation.models import Lease

_ACQUIRE = """
INSERT INTO foundation_lease (name, holder, fencing, expires_at) VALUES (%(name)s, %(holder)s, 1, %(until)s)
ON CONFLICT (name) DO UPDATE SET
    fencing = foundation_lease.fencing
        + CASE WHEN foundation_lease.holder = %(holder)s AND foundation_lease.expires_at > %(now)s THEN 0 ELSE 1 END,
    holder = %(holder)s,
    expires_at = %(until)s
WHERE foundation_lease.expires_at <= %(now)s OR foundation_lease.holder = %(holder)s
RETURNING fencing
"""


def acquire(*, name: str, holder: str, ttl_seconds: float, now: datetime) -> int | None:
    """The fencing number under which `holder` holds the lease until `now + ttl_seconds`; None if another does.

    One statement, so of two who ask at once one gets it. Asking again while holding renews and keeps the
    number; after expiry the number grows, also for the same holder.
    """
    values: dict[str, str | datetime] = {
        "name": name,
        "holder": holder,
        "now": now,
        "until": now + timedelta(seconds=ttl_seconds),
    }
    with connection.cursor() as cursor:
        cursor.execute(_ACQUIRE, values)
        row = cursor.fetchone()
    return int(row[0]) if row else None


def is_held(*, name: str, fencing: int, now: datetime) -> bool:
    """Whether nobody has taken the lease since it was given out under `fencing`, and it still runs."""
    return Lease.objects.filter(name=name, fencing=fencing, expires_at__gt=now).exists()


def release(*, name: str, holder: str, fencing: int, now: datetime) -> bool:
    """Give the lease back early; False if it was not held any more."""
    held = Lease.objects.filter(name=name, holder=holder, fencing=fencing, expires_at__gt=now)
    return held.update(expires_at=now) == 1
