"""A plugin of pytest: the tests of the group `e2e`, which take minutes each, before all others.

At the end they would keep one worker busy, and the others idle. The order of the files does not do it, because pytest-django
puts tests that use no database last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ci.groups import E2E, group_of


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    yield
    items.sort(key=lambda item: group_of(item.nodeid.partition("::")[0]) != E2E)
