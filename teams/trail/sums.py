"""Events that a stranger can cause at will: the trail gets the first of an hour, then the tenth, the hundredth and so on,
and the whole number when the hour is over.

So a flood of the same adds a handful of rows. Of different ones an hour has KINDS_PER_HOUR of each user and action, and of
all strangers together, so that no flood hides what somebody else did; what is beyond them is summed by its user and
action alone. Strangers who name accounts that there are not, of which anybody can think of any number, are counted apart
from those who name one that there is. All of it is in the log, line by line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, transaction
from django.db.models import Q

from teams.models import AuditCount, AuditEvent

KINDS_PER_HOUR = 1_000
HOUR: Final = timedelta(hours=1)
OTHERS: Final = "(others)"
INVENTED: Final = "unknown-"
"""What the id of a target begins with that there is not."""
_BATCH: Final = 500
_KEPT: Final = (
    "actor_id", "actor_label", "token_id", "ip", "action", "target_kind", "target_id", "target_name", "team_id",
    "team_slug", "after",
)  # fmt: skip
_AGAIN: Final = """
UPDATE teams_auditcount SET times = times + 1 WHERE "window" = %s AND digest = %s RETURNING id, times
"""
_FIRST: Final = """
INSERT INTO teams_auditcount AS kept ("window", digest, times, noted, event) VALUES (%s, %s, 1, 0, %s)
ON CONFLICT ("window", digest) DO UPDATE SET times = kept.times + 1 RETURNING id, times
"""


@transaction.atomic
def note(event: AuditEvent, *, same: Sequence[object], now: datetime, each: int = 1) -> int:
    """Count the event among those of this hour that have all of `same` in common, and put it into the trail if it is one
    of the first `each`, the tenth, the hundredth and so on. Returns how many there were of it.
    """
    window = now.replace(minute=0, second=0, microsecond=0)
    parts = [event.action, *map(str, same)]
    row, times = _counted(window, parts, event)
    if row is None:
        kin = [event.action, str(event.actor_id), *([INVENTED] if _is_invented(event) else [])]
        event = _others(event)
        row, times = _inserted(window, kin, event)
    if times <= each or _is_told(times):
        told = AuditEvent(**_values(event), at=now, request_id=event.request_id)
        _store(told, times=times, since=window, now=now)
        AuditCount.objects.filter(pk=row).update(noted=times)
    return times


def settle(*, now: datetime) -> int:
    """Tell the trail how often it was in the end, for the hours that are over, and forget their counts. How many."""
    over = now.replace(minute=0, second=0, microsecond=0)
    done = 0
    while True:
        with transaction.atomic():
            rows = list(
                AuditCount.objects.select_for_update(skip_locked=True)
                .filter(window__lt=over)
                .order_by("window", "pk")[:_BATCH]
            )
            for row in rows:
                if row.times > row.noted:
                    _store(
                        AuditEvent(**row.event, at=now),
                        times=row.times,
                        since=row.window,
                        now=row.window + HOUR,
                    )
            AuditCount.objects.filter(pk__in=[row.pk for row in rows]).delete()
        done += len(rows)
        if len(rows) < _BATCH:
            return done


def _store(event: AuditEvent, *, times: int, since: datetime, now: datetime) -> None:
    if times > 1:
        event.after = {
            **(event.after or {}),
            "times": times,
            "from": since.isoformat().replace("+00:00", "Z"),
            "to": now.isoformat().replace("+00:00", "Z"),
        }
    event.save(force_insert=True)


def _counted(window: datetime, parts: Sequence[str], event: AuditEvent) -> tuple[int | None, int]:
    """The row and its number; no row where the hour has as many kinds as it may."""
    with connection.cursor() as cursor:
        cursor.execute(_AGAIN, [window, _digest(parts)])
        found = cursor.fetchone()
    if found is not None:
        return found[0], found[1]
    invented = Q(event__target_id__startswith=INVENTED)
    alike = AuditCount.objects.filter(
        invented if _is_invented(event) else ~invented & ~Q(event__target_id=OTHERS),
        window=window,
        event__action=event.action,
        event__actor_id=event.actor_id,
    )
    if alike.count() >= KINDS_PER_HOUR:
        return None, 0
    return _inserted(window, parts, event)


def _inserted(window: datetime, parts: Sequence[str], event: AuditEvent) -> tuple[int, int]:
    kept = json.dumps(_values(event), cls=DjangoJSONEncoder)
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, [window, _digest(parts), kept])
        row, times = cursor.fetchone()
    return row, times


def _others(event: AuditEvent) -> AuditEvent:
    return AuditEvent(
        actor_id=event.actor_id,
        actor_label=event.actor_label if event.actor_id else OTHERS,
        action=event.action,
        target_kind=event.target_kind,
        target_id=OTHERS,
        target_name=OTHERS,
    )


def _is_invented(event: AuditEvent) -> bool:
    return event.target_id.startswith(INVENTED)


def _values(event: AuditEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _KEPT}


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_told(times: int) -> bool:
    """10, 100, 1,000 and so on."""
    text = str(times)
    return times >= 10 and text.rstrip("0") == "1"
