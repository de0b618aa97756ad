"""Which line is meant: `L120`, or with its pod and container before it, `train-x-1:source-L120` (pure).

The number is the line's own, which counts those of its container and stays the same for ever. The pod is left out where a
page shows that of one pod alone, and the container where it is the program's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from foundation.http.query import refuse

PROGRAMS: Final = ("main", "pytorch", "tensorflow", "mpi", "node")
"""What the container of the program itself is called, in the objects that the portal makes."""
_PLACE: Final = re.compile(
    r"(?:(?P<pod>[a-z0-9.-]{1,253})?(?::(?P<container>[a-z0-9-]{1,63}))?-)?L(?P<number>[1-9]\d{0,8})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LinePlace:
    """A line of a container of a pod. Without a `pod` the only one that is looked at, without a `container` the program's."""

    number: int
    pod: str = ""
    container: str = ""

    @classmethod
    def of(cls, text: str, *, parameter: str) -> LinePlace:
        """Raises Malformed naming the parameter."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise refuse(parameter, "must name a line, such as L120.")
        return cls(int(match["number"]), match["pod"] or "", match["container"] or "")

    @override
    def __str__(self) -> str:
        before = f"{self.pod}:{self.container}" if self.container else self.pod
        return f"{before}-L{self.number}" if before else f"L{self.number}"


def place_of(*, number: int, pod: str, container: str, alone: bool) -> LinePlace:
    """The place of a shown line; `alone` where its page shows the lines of one pod."""
    return LinePlace(number, "" if alone else pod, "" if container in PROGRAMS else container)
