"""One command on all workloads of a list that fit its filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from django.db import OperationalError, transaction
from django.db.models import Count, Q, QuerySet
from psycopg.errors import DeadlockDetected, LockNotAvailable

from controller import services
from foundation.errors import Conflict, Invalid, NotAllowed, Unavailable
from teams.actors import Actor
from teams.permissions import of_submit_teams
from workloads.bulk.commands import LabelChanges, change_labels, lock_rows, other_labels, overlabelled
from workloads.models import Workload
from workloads.podspec.grammar import LABELS_MAX
from workloads.states import Desired

ROWS_MAX: Final = 1000
"""How many rows one command changes, in one transaction."""
BATCH: Final = 250
FIRST: Final = 10
TRIES: Final = 4


class BulkAction(StrEnum):
    CANCEL = "cancel"
    LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class BulkCommand:
    """What is asked of which workloads: `workloads` are those that fit the filters and that the caller may see."""

    action: BulkAction
    workloads: QuerySet[Workload]
    labels: LabelChanges = field(default_factory=dict)

    @property
    def changes(self) -> Q:
        """Of all workloads, those that the action would change."""
        if self.action is BulkAction.LABEL:
            return other_labels(self.labels)
        return ~Q(phase__in=Workload.FINAL_PHASES) & ~Q(desired=Desired.CANCEL.value)


@dataclass(frozen=True, kw_only=True)
class BulkCount:
    """How many fit, and what becomes of them: the three others add up to `matched`."""

    action: BulkAction
    matched: int
    changed: int
    unchanged: int
    """They have ended, are being cancelled, or have these labels already."""
    forbidden: int
    """The caller may see them, and not submit for their teams."""
    first: Sequence[Workload] = ()

    @property
    def limit(self) -> int:
        """How many one command changes at most."""
        return ROWS_MAX


def preview(*, command: BulkCommand, user: Any) -> BulkCount:
    """What the command would do now, with the newest that it would change. NotAllowed where it may change none."""
    return _counted(command, user, first=FIRST)


def carry_out(*, command: BulkCommand, actor: Actor, now: datetime, expected: int | None = None) -> BulkCount:
    """Do it to all of them or, where it raises, to none.

    Conflict unless `expected` workloads fit, where it is given; Invalid for more than `ROWS_MAX` to change, and for
    more labels than one may have.
    """
    for _ in range(TRIES):
        try:
            with transaction.atomic():
                return _carried_out(command, actor, now, expected)
        except OperationalError as error:
            # A pass that holds the row that it was asked about takes others after it, in no order.
            if isinstance(error.__cause__, LockNotAvailable):
                break
            if not isinstance(error.__cause__, DeadlockDetected):
                raise
    raise Unavailable("Others change the same workloads now. Nothing was done.", retry_after_seconds=1)


def _carried_out(command: BulkCommand, actor: Actor, now: datetime, expected: int | None) -> BulkCount:
    may = of_submit_teams(actor.user)
    wanted = command.workloads.filter(may, command.changes)
    keys = list(wanted.order_by().values_list("pk", flat=True)[: ROWS_MAX + 1])
    if len(keys) > ROWS_MAX:
        message = f"More than {ROWS_MAX} would change, the most of one command: narrow the filter."
        raise Invalid.of_field("filter", message, code="too_many")
    # Filtered again: one that has ended meanwhile is left alone.
    locked = lock_rows(wanted.filter(pk__in=keys))
    counted = _counted(command, actor.user)
    if expected not in {None, counted.matched}:
        message = f"{counted.matched} fit the filter now, not {expected}: look at the preview again."
        raise Conflict.of_field("expected", message, code="changed")
    for begin in range(0, len(locked), BATCH):
        _apply(command, locked[begin : begin + BATCH], actor, now)
    left = counted.matched - counted.forbidden - len(locked)
    return BulkCount(
        action=command.action,
        matched=counted.matched,
        changed=len(locked),
        unchanged=max(0, left),
        forbidden=counted.forbidden,
    )


def _apply(command: BulkCommand, workloads: Sequence[Workload], actor: Actor, now: datetime) -> None:
    if command.action is BulkAction.CANCEL:
        services.cancel_many(workloads=workloads, actor=actor, now=now)
        return
    many = overlabelled(workloads, command.labels)
    if many is not None:
        message = f"{many.name} would have more than {LABELS_MAX} labels."
        raise Invalid.of_field("labels", message, code="too_many")
    change_labels(workloads=workloads, changes=command.labels, actor=actor, now=now)


def _counted(command: BulkCommand, user: Any, *, first: int = 0) -> BulkCount:
    may = of_submit_teams(user)
    # An empty condition counts nothing as a filter of an aggregate.
    may = may or Q(pk__isnull=False)
    counts = command.workloads.order_by().aggregate(
        matched=Count("pk"),
        allowed=Count("pk", filter=may),
        changed=Count("pk", filter=may & command.changes),
    )
    if counts["matched"] and not counts["allowed"]:
        raise NotAllowed("A viewer cannot change the workloads of a team.", code="viewer_only")
    newest = command.workloads.filter(may, command.changes).order_by("-created_at", "-id")
    return BulkCount(
        action=command.action,
        matched=counts["matched"],
        changed=counts["changed"],
        unchanged=counts["allowed"] - counts["changed"],
        forbidden=counts["matched"] - counts["allowed"],
        first=list(newest[:first]) if first else (),
    )
