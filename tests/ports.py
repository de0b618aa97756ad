"""Ports for programs that must be told which port to use, because they cannot report one that they chose."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

_HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")


def reserved_port() -> int:
    """A loopback port that stays free until the program that is told to use it listens there.

    The kernel never hands it out, because it assigns only higher ports. No other test process gets it, because this process
    claims the port by name until it ends.
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
