"""The world of the page tests, and browsers into it."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.factories.teams import PASSWORD
from tests.web.world import World, make_world, populate


@pytest.fixture
def world(db) -> World:
    return make_world()


@pytest.fixture
def made(world):
    """The world's workloads by name."""
    return populate(world)


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
