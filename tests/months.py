"""What is counted by the month is not tested on its first or last day, nor what is counted by the day around midnight."""

from __future__ import annotations

from datetime import datetime, timedelta


def into_month(now: datetime) -> timedelta:
    """How far it is to noon of the month's 15th from its first or last day; from the three hours before or after any other
    midnight, how far it is to noon of that day; nothing from elsewhere.
    """
    if now.day == 1 or (now + timedelta(days=1)).month != now.month:
        return now.replace(day=15, hour=12) - now
    if not 3 <= now.hour < 21:
        return now.replace(hour=12) - now
    return timedelta()
