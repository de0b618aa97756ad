"""The fault server stands where the API server and the endpoint behind it are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller import routes
from tests.cluster.cluster_faults import FaultServer
from tests.gateway.live_server import LIMITS, Bench, LiveServer


@pytest.fixture
def upstream(tmp_path) -> Iterator[FaultServer]:
    server = FaultServer(tmp_path / "kubeconfig", script=lambda exchange: exchange.reply(200, {"digit": 7}))
    yield server
    server.close()


@pytest.fixture
def bench(upstream, transactional_db, monkeypatch, settings) -> Iterator[Bench]:
    from cluster import client

    settings.CLUSTER_KUBECONFIG = str(upstream.kubeconfig)
    made = Bench(upstream)
    monkeypatch.setitem(routes._sources, "endpoint", made.routes)
    yield made
    shared = client._shared.pop(str(upstream.kubeconfig), None)
    if shared is not None:
        shared.close()


@pytest.fixture
def live(bench) -> Iterator[LiveServer]:
    server = LiveServer(LIMITS)
    yield server
    server.stop()
