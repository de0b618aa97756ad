"""The profile of Pod Security that a team's namespace enforces: restricted, unless something is offered whose pods it refuses.

The portal's own pods pass restricted. What an operator puts beside them does not always: the app that owns such a kind says so
here, from its `ready`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from foundation.models import PlatformSettings
from foundation.pod_security import PodSecurity
from teams.models import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """Why the pods of a kind do not pass restricted, or are not known to."""

    kind: str
    """What people call it."""
    why: str
    fix: str
    """What an admin can do, so that they pass; empty where nothing helps."""


Served = frozenset[str]
"""Addresses of the kinds of objects that the cluster serves."""
Finder = Callable[[Served | None], Iterable[Hindrance]]
_finders: list[Finder] = []


def register_hindrances(found: Finder) -> None:
    """Ask this too for what is offered now and hinders; it is given what the cluster serves, or looks itself."""
    if found not in _finders:
        _finders.append(found)


def hindrances(served: Served | None = None) -> list[Hindrance]:
    """Of every kind that is offered now and that restricted would refuse."""
    return [each for found in _finders for each in found(served)]


def level_of(team: Team, *, platform: PodSecurity | None = None) -> PodSecurity:
    """The profile for the namespace of the team: baseline or restricted, never automatic.

    The team's own says, else whether it may run as root, else the platform's, else what is offered. Who asks for many teams
    gives `platform`, what `level_of_platform` says.
    """
    if team.pod_security != PodSecurity.AUTOMATIC:
        return PodSecurity(team.pod_security)
    return PodSecurity.BASELINE if team.may_run_as_root else platform or level_of_platform()


def level_of_platform(served: Served | None = None) -> PodSecurity:
    """The profile of teams for which nothing else is said: baseline or restricted. Who knows already what the cluster
    serves gives it.
    """
    chosen = PodSecurity(PlatformSettings.current().pod_security)
    if chosen != PodSecurity.AUTOMATIC:
        return chosen
    return PodSecurity.BASELINE if hindrances(served) else PodSecurity.RESTRICTED
