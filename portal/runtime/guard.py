"""Run a command that ends when its parent ends, even when the parent is killed with SIGKILL.

    python -m portal.runtime.guard [--signal NAME] [--parent PID] [--user NAME] -- COMMAND…

The kernel sends the signal (Linux: PR_SET_PDEATHSIG), so nothing has to poll. Changing the user clears that
wish, so it is made after the change, and the parent is looked at once more after it, for it may be gone by
then. With `--user`, root's right to read and pass closed folders is kept (and no other right): PostgreSQL
refuses to run as root, while its binaries and its data may lie below a home folder that only root may enter.

This file imports nothing of the portal: it is also run by its path, in an isolated interpreter.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_SET_SECUREBITS = 28
_SECBITS_KEEP_CAPS_AND_NO_SETUID_FIXUP = 1 << 4 | 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522
EXIT_CANNOT_START = 126


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def main(arguments: list[str]) -> int:
    """Replaces this process by the command; returns an exit status only when that is not possible."""
    parser = argparse.ArgumentParser(prog="guard")
    parser.add_argument("--signal", default="SIGKILL")
    parser.add_argument("--parent", type=int, default=os.getppid())
    parser.add_argument("--user", default="")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    if not sys.platform.startswith("linux"):
        print("guard: the embedded servers need Linux (on Windows: WSL)", file=sys.stderr)  # noqa: T201
        return EXIT_CANNOT_START
    if options.user:
        _become(options.user)
    end_with_parent(signal.Signals[options.signal], parent=options.parent)
    try:
        os.execvp(options.command[0], options.command)  # noqa: S606
    except OSError as problem:
        print(f"guard: cannot start {options.command[0]}: {problem.strerror}", file=sys.stderr)  # noqa: T201
    return EXIT_CANNOT_START


def end_with_parent(number: signal.Signals, *, parent: int) -> None:
    """Have the kernel send `number` to this process when the process `parent` ends; ends it if it has."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number.value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _become(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    account = pwd.getpwnam(name)
    # access(2) leaves out every right of a user other than root unless the second bit says not to, and with
    # access(2) PostgreSQL asks whether it may run its own programs.
    if libc.prctl(_PR_SET_SECUREBITS, _SECBITS_KEEP_CAPS_AND_NO_SETUID_FIXUP, 0, 0, 0) != 0:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    header = _Header(_CAPABILITY_VERSION_3, 0)
    data = (_Data * 2)()
    if libc.capget(ctypes.byref(header), data) != 0:
        return
    kept = next(
        (bit for bit in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE) if data[0].permitted & 1 << bit), None
    )
    mask = 0 if kept is None else 1 << kept
    data[0] = _Data(mask, mask, mask)
    data[1] = _Data(0, 0, 0)
    libc.capset(ctypes.byref(header), data)
    if kept is not None:
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, kept, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
