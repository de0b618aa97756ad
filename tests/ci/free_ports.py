"""Prints the first of ten ports in a row that are free at this moment: another control plane here keeps its own."""

from __future__ import annotations

import random
import socket


def free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    starts = random.sample(range(17000, 30000, 10), 500)
    print(next(port for port in starts if all(map(free, range(port, port + 10)))))  # noqa: T201
