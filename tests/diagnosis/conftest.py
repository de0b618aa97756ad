"""A cluster to plant failures in: devcluster, and a real control plane where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.client import ClusterClient, connect
from tests.controller.conftest import REAL
from tests.diagnosis.planted import one_of_each_kind
from workloads.models import Workload


@pytest.fixture(params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def field_client(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    if request.param == "real" and not REAL:
        pytest.skip("no PORTAL_TEST_KUBECONFIG")
    client = connect(REAL if request.param == "real" else request.getfixturevalue("devcluster"))
    yield client
    client.close()


@pytest.fixture(scope="module")
def standing_workloads(stands):
    return stands(one_of_each_kind)


@pytest.fixture
def workloads(own, standing_workloads) -> dict[str, Workload]:
    return own(standing_workloads)
