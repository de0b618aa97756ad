from __future__ import annotations

import pytest

from tests.api.bench import Bench


@pytest.fixture(scope="module")
def standing_bench(stands):
    return stands(Bench)


@pytest.fixture
def bench(own, standing_bench, settings) -> Bench:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    return own(standing_bench)
