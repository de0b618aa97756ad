from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from foundation.clock import freeze
from tests.api.bench import Bench
from tests.api.every_operation import NOW, Vision
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


@pytest.fixture(scope="module")
def standing_vision(stands):
    with freeze(NOW):
        return stands(Vision)


@pytest.fixture
def vision(own, standing_vision, settings) -> Iterator[Vision]:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    # Where the example of a webhook goes, and that mail is offered; nothing is sent.
    settings.NOTICE_NETWORKS, settings.EMAIL_HOST = (ip_network("10.0.0.0/8"),), "mail.example.org"
    with freeze(NOW):
        yield own(standing_vision)
