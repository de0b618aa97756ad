"""Which events of those that one may see a stream is to tell: `?workload=` and `?team=`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from foundation.errors import Malformed

VALUES_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Empty is all. The ids are as notifications write them."""

    teams: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()

    def takes(self, *, team: str, workload: str) -> bool:
        return (not self.teams or team in self.teams) and (not self.workloads or workload in self.workloads)


def followed_of(
    *, teams: Iterable[str] = (), workloads: Iterable[str] = (), named: str = "workload"
) -> Followed:
    """By the values of the parameters, each several separated by commas. Raises Malformed naming the parameter; that of the
    workloads is `named` so.
    """
    return Followed(
        teams=frozenset(_several("team", teams)),
        workloads=frozenset(_uuid(named, text) for text in _several(named, workloads)),
    )


def _several(name: str, values: Iterable[str]) -> list[str]:
    found = [text for value in values for text in value.split(",")]
    if not all(found):
        raise Malformed.of_field(name, f"{name}: must not be empty.")
    if len(found) > VALUES_MAX:
        raise Malformed.of_field(name, f"{name}: takes at most {VALUES_MAX} values.")
    return found


def _uuid(name: str, text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise Malformed.of_field(name, f"{name}: must be a UUID.") from None
