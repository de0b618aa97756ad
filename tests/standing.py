"""Worlds that stand for all tests of a module: built once, in a transaction that nobody commits.

Each test runs in a savepoint of it, as pytest-django gives it, and owns copies of the objects: it meets the world as if
it had been built for it alone. A test that commits builds its own, and takes down what stands.

    @pytest.fixture(scope="module")
    def standing_world(stands):
        return stands(make_world)

    @pytest.fixture
    def world(own, standing_world):
        return own(standing_world)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

# Fixtures whose names begin so hold what `stands` has built.
PREFIX = "standing_"


@dataclass
class Standing:
    """A world, and how it is built anew for a test that cannot stand in it."""

    build: Callable[..., Any]
    below: tuple[Standing, ...]
    value: Any = None
    stands: bool = False


class Ground:
    """What stands for a module, each world in a transaction inside that of the one below it."""

    def __init__(self, blocker: Any) -> None:
        self._blocker = blocker
        self._open = ExitStack()
        self._worlds: list[Standing] = []

    def __call__(self, build: Callable[..., Any], *below: Standing) -> Standing:
        world = Standing(build, below)
        if not _now.commits:
            from django.db import transaction

            opened = transaction.atomic()
            # As those of Django's own TestCase: what must not be inside a transaction may be inside this one.
            opened._from_testcase = True
            with self._blocker.unblock():
                self._open.enter_context(opened)
                self._open.callback(transaction.set_rollback, True)
                world.value, world.stands = build(*(each.value for each in below)), True
            self._worlds.append(world)
        return world

    def take_down(self) -> None:
        for world in self._worlds:
            world.value, world.stands = None, False
        with self._blocker.unblock():
            self._open.close()


class _Now:
    """Whether the test that runs commits, and the ground under it."""

    commits = False
    ground: Ground | None = None


_now = _Now()


@pytest.fixture(scope="module")
def stands(django_db_setup: None, django_db_blocker: Any) -> Iterator[Ground]:
    """Builds a world that stands until the last test of the module has ended."""
    _now.ground = ground = Ground(django_db_blocker)
    yield ground
    ground.take_down()
    _now.ground = None


@pytest.fixture
def own(db: None) -> Callable[[Standing], Any]:
    """Gives a test its own copy of a world: what two of them share is one object in the copies, too."""
    copies: dict[int, Any] = {}
    built: dict[int, Any] = {}

    def own(world: Standing) -> Any:
        if world.stands:
            return copy.deepcopy(world.value, copies)
        if id(world) not in built:
            built[id(world)] = world.build(*map(own, world.below))
        return built[id(world)]

    return own


def _commits(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    transactional = marker is not None and bool(marker.kwargs.get("transaction"))
    return transactional or bool({"transactional_db", "live_server"} & set(item.fixturenames))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _now.commits = _commits(item)
    if _now.commits and _now.ground is not None:
        _now.ground.take_down()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """In each module those first that stand on less: what has been built stays until the module's last test.

    After all others that put tests in order, as `--failed-first` does.
    """
    yield
    parts = [list(part) for _, part in groupby(items, lambda item: (item.path, _commits(item)))]
    items[:] = [item for part in parts for item in sorted(part, key=_height)]


def _height(item: pytest.Item) -> int:
    return sum(name.startswith(PREFIX) for name in getattr(item, "fixturenames", ()))
