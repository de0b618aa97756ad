"""The trees of all sources live to the end; garbage is not looked for among their millions of nodes."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _trees_are_no_garbage() -> Iterator[None]:
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
