"""Clients of devcluster, of the API server that PORTAL_TEST_KUBECONFIG names, and of a server that
misbehaves.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from cluster_faults import FaultServer

from cluster.client import ClusterClient, connect
from cluster.kinds import ObjectRef

REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251 - the suite's own switch, no setting of the portal


@pytest.fixture(scope="session", params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def client(request) -> Iterator[ClusterClient]:
    if request.param == "real":
        if not REAL:
            pytest.skip("PORTAL_TEST_KUBECONFIG names no cluster")
        found = connect(REAL)
    else:
        found = connect(request.getfixturevalue("devcluster"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def real_client() -> Iterator[ClusterClient]:
    if not REAL:
        pytest.skip("PORTAL_TEST_KUBECONFIG names no cluster")
    found = connect(REAL)
    yield found
    found.close()


@pytest.fixture
def namespace(client) -> Iterator[str]:
    yield from fresh_namespace(client)


def fresh_namespace(client: ClusterClient, **labels: str) -> Iterator[str]:
    name = f"cluster-{uuid.uuid4().hex[:10]}"
    made = client.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {key.replace("__", "/"): value for key, value in labels.items()},
            },
        }
    )
    yield name
    client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


@pytest.fixture
def faulty(tmp_path) -> Iterator[FaultServer]:
    server = FaultServer(tmp_path / "kubeconfig")
    yield server
    server.close()


@pytest.fixture
def faulty_client(faulty) -> Iterator[ClusterClient]:
    found = connect(str(faulty.kubeconfig))
    yield found
    found.close()
