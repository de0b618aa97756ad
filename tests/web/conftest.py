"""The world of the page tests, and browsers into it."""

from __future__ import annotations

import pytest
from django.test import Client

from foundation import clock
from tests.factories.teams import PASSWORD
from tests.web.world import World, make_world, populate
from workloads.models import WatchCursor


@pytest.fixture(scope="module")
def standing_world(stands):
    return stands(make_world)


@pytest.fixture(scope="module")
def standing_workloads(stands, standing_world):
    return stands(populate, standing_world)


@pytest.fixture
def world(own, standing_world) -> World:
    return own(standing_world)


@pytest.fixture
def made(own, standing_workloads):
    """The world's workloads by name, seen just now."""
    workloads = own(standing_workloads)
    WatchCursor.objects.update(seen_at=clock.now())
    return workloads


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
