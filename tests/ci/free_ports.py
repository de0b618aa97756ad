"""Prints the first of ten consecutive free ports, drawn at random: control planes that start at once get different ones."""

from __future__ import annotations

import random
import socket

PORTS = 10


def ports_in_a_row() -> int:
    """The first of them. Raises RuntimeError where there are none."""
    for first in random.sample(range(17000, 30000, PORTS), 500):
        if all(map(_is_free, range(first, first + PORTS))):
            return first
    raise RuntimeError(f"no {PORTS} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    print(ports_in_a_row())  # noqa: T201
