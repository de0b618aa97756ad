"""What others edited of the objects that the portal applies: set back, and said."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from cluster import field_owners, kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.gather_placement import placement_of
from workloads import services
from workloads.models import Attempt, Workload

SAID_MAX: Final = 300


def restore(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt,
    primary: Mapping[str, Any],
    *,
    now: datetime,
) -> bool:
    """Apply the primary again where others own fields of it that the portal applies; whether they did. Of one that is never
    applied again, such as a run's, what its kind keeps is set back.

    Only a server knows which fields differ: it is asked by an apply that takes nothing from anybody. What others
    added beside the portal's fields stays.
    """
    if not field_owners.edited_by_others(primary):
        return False
    placement = placement_of(workload, object_name=attempt.object_name, attempt=attempt.number)
    if found := adapter.set_back(workload, placement, primary):
        patch, message = found
        with suppress(ClusterConflict, ClusterRejected, ObjectNotFound):
            client.patch_merge(kinds.ref_of(primary), patch)
            return _note(workload, message, now)
        return False
    manifests = adapter.meanwhile(workload, placement, lost=True)
    if manifests is None:
        return False
    try:
        client.apply(manifests.primary, force=False)
    except ClusterConflict as conflict:
        client.apply(manifests.primary)
        text = f"Somebody else changed the {primary['kind']}; it was set back. {_said(conflict)}"
        return _note(workload, text, now)
    return False


def _note(workload: Workload, message: str, now: datetime) -> bool:
    services.note(
        workload, reason=workload.reason, message=message, actor="reconciler", source=services.DRIFT, now=now
    )
    return True


def _said(conflict: ClusterConflict) -> str:
    text = " ".join(conflict.message.split())
    return text if len(text) <= SAID_MAX else f"{text[: SAID_MAX - 1]}…"
