"""Days on which a month begins or ends are no days to test what is counted by the month."""

from __future__ import annotations

from datetime import datetime, timedelta


def into_month(now: datetime) -> timedelta:
    """How far it is from there to noon of the month's 15th; nothing where both ends are more than a day away."""
    if now.day > 1 and (now + timedelta(days=1)).month == now.month:
        return timedelta()
    return now.replace(day=15, hour=12) - now
