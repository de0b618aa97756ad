"""The watcher's rows of all PersistentVolumeClaims, as runs may mount claims that the portal did not make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import override

from cluster import kinds
from cluster.client import ClusterClient
from cluster.kinds import ObjectRef
from controller.reconcile.sightings import still_there
from controller.watch.sinks import OneByOne, lacking
from workloads.models import ClaimRecord
from workloads.observations import record_claim


@dataclass(frozen=True)
class ClaimSink(OneByOne):
    """Records claims; a row missing from a list is gone once a read by name confirms it, as the list may be older."""

    @override
    def one(self, manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool) -> None:
        if gone:
            ClaimRecord.objects.filter(uid=manifest["metadata"]["uid"]).delete()
        else:
            record_claim(manifest, cluster=cluster, now=now)

    @override
    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        for record in lacking(ClaimRecord.objects.of(client.cluster), present):
            ref = ObjectRef(kinds.CLAIM.api_version, kinds.CLAIM.kind, record.namespace, record.name)
            if not still_there(client, ref, record.uid):
                record.delete()
