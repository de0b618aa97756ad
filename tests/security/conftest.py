from __future__ import annotations

from ipaddress import ip_network

import pytest

from tests.security.world import World


@pytest.fixture(scope="module")
def standing_world(stands):
    return stands(World)


@pytest.fixture
def world(own, standing_world, settings) -> World:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    # Of the addresses of notices, which are looked at as they are typed; nothing is sent.
    settings.NOTICE_NETWORKS = (ip_network("192.0.2.0/24"),)
    return own(standing_world)
