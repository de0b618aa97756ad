"""Asks each custom resource of control planes once: `python -m tests.ci.served KUBECONFIG…`.

The storage of a custom resource is made when it is first asked for, and the API server refuses all until it is there.
"""

from __future__ import annotations

import sys
from typing import Any

from cluster.client import ClusterClient, connect
from cluster.errors import ClusterUnavailable
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def paths(definitions: list[dict[str, Any]]) -> list[str]:
    return [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1"
        for spec in (each["spec"] for each in definitions)
        for version in spec["versions"]
        if version["served"]
    ]


def answers(client: ClusterClient, path: str) -> Any:
    try:
        return client._json("GET", path)
    except ClusterUnavailable:
        return None


def main(kubeconfigs: list[str]) -> None:
    for kubeconfig in kubeconfigs:
        client = connect(kubeconfig)
        for path in paths(client._json("GET", DEFINITIONS)["items"]):
            until(lambda client=client, path=path: answers(client, path), longest=1)
        client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
