"""Reserves ports for programs that cannot choose a free port themselves."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

_HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")


def reserved_port() -> int:
    """Return a free loopback port that nothing else takes before the program under test listens on it.

    It is below the range from which the kernel assigns ports. This process holds a claim on it until it ends, and other test
    processes skip ports that are claimed.
    """
    lowest = int(_HANDED_OUT.read_text().split()[0])
    return next(port for port in range(lowest - 1, 1024, -1) if _is_free(port) and _is_claimed(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _is_claimed(port: int) -> bool:
    """Whether this process could claim the port. The claim is an abstract socket: it has no file and ends with its process."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0portal-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True
