"""The acting half of a reconcile: makes, updates and deletes the objects of one attempt."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from cluster import field_owners, kinds
from cluster.client import ClusterClient, Manifest
from cluster.errors import ClusterConflict, ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import ATTEMPT, MANAGER
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.gather_placement import placement_of
from controller.reconcile.identity import belongs_to
from controller.reconcile.prerequisites import refuse_missing_config_maps
from controller.reconcile.run_tokens import digest, run_token
from foundation.crashpoints import crash_point
from workloads import locks, services
from workloads.models import Attempt, Workload
from workloads.observations import record_object
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet, owned_by

__all__ = [
    "ATTEMPT",
    "adjust",
    "create_or_update",
    "delete",
    "open_attempt",
    "open_attempt_of_held",
    "primary_ref",
    "update_live",
    "update_meanwhile",
    "warnings",
]


def primary_ref(workload: Workload, adapter: WorkloadAdapter, attempt: Attempt) -> ObjectRef:
    kind = kinds.named(attempt.object_kind) if attempt.object_kind else adapter.primaries[0]
    return ObjectRef(kind.api_version, kind.kind, workload.team.namespace_name, attempt.object_name)


def open_attempt(workload: Workload, adapter: WorkloadAdapter, *, now: datetime) -> Attempt:
    """Create the next attempt's row before any object, so that after a crash the object's name is known."""
    with transaction.atomic():
        locks.hold(workload)
        attempt = open_attempt_of_held(workload, adapter, now=now)
    crash_point("attempt-opened")
    return attempt


def open_attempt_of_held(workload: Workload, adapter: WorkloadAdapter, *, now: datetime) -> Attempt:
    """Like `open_attempt`, in the transaction of a caller that holds the workload's row."""
    number = workload.attempt_number + 1
    name = adapter.object_name(workload, attempt=number)
    token = digest(run_token(workload, attempt=number))
    kind = adapter.primary_of(workload).address
    return services.start_attempt(workload, object_name=name, object_kind=kind, token_digest=token, now=now)


def create_or_update(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt,
    *,
    now: datetime,
    replicas: int | None = None,
) -> None:
    """Create or update all objects of the attempt, the primary first because it owns the others. Idempotent.
    `replicas`: the current size to keep when a primary that a scaler sizes is made again.

    A primary that can be suspended is created suspended and resumed when the others exist: a pod that starts before its
    Secret exists stays in an error, and the kubelet retries only after a while.
    """
    placement = placement_of(workload, object_name=attempt.object_name, attempt=attempt.number)
    manifests = _sized(adapter.manifests(workload, placement), replicas)
    _make(client, workload, adapter, attempt, placement, manifests, now=now)


def _sized(manifests: ManifestSet, replicas: int | None) -> ManifestSet:
    """The manifests with `replicas` as the initial size of a scaled primary, within the scaler's bounds."""
    least, most = manifests.replicas_at_first, manifests.replicas_most
    if replicas is None or least is None:
        return manifests
    bounded = max(replicas, least) if most is None else min(max(replicas, least), most)
    return replace(manifests, replicas_at_first=bounded)


def update_meanwhile(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt,
    *,
    now: datetime,
    lost: bool = False,
    replicas: int | None = None,
) -> None:
    """Apply the parts of a waiting change that need no surge room to a running attempt; if the primary is `lost`, make
    it again as it was, with `replicas` as above.
    """
    placement = placement_of(workload, object_name=attempt.object_name, attempt=attempt.number)
    manifests = adapter.meanwhile(workload, placement, lost=lost)
    if manifests is not None:
        manifests = _sized(manifests, replicas)
        _make(client, workload, adapter, attempt, placement, manifests, now=now)


def _make(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt,
    placement: Placement,
    manifests: ManifestSet,
    *,
    now: datetime,
) -> None:
    refuse_missing_config_maps(client, manifests)
    if manifests.suspend_path is not None:
        held = _with(manifests.primary, manifests.suspend_path, value=True)
        primary = client.create_or_adopt(held, workload_id=placement.workload_id)
    else:
        primary = _apply_own(client, manifests, placement)
    crash_point("primary-created")
    dependants = [*manifests.dependants]
    if adapter.kind.ends:
        dependants.append(build_token_secret(placement, run_token(workload, attempt=attempt.number)))
    made = [primary]
    # First: KEDA refuses a second scaler for the same target.
    _retire(client, manifests, workload)
    for manifest in dependants:
        locks.renew(workload)
        made.append(client.apply(owned_by(manifest, primary)))
        crash_point("dependant-created")
    if manifests.suspend_path is not None:
        go = _with({}, manifests.suspend_path, value=False)
        primary = made[0] = client.patch_merge(primary_ref(workload, adapter, attempt), go)
        crash_point("primary-let-go")
    with transaction.atomic():
        locks.hold(workload)
        for item in made:
            record_object(item, workload=workload, cluster=client.cluster, now=now)
        attempt.object_uid = primary["metadata"]["uid"]
        attempt.resumed_from = placement.resume_from or ""
        attempt.save(update_fields=["object_uid", "resumed_from"])


def _with(manifest: Mapping[str, Any], path: Sequence[str], *, value: object) -> Manifest:
    """A copy with the field at `path` set."""
    head, *rest = path
    return {**manifest, head: _with(manifest.get(head, {}), rest, value=value) if rest else value}


def update_live(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt,
    *,
    now: datetime,
    replicas: int | None = None,
) -> None:
    """Update the objects of a running attempt to the wanted state; `replicas` as above."""
    patch = adapter.live_patch(workload)
    if patch is None:
        create_or_update(client, workload, adapter, attempt, now=now, replicas=replicas)
    elif patch:
        client.patch_merge(primary_ref(workload, adapter, attempt), patch)


def _apply_own(client: ClusterClient, manifests: ManifestSet, placement: Placement) -> dict[str, Any]:
    """Create or adopt, then apply: server-side apply alone would take over a foreign object of the same name.

    Fields left to a scaler are written when the object is created and never applied: an apply that leaves out a field
    which an earlier apply wrote removes it, and one replica would be left.
    """
    manifest = manifests.primary
    if manifests.replicas_at_first is None:
        _as_applied(client, client.create_or_adopt(manifest, workload_id=placement.workload_id))
        return client.apply(manifest)
    made = {**manifest, "spec": {**manifest["spec"], "replicas": manifests.replicas_at_first}}
    item = _as_applied(client, client.create_or_adopt(made, workload_id=placement.workload_id))
    if field_owners.applied_by_portal(item, ("spec", "replicas")):
        client.apply(_replicas_alone(item), manager=FORMER_MANAGER)
    return client.apply(manifest)


def _as_applied(client: ClusterClient, item: dict[str, Any]) -> dict[str, Any]:
    """Convert the field ownership of the object's creation to that of an apply; returns the object.

    Otherwise the create operation keeps owning its fields, and a field that an apply leaves out is never removed. The
    object's controller writes the status at the same time, so the object is read again after a conflict.
    """
    for _ in range(HAND_OVERS_MAX):
        kept = field_owners.as_if_applied(item)
        if kept is None:
            break
        patch = {"resourceVersion": item["metadata"]["resourceVersion"], "managedFields": kept}
        with suppress(ClusterConflict):
            return client.patch_merge(kinds.ref_of(item), {"metadata": patch})
        item = client.get(kinds.ref_of(item))
    return item


HAND_OVERS_MAX = 10
FORMER_MANAGER = f"{MANAGER}-former"
"""Holds the number of replicas that the portal had applied, until a scaler writes it."""


def _replicas_alone(item: Mapping[str, Any]) -> Manifest:
    """A manifest with the current replicas only; its resourceVersion makes the apply fail if they changed since."""
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": {"replicas": item["spec"]["replicas"]},
    }


def _retire(client: ClusterClient, manifests: ManifestSet, workload: Workload) -> None:
    for ref in manifests.retired:
        try:
            item = client.get(ref)
        except ObjectNotFound:
            continue
        if belongs_to(item, workload):
            client.delete(ref, uid=item["metadata"]["uid"])


def adjust(client: ClusterClient, changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
    """Merge each patch into its object; objects that are gone meanwhile are skipped."""
    for item, patch in changes:
        with suppress(ObjectNotFound):
            client.patch_merge(kinds.ref_of(item), patch)


def build_token_secret(placement: Placement, token: str) -> Manifest:
    """Secret with the run's own token; it is deleted with the attempt's object, which owns it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": placement.run_token_secret,
            "namespace": placement.namespace,
            "labels": dict(placement.labels),
        },
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def delete(client: ClusterClient, primary: Mapping[str, Any]) -> None:
    """Delete by UID with everything it owns; pods get their own grace period. Repeating it is harmless."""
    if primary["metadata"].get("deletionTimestamp"):
        return
    metadata = primary["metadata"]
    ref = ObjectRef(primary["apiVersion"], primary["kind"], metadata["namespace"], metadata["name"])
    client.delete(ref, uid=metadata["uid"], propagation="Foreground")


def warnings(client: ClusterClient, primary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Warning events about the primary: why its controller could make no pods (a quota, Pod Security, …)."""
    metadata = primary["metadata"]
    listing = client.list(
        kinds.EVENT,
        namespace=metadata["namespace"],
        field_selector=f"involvedObject.uid={metadata['uid']},type=Warning",
    )
    return listing.items
