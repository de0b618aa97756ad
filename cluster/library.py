"""The official client, as far as the portal uses it: reading credentials, and the pool of its REST layer.

A module of its own, because importing the library costs 36 MB: a process pays them when it first talks to a
cluster, and one that never does, never.
"""

from __future__ import annotations

from typing import Any

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

__all__ = ["ConfigException", "load", "pool_of"]


def load(kubeconfig: str | None) -> Any:
    """The configuration of a kubeconfig file, or of the pod's own service account for None.

    Raises ConfigException, or what a malformed file makes the library raise.
    """
    configuration = Configuration()
    if kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        # The file is the operator's: a renewed token is kept in memory, not written back.
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig, client_configuration=configuration, persist_config=False
        )
    return configuration


def pool_of(configuration: Any) -> urllib3.PoolManager:
    """The connection pool that the library makes for a configuration."""
    pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
    return pool
