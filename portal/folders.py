"""Where the embedded servers keep their files. Pure path arithmetic: nothing is made here."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

# A Unix socket's path holds at most 107 bytes, of which PostgreSQL's own file name takes some.
_SOCKET_FOLDER_BYTES_MAX = 80


@dataclass(frozen=True)
class Folders:
    """The layout of `PORTAL_DATA_DIR`."""

    data: Path

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def secret_key(self) -> Path:
        return self.data / "secret-key"

    @property
    def static(self) -> Path:
        return self.data / "static"

    @property
    def log_store(self) -> Path:
        return self.data / "logs-store"

    @property
    def postgres(self) -> Path:
        return self.data / "postgres"

    @property
    def devcluster(self) -> Path:
        return self.data / "devcluster"

    @property
    def devcluster_token(self) -> Path:
        """What devcluster's API server and Prometheus ask for; devcluster writes it."""
        return self.devcluster / "token"

    @property
    def kubeconfig(self) -> Path:
        return self.data / "devcluster.kubeconfig"

    @property
    def sockets(self) -> Path:
        """The folder of the Unix sockets: in the data folder, or a short stand-in where that is too deep."""
        inside = self.data / "run"
        if len(os.fsencode(inside)) <= _SOCKET_FOLDER_BYTES_MAX:
            return inside
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"ml-portal-{os.getuid()}-{digest}"

    @property
    def postgres_sockets(self) -> Path:
        return self.sockets / "postgres"

    def metrics_socket(self, process: str) -> Path:
        return self.sockets / f"metrics-{process}.sock"

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey.sock"
