from __future__ import annotations

import pytest

from tests.api.bench import Bench
from tests.factories.teams import api_client, make_user


@pytest.fixture(scope="module")
def standing_bench(stands):
    return stands(Bench)


@pytest.fixture
def bench(own, standing_bench, settings) -> Bench:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    return own(standing_bench)


@pytest.fixture
def manager(bench):
    return api_client(make_user("manager", quota_manager=True))


@pytest.fixture
def admin(bench):
    return api_client(make_user("root", platform_admin=True))
