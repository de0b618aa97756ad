"""Ports for programs that are told theirs, as they cannot say which one they were given."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

_HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")


def reserved_port() -> int:
    """A port of loopback that nothing else takes before the program does that is told it.

    The kernel hands out higher ones alone, and no other process of the tests gets it: the name of the port belongs to
    this process until it ends.
    """
    lowest = int(_HANDED_OUT.read_text().split()[0])
    return next(port for port in range(lowest - 1, 1024, -1) if _is_free(port) and _is_claimed(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _is_claimed(port: int) -> bool:
    """By this process and now: such a name of a socket stands for no file, and goes with who holds it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0portal-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True
