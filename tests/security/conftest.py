from __future__ import annotations

import pytest

from tests.security.world import World


@pytest.fixture(scope="module")
def standing_world(stands):
    return stands(World)


@pytest.fixture
def world(own, standing_world, settings) -> World:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    return own(standing_world)
