"""What the watcher keeps of PersistentVolumeClaims: all of them, as runs may mount what others have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from workloads.models import ClaimRecord
from workloads.observations import record_claim


@dataclass(frozen=True)
class ClaimSink:
    """A row that a list lacks is gone once a read by name agrees: one may have been made since the list."""

    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        if gone:
            ClaimRecord.objects.filter(uid=manifest["metadata"]["uid"]).delete()
        else:
            record_claim(manifest, now=now)

    def forget_absent(self, client: ClusterClient, present: set[str], *, now: datetime) -> None:
        for record in ClaimRecord.objects.exclude(uid__in=present):
            ref = ObjectRef(kinds.CLAIM.api_version, kinds.CLAIM.kind, record.namespace, record.name)
            if not still_there(client, ref, record.uid):
                record.delete()


def still_there(
    client: ClusterClient, ref: ObjectRef, uid: str, *, lacking: frozenset[str] = frozenset()
) -> bool:
    """Whether the object exists, in none of the `lacking` phases."""
    try:
        found = client.get(ref)
    except ObjectNotFound:
        return False
    return found["metadata"]["uid"] == uid and (found.get("status") or {}).get("phase") not in lacking
