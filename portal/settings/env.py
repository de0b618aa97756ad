"""The only reader of the process environment.

Every variable of the portal begins with `PORTAL_`; a name that no code reads is an error, so that a typing
mistake is never silently ignored. Secrets may come from a file named by `<NAME>_FILE`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

from portal.settings.http_limits import RANGES, HttpLimits

PREFIX = "PORTAL_"
TEST_PREFIX = "PORTAL_TEST_"
DEPLOYED_NAMESPACE = "ml-portal"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
SECRETS = frozenset(
    {
        "PORTAL_SECRET_KEY",
        "PORTAL_DATABASE_URL",
        "PORTAL_REDIS_URL",
        "PORTAL_PROMETHEUS_TOKEN",
        "PORTAL_MAIL_URL",
    }
)
_REDIS_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# Each scheme's own, which redis-py and Celery read alike.
_REDIS_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "redis": (),
    "rediss": (*_REDIS_FILES, "ssl_cert_reqs"),
    "unix": ("db",),
}
IN_CLUSTER = "in-cluster"
SECRET_KEY_LENGTH_MIN = 32

BASE_DIR = Path(__file__).resolve().parents[2]
DEFAULT_DATA_DIR = BASE_DIR / ".data"

# What the kubelet writes into every pod for a Service whose name begins with `portal`, unless the pod says
# `enableServiceLinks: false`: its host and port, and for each port four more names.
_SERVICE_HOST = "_SERVICE_HOST"
_SERVICE_WORDS = re.compile(
    r"_SERVICE_HOST|_SERVICE_PORT(_.+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bind:
    """Where a server listens: an address, or `fd`, a listening socket that the parent process opened."""

    host: str = ""
    port: int = 0
    fd: int | None = None

    @property
    def loopback(self) -> bool:
        """True if no one can connect from another machine. An inherited socket is checked by its opener."""
        if self.fd is not None or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @override
    def __str__(self) -> str:
        if self.fd is not None:
            return f"fd://{self.fd}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class DatabaseAddress:
    """A PostgreSQL server and database, as `PORTAL_DATABASE_URL` names them."""

    host: str
    port: int | None
    name: str
    user: str
    password: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """Where mail goes, as `PORTAL_MAIL_URL` says. `security` is "", "starttls" or "tls"."""

    host: str
    port: int
    security: str
    user: str = ""
    password: str = ""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The configuration of one process. None means: not set, so embedded or derived (see the settings)."""

    data_dir: Path
    bind: Bind
    live_bind: Bind
    bind_given: bool
    live_bind_given: bool
    # None: a process started by hand serves no metrics; `up` gives each of its processes an address.
    metrics_bind: Bind | None = None
    secret_key: str | None = None
    database: DatabaseAddress | None = None
    redis_url: str | None = None
    kubeconfig: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    public_url: str | None = None
    live_url: str | None = None
    internal_url: str | None = None
    log_storage: Path | None = None
    prometheus_url: str | None = None
    prometheus_token: str | None = None
    # Proxies whose word about the client's address (X-Forwarded-For) is trusted.
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    # Private networks that webhooks may go to.
    notice_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    mail_server: MailServer | None = None
    mail_from: str | None = None
    http: HttpLimits = field(default_factory=HttpLimits)
    # Where a test wants the process to kill itself (foundation.crashpoints); nothing else reads it.
    test_crash_point: str = ""

    def exposed_binds(self) -> dict[str, Bind]:
        """By variable, the addresses that other machines can reach although the embedded cluster is in use.

        devcluster runs the commands of pods as processes of this user: anyone who reaches the portal can run
        commands here, so nothing may start while this is not empty.
        """
        binds = {"PORTAL_BIND": self.bind, "PORTAL_LIVE_BIND": self.live_bind}
        return {name: bind for name, bind in binds.items() if self.kubeconfig is None and not bind.loopback}


def load(variables: Mapping[str, str] | None = None) -> Environment:
    """The typed environment of this process, or of `variables`.

    Raises ImproperlyConfigured naming the variable when one is unknown or malformed. Messages never hold
    the value of a secret.
    """
    source = os.environ if variables is None else variables  # noqa: TID251
    _refuse_unknown(source)
    values = {name: text for name in KNOWN if (text := _text(source, name)) is not None}

    def read(name: str, parse: Callable[[str], T]) -> T | None:
        if name not in values:
            return None
        try:
            return parse(values[name])
        except ValueError as problem:
            raise ImproperlyConfigured(f"{name} {problem}") from None

    return Environment(
        data_dir=read("PORTAL_DATA_DIR", _folder) or DEFAULT_DATA_DIR,
        bind=read("PORTAL_BIND", parse_bind) or Bind(host="127.0.0.1", port=8000),
        live_bind=read("PORTAL_LIVE_BIND", parse_bind) or Bind(host="127.0.0.1", port=8001),
        bind_given="PORTAL_BIND" in values,
        live_bind_given="PORTAL_LIVE_BIND" in values,
        metrics_bind=read("PORTAL_METRICS_BIND", parse_bind),
        secret_key=read("PORTAL_SECRET_KEY", _secret_key),
        database=read("PORTAL_DATABASE_URL", parse_database_url),
        redis_url=read("PORTAL_REDIS_URL", _redis_url),
        kubeconfig=read("PORTAL_KUBECONFIG", _kubeconfig),
        allowed_hosts=read("PORTAL_ALLOWED_HOSTS", _hosts) or (),
        public_url=read("PORTAL_PUBLIC_URL", _origin),
        live_url=read("PORTAL_LIVE_URL", _origin),
        internal_url=read("PORTAL_INTERNAL_URL", _origin),
        log_storage=read("PORTAL_LOG_STORAGE", _folder),
        prometheus_url=read("PORTAL_PROMETHEUS_URL", _http_url),
        prometheus_token=read("PORTAL_PROMETHEUS_TOKEN", _bearer),
        trusted_proxies=read("PORTAL_TRUSTED_PROXIES", _networks) or (),
        notice_networks=read("PORTAL_NOTICE_NETWORKS", _any_networks) or (),
        mail_server=read("PORTAL_MAIL_URL", _mail_url),
        mail_from=read("PORTAL_MAIL_FROM", _mail_address),
        http=HttpLimits(
            **{
                name: number
                for name, (least, most) in RANGES.items()
                if (number := read(http_variable(name), _whole(least, most))) is not None
            }
        ),
        test_crash_point=source.get("PORTAL_TEST_CRASH_POINT", ""),
    )


def http_variable(limit: str) -> str:
    """The variable of a limit of connections, such as PORTAL_HTTP_BODY_BYTES of `body_bytes`."""
    return f"PORTAL_HTTP_{limit.upper()}"


KNOWN = (
    "PORTAL_ALLOWED_HOSTS",
    "PORTAL_BIND",
    "PORTAL_DATABASE_URL",
    "PORTAL_DATA_DIR",
    *(http_variable(name) for name in sorted(RANGES)),
    "PORTAL_INTERNAL_URL",
    "PORTAL_KUBECONFIG",
    "PORTAL_LIVE_BIND",
    "PORTAL_LIVE_URL",
    "PORTAL_LOG_STORAGE",
    "PORTAL_MAIL_FROM",
    "PORTAL_MAIL_URL",
    "PORTAL_METRICS_BIND",
    "PORTAL_NOTICE_NETWORKS",
    "PORTAL_PROMETHEUS_TOKEN",
    "PORTAL_PROMETHEUS_URL",
    "PORTAL_PUBLIC_URL",
    "PORTAL_REDIS_URL",
    "PORTAL_SECRET_KEY",
    "PORTAL_TRUSTED_PROXIES",
)


def variable(name: str) -> str | None:
    """One variable that a file of the operator's names, such as `password_env` of a bootstrap file."""
    return os.environ.get(name)  # noqa: TID251


def set_variables(variables: Mapping[str, str]) -> None:
    """Change the environment of this process and its children: what `demo` gives to `up`."""
    os.environ.update(variables)  # noqa: TID251


def for_child(**portal: str) -> dict[str, str]:
    """The environment of this process with the given `PORTAL_` variables (named without the prefix) replaced."""
    return {**os.environ, **{PREFIX + name: text for name, text in portal.items()}}  # noqa: TID251


def own_namespaces(internal_url: str) -> frozenset[str]:
    """Where the portal runs in a cluster: that of deploy/, of this pod, and of the Service that `internal_url` names."""
    names = {DEPLOYED_NAMESPACE}
    with suppress(OSError):
        names.add(_POD_NAMESPACE.read_text(encoding="ascii").strip())
    parts = (urlsplit(internal_url).hostname or "").split(".")
    if len(parts) > 1 and (len(parts) == 2 or parts[2] == "svc"):
        names.add(parts[1])
    return frozenset(names - {""})


def parse_bind(text: str) -> Bind:
    """`HOST:PORT`, `[V6]:PORT` or `fd://N`. Raises ValueError with a message that follows the name."""
    if text.startswith("fd://"):
        if not text[5:].isdecimal():
            raise ValueError(f"must be HOST:PORT, not {text!r}")
        return Bind(fd=int(text[5:]))
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"must be HOST:PORT such as 127.0.0.1:8000, not {text!r}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"must write an IPv6 address in brackets, not {text!r}")
    return Bind(host=host.strip("[]"), port=int(port))


def parse_database_url(text: str) -> DatabaseAddress:
    """`postgresql://user:password@host:port/name?sslmode=…`. Raises ValueError that holds no secret."""
    expected = "must be postgresql://USER:PASSWORD@HOST:PORT/NAME (the value is not shown: it holds a secret)"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(expected) from None
    name = unquote(parts.path.removeprefix("/"))
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    if parts.scheme not in {"postgres", "postgresql"} or not name or "/" in name or not host:
        raise ValueError(expected)
    return DatabaseAddress(
        host=host,
        port=port,
        name=name,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        options=tuple(sorted(options.items())),
    )


def _refuse_unknown(source: Mapping[str, str]) -> None:
    accepted = {*KNOWN, *(f"{name}_FILE" for name in SECRETS)}
    for name in sorted(source):
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX) or name in accepted:
            continue
        if _is_of_a_service(name, source):
            continue
        nearest = difflib.get_close_matches(name, sorted(accepted), n=1, cutoff=0.0)[0]
        raise ImproperlyConfigured(f"{name} is not a variable of the portal; the nearest one is {nearest}")


def _is_of_a_service(name: str, source: Mapping[str, str]) -> bool:
    """Whether Kubernetes wrote it: then its host is set, too. A port alone is a mistake."""
    services = (key.removesuffix(_SERVICE_HOST) for key in source if key.endswith(_SERVICE_HOST))
    return any(
        name.startswith(service)
        and f"{service}_SERVICE_PORT" in source
        and _SERVICE_WORDS.fullmatch(name.removeprefix(service))
        for service in services
    )


def _text(source: Mapping[str, str], name: str) -> str | None:
    file_name = f"{name}_FILE"
    path = source.get(file_name) if name in SECRETS else None
    if path is None:
        return source.get(name, "").strip() or None
    if source.get(name):
        raise ImproperlyConfigured(f"{name} and {file_name} are both set; keep one")
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ImproperlyConfigured(f"{file_name} names {path}, which cannot be read: {problem}") from None
    if not text:
        raise ImproperlyConfigured(f"{file_name} names {path}, which is empty")
    return text


def _secret_key(text: str) -> str:
    if len(text) < SECRET_KEY_LENGTH_MIN:
        raise ValueError(f"must have at least {SECRET_KEY_LENGTH_MIN} characters, not {len(text)}")
    return text


def _bearer(text: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", text):
        raise ValueError(
            "must be a token in one line of printable ASCII without spaces (the value is not shown)"
        )
    return text


def _redis_url(text: str) -> str:
    """The address as redis-py and Celery read it alike; of `rediss://` the certificate is checked, whatever it says.

    Celery takes any certificate where the address does not ask for a check, and ignores a database in the query.
    """
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = 0
    where = parts.path if parts.scheme == "unix" else parts.hostname
    if parts.scheme not in _REDIS_OPTIONS or not where or port == 0:
        raise ValueError("must be redis://HOST:PORT/DB, rediss://… or unix:///PATH (the value is not shown)")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _REDIS_OPTIONS[parts.scheme]:
            known = ", ".join(_REDIS_OPTIONS[parts.scheme]) or "none"
            raise ValueError(
                f"has the option {name}, which {parts.scheme}:// does not take (options: {known})"
            )
        if name in _REDIS_FILES and not Path(value).is_file():
            raise ValueError(f"names {value!r} as {name}, which is no file")
        if name == "ssl_cert_reqs" and value != "required":
            raise ValueError("must leave out ssl_cert_reqs, or say required: a certificate is always checked")
    if parts.scheme == "rediss":
        return urlunsplit(parts._replace(query=urlencode({**options, "ssl_cert_reqs": "required"})))
    return text


def _kubeconfig(text: str) -> str:
    if text == IN_CLUSTER:
        return text
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise ValueError(f"must be a kubeconfig file or {IN_CLUSTER!r}; {text!r} is no file")
    return str(path)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(item.strip() for item in text.split(",") if item.strip())
    for host in hosts:
        if host == "*" or "/" in host:
            raise ValueError(f"must be host names separated by commas, not {host!r}")
    return hosts


_MAIL_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_MAIL_SECURITY: Final = {"smtp": "", "smtp+starttls": "starttls", "smtps": "tls"}


def _mail_url(text: str) -> MailServer:
    """`smtp://`, `smtp+starttls://` or `smtps://USER:PASSWORD@HOST:PORT`; a password goes over TLS alone."""
    expected = "must be smtp://HOST:PORT, or smtp+starttls:// or smtps://USER:PASSWORD@HOST:PORT (the value is not shown)"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(expected) from None
    if parts.scheme not in _MAIL_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(expected)
    if parts.password and parts.scheme == "smtp":
        raise ValueError("must not send a password in the clear: use smtp+starttls:// or smtps://")
    return MailServer(
        host=parts.hostname,
        port=port or _MAIL_PORTS[parts.scheme],
        security=_MAIL_SECURITY[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _mail_address(text: str) -> str:
    if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", text):
        raise ValueError(f"must be a mail address such as portal@example.org, not {text!r}")
    return text


def _any_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks that are not the whole world."""
    return _networks(text, every="every address, public or not, would be allowed")


def _networks(
    text: str, every: str = "every client could then say that it is another"
) -> tuple[IPv4Network | IPv6Network, ...]:
    networks = []
    for item in filter(None, map(str.strip, text.split(","))):
        try:
            network = ip_network(item)
        except ValueError:
            raise ValueError(
                f"must be addresses or networks such as 10.0.0.0/8, by commas, not {item!r}"
            ) from None
        if network.prefixlen == 0:
            raise ValueError(f"must not be {item}: {every}")
        networks.append(network)
    return tuple(networks)


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"must be an http:// or https:// URL, not {text!r}")
    return text.rstrip("/")


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 12 and least <= int(text) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return parse


def _origin(text: str) -> str:
    url = _http_url(text)
    parts = urlsplit(url)
    if parts.path or parts.query or parts.fragment or parts.username:
        raise ValueError(f"must be scheme, host and port alone, without a path, not {text!r}")
    return url


def _folder(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ValueError(f"must be a folder; {text!r} is a file")
    return path
