from __future__ import annotations

import pytest

from tests.api.bench import Bench


@pytest.fixture
def bench(db, settings) -> Bench:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    return Bench()
