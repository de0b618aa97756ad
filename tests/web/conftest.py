"""The world of the page tests, and browsers into it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from quotas.models import Fence
from tests.factories.teams import PASSWORD
from tests.web.queue_world import make_queue
from tests.web.quota_world import QuotaWorld, make_quota_world, populate_quotas
from tests.web.world import World, make_world, populate
from workloads.models import WatchCursor


@pytest.fixture(scope="module")
def standing_world(stands):
    return stands(make_world)


@pytest.fixture(scope="module")
def standing_workloads(stands, standing_world):
    return stands(populate, standing_world)


@pytest.fixture(scope="module")
def standing_queue(stands, standing_world):
    return stands(make_queue, standing_world)


@pytest.fixture(scope="module")
def standing_quota_world(stands, standing_world):
    return stands(make_quota_world, standing_world)


@pytest.fixture(scope="module")
def standing_quotas(stands, standing_quota_world):
    return stands(populate_quotas, standing_quota_world)


@pytest.fixture
def world(own, standing_world) -> World:
    return own(standing_world)


@pytest.fixture
def made(own, standing_workloads):
    """The world's workloads by name, seen just now."""
    workloads = own(standing_workloads)
    WatchCursor.objects.update(seen_at=clock.now())
    return workloads


@pytest.fixture
def queue(own, standing_queue):
    """A full pool's workloads by name, seen just now."""
    workloads = own(standing_queue)
    WatchCursor.objects.update(seen_at=clock.now())
    return workloads


@pytest.fixture
def quota_world(own, standing_quota_world) -> QuotaWorld:
    return own(standing_quota_world)


@pytest.fixture
def full(own, quota_world, standing_quotas) -> QuotaWorld:
    """Teams that use, lend and wait, their fences checked three minutes ago."""
    own(standing_quotas)
    Fence.objects.update(checked_at=clock.now() - timedelta(minutes=3))
    return quota_world


def signed_in(user) -> Client:
    client = Client()
    assert client.login(username=user.username, password=PASSWORD)
    return client


@pytest.fixture
def ana(world) -> Client:
    return signed_in(world.ana)


@pytest.fixture
def viewer(world) -> Client:
    return signed_in(world.viewer)


@pytest.fixture
def stranger(world) -> Client:
    return signed_in(world.stranger)
