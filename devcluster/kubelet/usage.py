"""CPU time of process pods, read from /proc: what a metrics server would say of them."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
WINDOW_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Cores in use over the last WINDOW_SECONDS, and bytes held just now; what processes share counts for each."""

    cores: float
    resident: int = 0


@dataclass(slots=True)
class _Known:
    """Facts of one container: CPU seconds by process, those of processes that are gone, and the sums of before."""

    by_process: dict[int, float] = field(default_factory=dict)
    gone: float = 0.0
    sums: deque[tuple[float, float]] = field(default_factory=deque)
    resident: int = 0


class CpuMeter:
    """Keeps the last readings of every container; `key` is whatever names one."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}

    def read(self, leaders: Mapping[tuple[str, str], int]) -> None:
        """One reading of the containers whose first processes are given; others are forgotten."""
        now, (sessions, resident) = time.time(), _by_session(set(leaders.values()))
        self._known = {key: known for key, known in self._known.items() if key in leaders}
        for key, leader in leaders.items():
            known, seen = self._known.setdefault(key, _Known()), sessions.get(leader, {})
            # The time of a process that was waited for is its parent's now; that of others is kept here.
            lost = sum(known.by_process.values()) - sum(seen.values())
            known.gone = max(known.gone, known.gone + lost) if lost > 0 else known.gone
            known.by_process, known.resident = seen, resident.get(leader, 0)
            known.sums.append((now, known.gone + sum(seen.values())))
            while len(known.sums) > 2 and known.sums[1][0] < now - WINDOW_SECONDS:
                known.sums.popleft()

    def usage(self, key: tuple[str, str]) -> Usage | None:
        """None until there are two readings."""
        known = self._known.get(key)
        if known is None or len(known.sums) < 2:
            return None
        (began, before), (at, total) = known.sums[0], known.sums[-1]
        return Usage(max(0.0, total - before) / (at - began), known.resident)


def _by_session(wanted: set[int]) -> tuple[dict[int, dict[int, float]], dict[int, int]]:
    """For each wanted session: CPU seconds by process, with those of children waited for, and resident bytes."""
    seconds: dict[int, dict[int, float]] = {}
    resident: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the name, which may hold spaces and brackets.
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) in wanted:
                ticks = sum(int(text) for text in fields[11:15])
                session = int(fields[3])
                seconds.setdefault(session, {})[int(entry)] = ticks / TICKS
                resident[session] = resident.get(session, 0) + int(fields[21]) * resource.getpagesize()
    return seconds, resident
