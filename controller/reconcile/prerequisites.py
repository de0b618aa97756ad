"""Checks, before anything is created, for objects in the namespace that an attempt's pods need.

A pod that mounts a missing ConfigMap waits forever, and holds its GPUs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterRejected, ObjectNotFound
from cluster.kinds import ObjectRef
from workloads.podspec.pod_template import ManifestSet


def refuse_missing_config_maps(client: ClusterClient, manifests: ManifestSet) -> None:
    """Raise ClusterRejected naming the first mounted ConfigMap that is neither in the cluster nor in the manifests."""
    namespace = manifests.primary["metadata"]["namespace"]
    made = {
        dependant["metadata"]["name"]
        for dependant in manifests.dependants
        if dependant["kind"] == kinds.CONFIG_MAP.kind
    }
    for name in sorted(set(_mounted(manifests.primary)) - made):
        try:
            client.get(ObjectRef(kinds.CONFIG_MAP.api_version, kinds.CONFIG_MAP.kind, namespace, name))
        except ObjectNotFound:
            message = f"there is no ConfigMap {name} in {namespace}; make it, then submit again."
            raise ClusterRejected(message) from None


def _mounted(value: Any) -> Iterator[str]:
    """Names of the ConfigMaps in every pod template, wherever the primary's kind has it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "volumes" and isinstance(inner, list):
                yield from (volume["configMap"]["name"] for volume in inner if "configMap" in volume)
            else:
                yield from _mounted(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _mounted(inner)
