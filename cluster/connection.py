"""From a kubeconfig (or the pod's own service account) to an open connection pool.

The official client reads the file, runs credential plugins and renews tokens; its REST layer holds the pool.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import ssl
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import urllib3
import yaml
from typing_extensions import override

from cluster.errors import ClusterUnavailable

IN_CLUSTER = "in-cluster"
# Idle connections kept. Followed logs and watches hold one each, so it is well above the number of threads.
_POOL_SIZE = 256

logger = logging.getLogger(__name__)

Stamp = tuple[int, int, int]


class _UnverifiedConnection(urllib3.connection.HTTPSConnection):
    """For `insecure-skip-tls-verify`: warned about once, in the log, instead of at every request."""

    @override
    def connect(self) -> None:
        super().connect()
        self.is_verified = True


class _UnverifiedPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _UnverifiedConnection


@dataclass(frozen=True, slots=True)
class Connection:
    """One loaded configuration with its pool; replaced as a whole, never changed."""

    source: str
    pid: int
    stamp: Stamp | None
    configuration: Any
    pool: urllib3.PoolManager

    @property
    def host(self) -> str:
        """The API server's base URL, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    def authorization(self) -> str | None:
        """The value of the Authorization header now; renews a token that is about to end."""
        try:
            value = self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except (_library().ConfigException, OSError) as error:
            raise ClusterUnavailable(f"the cluster's credentials cannot be renewed: {error}") from error
        return str(value) if value else None

    def is_current(self) -> bool:
        """False after a fork, and after the kubeconfig file was rewritten."""
        return self.pid == os.getpid() and self.stamp == stamp_of(self.source)

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings for another HTTP client; None for plain http."""
        if not self.host.startswith("https:"):
            return None
        loaded = self.configuration
        context = ssl.create_default_context(cafile=loaded.ssl_ca_cert, cadata=loaded.ca_cert_data)
        if not loaded.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if loaded.cert_file:
            context.load_cert_chain(loaded.cert_file, loaded.key_file)
        return context


def _library() -> ModuleType:
    """Import `cluster.library`, on first contact with a cluster: its docstring says why."""
    return import_module("cluster.library")


def stamp_of(source: str) -> Stamp | None:
    """What changes when the kubeconfig file is rewritten; None in a cluster or without the file."""
    if source == IN_CLUSTER:
        return None
    try:
        status = Path(source).stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def open_connection(source: str) -> Connection:
    """Loads `source`, a kubeconfig's path or `in-cluster`. Raises ClusterUnavailable saying what is wrong
    with it.
    """
    stamp = stamp_of(source)
    if stamp is None and source != IN_CLUSTER:
        raise ClusterUnavailable(f"the kubeconfig {source} does not exist or may not be read")
    library = _library()
    try:
        configuration = library.load(None if source == IN_CLUSTER else source)
    except (library.ConfigException, yaml.YAMLError, OSError, TypeError, KeyError, ValueError) as error:
        # A parser's message may quote the file, and the file holds the token.
        reason = str(error) if isinstance(error, library.ConfigException | OSError) else type(error).__name__
        raise ClusterUnavailable(f"the kubeconfig {source} cannot be used: {reason}") from None
    _settle(configuration)
    return Connection(source, os.getpid(), stamp, configuration, _pool(configuration))


def _settle(configuration: Any) -> None:
    """Apply the settings of every connection, whatever the kubeconfig says."""
    configuration.connection_pool_maxsize = _POOL_SIZE
    configuration.keep_alive = True
    # The client decides what is repeated, as it knows what may be repeated; redirects are never followed.
    configuration.retries = urllib3.Retry(total=False)
    if _is_loopback(configuration.host):
        configuration.proxy = None
    if not configuration.api_key and not configuration.cert_file:
        # Also if a credential plugin fails: the library logs why, and continues without credentials.
        logger.warning(
            "the kubeconfig gives no credentials: requests to %s are anonymous", configuration.host
        )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _pool(configuration: Any) -> urllib3.PoolManager:
    pool: urllib3.PoolManager = _library().pool_of(configuration)
    if not configuration.verify_ssl:
        logger.warning("the kubeconfig asks not to verify the certificate of %s", configuration.host)
        pool.pool_classes_by_scheme = {"http": urllib3.HTTPConnectionPool, "https": _UnverifiedPool}
    return pool
