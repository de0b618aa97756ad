"""A devcluster with real processes."""

from __future__ import annotations

import signal

import pytest
from devcluster_bed import Devcluster, Space


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    made = Devcluster(tmp_path_factory.mktemp("devcluster"))
    yield made
    assert made.end() == 0
    assert not made.kubeconfig.exists()


_COUNT = iter(range(1, 10_000))


@pytest.fixture
def space(cluster):
    made = Space(cluster, f"test-{next(_COUNT)}")
    yield made
    cluster.call("DELETE", f"/api/v1/namespaces/{made.name}")


@pytest.fixture
def own(tmp_path):
    """A devcluster for tests that end it."""
    made = Devcluster(tmp_path)
    yield made
    if made.process.poll() is None:
        made.end(signal.SIGKILL)
