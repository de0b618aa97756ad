"""Keeps a process with threads small."""

from __future__ import annotations

import ctypes

# malloc.h of glibc: how many arenas there may be at most.
M_ARENA_MAX = -8
ARENAS = 2


def share_arenas() -> None:
    """Let all threads take their memory from two arenas. To be called before the first thread is started.

    glibc gives each thread an arena of its own, of which what was freed is kept. Does nothing where the C library
    is another one.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_ARENA_MAX, ARENAS)
