"""A cluster to plant failures in: devcluster, and a real control plane where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.client import ClusterClient, connect
from tests.controller.conftest import REAL


@pytest.fixture(params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def field_client(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    if request.param == "real" and not REAL:
        pytest.skip("no PORTAL_TEST_KUBECONFIG")
    client = connect(REAL if request.param == "real" else request.getfixturevalue("devcluster"))
    yield client
    client.close()
