"""What the setting `optional_kinds` may name: what the installed apps offer only where the cluster serves it too. Pure.

Every app registers its own from its `ready`; a check of a setting asks when it runs, not when it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

_offered: dict[str, bool] = {}


def register_optional_kinds(offered: Mapping[str, bool]) -> None:
    """Make the names known, each with whether it is offered as long as no one has changed the setting."""
    _offered.update(offered)


def optional_kinds() -> tuple[str, ...]:
    """Every name, in the order in which the apps are installed."""
    return tuple(_offered)


def offered_by_default() -> list[str]:
    """Those that are offered as long as no one has changed the setting."""
    return [name for name, by_default in _offered.items() if by_default]
