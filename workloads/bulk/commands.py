"""Commands on many workloads at once, in a few statements. The caller holds their rows, by `lock_rows` or one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import F, Q, QuerySet

from teams.actors import Actor
from teams.audit import audit_event, record_audits
from workloads.models import Workload
from workloads.podspec.grammar import LABELS_MAX
from workloads.services import NOTIFY_CHANNEL, note_of
from workloads.states import Desired, Reason

LabelChanges = Mapping[str, str | None]
"""New values of labels by their keys; None removes a label."""


def lock_rows(rows: QuerySet[Workload]) -> list[Workload]:
    """Lock the rows until the transaction ends, in the order of their keys, as passes and wake-ups lock theirs."""
    locked = rows.select_for_update(no_key=True, of=("self",)).select_related("team")
    return list(locked.order_by("pk"))


def set_desired_many(
    *,
    workloads: Sequence[Workload],
    desired: Desired,
    reason: Reason = Reason.USER_REQUESTED,
    message: str = "",
    now: datetime,
) -> None:
    """Set the desired state of workloads that have not ended, and why; the reconciler does the rest."""
    rows = Workload.objects.filter(pk__in=[workload.pk for workload in workloads])
    rows.update(
        desired=desired.value,
        desired_reason=reason.value,
        desired_message=message,
        generation=F("generation") + 1,
        next_reconcile_at=now,
    )
    for workload in workloads:
        workload.desired = desired.value


def changed_labels(labels: Mapping[str, str], changes: LabelChanges) -> dict[str, str]:
    """The labels after the changes."""
    return {key: value for key, value in {**labels, **changes}.items() if value is not None}


def other_labels(changes: LabelChanges) -> Q:
    """Workloads whose labels the changes would change."""
    given = {key: value for key, value in changes.items() if value is not None}
    removed = [key for key, value in changes.items() if value is None]
    other = ~Q(labels__contains=given) if given else Q()
    return other | Q(labels__has_any_keys=removed) if removed else other


def overlabelled(workloads: Sequence[Workload], changes: LabelChanges) -> Workload | None:
    """The first workload that would have more labels than one may have."""
    many = (each for each in workloads if len(changed_labels(each.labels, changes)) > LABELS_MAX)
    return next(many, None)


# What is applied in the cluster has no part in it, so that a row that was up to date still is.
_SET_LABELS = """
WITH m AS (SELECT * FROM unnest(%(ids)s::bigint[], %(labels)s::jsonb[], %(notes)s::text[]) AS m (id, labels, note)),
changed AS (
    UPDATE workloads_workload AS w
    SET labels = m.labels, generation = w.generation + 1,
        observed_generation = w.observed_generation + (w.observed_generation = w.generation)::int
    FROM m WHERE w.id = m.id
)
SELECT pg_notify(%(channel)s, note) FROM m
"""


def change_labels(
    *, workloads: Sequence[Workload], changes: LabelChanges, actor: Actor, now: datetime
) -> None:
    """Change the labels by which the workloads are found. The objects in the cluster keep those that they have."""
    events = []
    for workload in workloads:
        before, workload.labels = workload.labels, changed_labels(workload.labels, changes)
        event = audit_event(
            actor=actor,
            action=f"{workload.kind}.changed",
            target_kind=workload.kind,
            target_id=workload.public_id,
            target_name=workload.name,
            team=workload.team,
            before={"labels": before},
            after={"labels": workload.labels},
            now=now,
        )
        events.append(event)
    values: dict[str, Any] = {
        "ids": [workload.pk for workload in workloads],
        "labels": [json.dumps(workload.labels) for workload in workloads],
        "notes": [note_of(workload) for workload in workloads],
        "channel": NOTIFY_CHANNEL,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SET_LABELS, values)
    record_audits(events)
