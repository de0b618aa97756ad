"""What may pass through the service proxy, decided without touching a network. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from cluster.errors import ProxyFailed

Headers = tuple[tuple[str, str], ...]

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HIDDEN_SEPARATOR = re.compile(r"%2f|%5c|\\", re.IGNORECASE)
_QUERY = re.compile(r"[\x21-\x7e]*")
_METHOD = re.compile(r"[A-Z]{1,20}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

# The API server's own refusals are small Status documents; anything longer is the service's answer.
LARGEST_STATUS: Final = 16 * 1024
_HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "trailers", "transfer-encoding", "upgrade", "expect",
})  # fmt: skip
# Authorization is replaced by the portal's own; Impersonate-* would borrow its rights; the length is set anew.
_NOT_SENT: Final = frozenset({"authorization", "cookie", "host", "content-length", "forwarded", "x-real-ip"})
_NOT_SENT_PREFIXES: Final = ("x-forwarded-", "impersonate-", "x-remote-", "sec-websocket-")
# A service shares the gateway's origin with all others: it may set nothing there that outlives the answer. The date is
# said by the server that sends it.
_NOT_RETURNED: Final = frozenset({
    "date",
    "set-cookie", "set-cookie2", "clear-site-data", "strict-transport-security", "public-key-pins", "alt-svc",
    "service-worker-allowed", "audit-id",
})  # fmt: skip
_NOT_RETURNED_PREFIXES: Final = ("x-kubernetes-",)


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a service; the port is a number or a name (names only through the API server)."""

    namespace: str
    service: str
    port: int | str = 80

    def __post_init__(self) -> None:
        for part in (self.namespace, self.service, str(self.port)):
            if not _DNS_LABEL.fullmatch(part):
                raise ProxyFailed(f"{part[:80]!r} is not a service's name", status=502, reason="bad-target")

    @property
    def proxy_prefix(self) -> str:
        """The path of the service at the API server, to which the caller's path is appended."""
        return f"/api/v1/namespaces/{self.namespace}/services/{self.service}:{self.port}/proxy"

    @property
    def direct_prefix(self) -> str:
        """The URL of the service for a client inside the cluster."""
        return f"http://{self.service}.{self.namespace}.svc:{self.port}"


def safe_path(path: str, query: str = "") -> str:
    """The caller's raw path and query, fit to follow a prefix.

    Raises ProxyFailed (400) for whatever could climb out of the prefix: dot segments and slashes, plain or
    encoded.
    """
    segments = [unquote(segment, errors="surrogateescape") for segment in path.split("/")]
    if not path.startswith("/") or _HIDDEN_SEPARATOR.search(path) or "?" in path or "#" in path:
        raise _bad("the path must begin with / and may hold no encoded slash, backslash, ? or #")
    if any(segment in {".", ".."} for segment in segments) or any(map(_has_control, segments)):
        raise _bad("the path may hold no . or .. segment and no control character")
    if not _QUERY.fullmatch(query) or "#" in query:
        raise _bad("the query must be percent-encoded")
    # Quoted anew, so what was checked is what is sent.
    cleaned = "/".join(
        quote(segment, safe="!$&'()*+,;=:@~", errors="surrogateescape") for segment in segments
    )
    return f"{cleaned}?{query}" if query else cleaned


def safe_method(method: str) -> str:
    """The method in capitals. Raises ProxyFailed for one that would open a tunnel."""
    upper = method.upper()
    if not _METHOD.fullmatch(upper) or upper in {"CONNECT", "TRACE"}:
        raise _bad(f"the method {method[:20]!r} is not forwarded")
    return upper


def request_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """The caller's headers that go to the service."""
    pairs = tuple(headers)
    gone = _HOP_BY_HOP | _NOT_SENT | _named_by_connection(pairs)
    return tuple(
        (name, value)
        for name, value in pairs
        if name.lower() not in gone
        and not name.lower().startswith(_NOT_SENT_PREFIXES)
        and _TOKEN.fullmatch(name)
        and _VALUE.fullmatch(value)
    )


def response_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """The service's headers that go to the caller."""
    pairs = tuple(headers)
    gone = _HOP_BY_HOP | _NOT_RETURNED | _named_by_connection(pairs)
    return tuple(
        (name, value)
        for name, value in pairs
        if name.lower() not in gone and not name.lower().startswith(_NOT_RETURNED_PREFIXES)
    )


def declared_length(headers: Iterable[tuple[str, str]]) -> int | None:
    """The Content-Length of a request. None if it is no number, or if the body is chunked, as that has priority."""
    fields = {name.lower(): value for name, value in headers}
    length = fields.get("content-length", "")
    if "transfer-encoding" in fields or not (length.isascii() and length.isdigit()):
        return None
    return int(length)


def refusal_in(body: bytes, status: int) -> ProxyFailed | None:
    """What the API server refuses with this body; None for an answer of the service."""
    if status < 400 or len(body) > LARGEST_STATUS:
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return status_failure(document) if is_status(document, status) else None


def is_status(document: Any, status: int) -> bool:
    """Whether a decoded error body can be the API server's own: its code is always the answer's `status`.

    A service may write the same: an answer that came through the API server does not show whose it is.
    """
    return (
        isinstance(document, Mapping)
        and document.get("kind") == "Status"
        and document.get("apiVersion") == "v1"
        and document.get("status") == "Failure"
        and document.get("code") == status
    )


def status_failure(document: Mapping[str, Any]) -> ProxyFailed:
    """What the API server's own refusal means for the caller, who has nothing to do with the portal's
    rights.
    """
    code = int(document.get("code") or 500)
    message = str(document.get("message") or "")
    if code == 503 and "no endpoints" in message:
        return ProxyFailed("no replica is ready to answer", status=503, reason="no-endpoints", unsent=True)
    seconds = (document.get("details") or {}).get("retryAfterSeconds")
    status, reason, sentence = _STATUS_FAILURES.get(
        code, (502, "unreachable", "the service could not be reached")
    )
    return ProxyFailed(
        f"{sentence}: {message}" if code in {502, 503} and message else sentence,
        status=status,
        reason=reason,
        retry_after=float(seconds) if seconds else None,
        unsent=code == 401 or (code == 503 and any(words in message for words in _NEVER_CONNECTED)),
    )


# How Go words a connection that could not be made, as in "dial tcp 10.0.0.7:8080: connect: connection refused"; and how
# the API server says that the port of the Service has changed.
_NEVER_CONNECTED: Final = ("dial tcp", "no service port")

_STATUS_FAILURES: dict[int, tuple[int, str, str]] = {
    400: (502, "cluster-refused", "the cluster did not take the request"),
    401: (503, "cluster-credentials", "the cluster does not accept the portal's credentials"),
    403: (502, "cluster-refused", "the portal may not use the services' proxy; see deploy/rbac.yaml"),
    404: (503, "no-service", "the endpoint has no service in the cluster"),
    429: (503, "cluster-busy", "the cluster is busy"),
    503: (503, "unreachable", "the service could not be reached"),
    504: (504, "timeout", "the service did not answer in time"),
}


def too_large(what: str, limit: int) -> ProxyFailed:
    """The failure for a request (413) or a response (502) beyond its limit of bytes."""
    status = 413 if what == "request" else 502
    return ProxyFailed(f"the {what} is larger than {limit} bytes", status=status, reason=f"{what}-too-large")


def _bad(message: str) -> ProxyFailed:
    return ProxyFailed(message, status=400, reason="bad-request")


def _has_control(text: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in text)


def _named_by_connection(pairs: Headers) -> frozenset[str]:
    return frozenset(
        token.strip().lower()
        for name, value in pairs
        if name.lower() == "connection"
        for token in value.split(",")
    )
