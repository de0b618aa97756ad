"""What can go wrong between the portal and a cluster, sorted by what the caller should do about it.

Unavailable: try again later. Conflict: read again, then decide. Rejected: show the server's message; `permanent`
says whether the same request may be taken another time. Not found: it is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Causes = tuple[tuple[str, str], ...]

UNAUTHORIZED = (
    "the cluster does not accept the portal's credentials (401 Unauthorized); "
    "check the kubeconfig, its token, or the service account"
)

_BAD_REQUEST = 400
_OF_THE_REQUEST = frozenset({0, 422})
_DENIED_BY_WEBHOOK = re.compile(r"admission webhook .* denied the request", re.DOTALL)


class ClusterError(Exception):
    """Base of all errors of this package; `str()` is a sentence that a person may read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnknownCluster(LookupError):
    """No cluster of that name is configured. Not a ClusterError: no server was asked, and waiting does not help."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"no cluster named {cluster!r} is configured")
        self.cluster = cluster


class ClusterUnavailable(ClusterError):
    """The API server could not be reached, is overloaded, or answered with a fault of its own.

    `retry_after` is in seconds and given only where the server asked for it. `outcome_unknown` is true if the
    request may have taken effect although no answer came: read by name before repeating it.
    """

    def __init__(
        self, message: str, *, retry_after: float | None = None, outcome_unknown: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.outcome_unknown = outcome_unknown


class ClusterConflict(ClusterError):
    """What the caller believed about the object is not so (HTTP 409): read it again."""


class AlreadyExists(ClusterConflict):
    """An object of this name is there already."""


class ForeignObject(ClusterConflict):
    """An object of this name is there already, and it belongs to someone else."""


class ClusterExpired(ClusterConflict):
    """The resource version or continue token is too old (HTTP 410): list again."""


class ClusterRejected(ClusterError):
    """The server does not take this request: invalid, forbidden, denied, or not served.

    `causes` are the server's (field, message) pairs; `status` is the HTTP status it sent, 0 if the portal
    itself refused to send the request.
    """

    def __init__(self, message: str, *, causes: Causes = (), status: int = 0) -> None:
        super().__init__(message)
        self.causes = causes
        self.status = status

    @property
    def permanent(self) -> bool:
        """Whether the request itself is at fault, so that waiting does not help.

        A right, a quota and a policy may change within a minute: what they forbid is asked for again. A webhook
        that gives its denial no status of its own is passed on as 400.
        """
        if self.status == _BAD_REQUEST:
            return _DENIED_BY_WEBHOOK.search(self.message) is None
        return self.status in _OF_THE_REQUEST


class ObjectNotFound(ClusterError):
    """There is no such object, or no such kind."""


class ProxyFailed(ClusterError):
    """A request through the service proxy got no answer from the service.

    `status` is the HTTP status for the caller (413, 429, 502, 503 or 504), `reason` a stable short word such
    as `no-endpoints`, `timeout`, `request-too-large`. `unsent` says that nothing of it has reached the service, so
    that it may be sent again whatever it asks for.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str,
        retry_after: float | None = None,
        unsent: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.unsent = unsent


def error_of(
    *, status: int, document: Mapping[str, Any], retry_after: float | None, changing: bool
) -> ClusterError:
    """The error for an HTTP answer >= 400.

    `document` is the decoded Status object, or empty if the body was none. `changing` says that the request
    would have changed something, so that a fault of the server leaves the outcome unknown.
    """
    message = str(document.get("message") or f"the cluster answered HTTP {status}")
    if status == 401:
        return ClusterUnavailable(UNAUTHORIZED)
    if status == 429:
        return ClusterUnavailable(message, retry_after=retry_after)
    if status >= 500 and status != 501:
        return ClusterUnavailable(message, retry_after=retry_after, outcome_unknown=changing)
    if status == 409 and document.get("reason") == "AlreadyExists":
        return AlreadyExists(message)
    plain = _BY_STATUS.get(status)
    return plain(message) if plain else ClusterRejected(message, causes=_causes(document), status=status)


_BY_STATUS: dict[int, type[ClusterError]] = {404: ObjectNotFound, 409: ClusterConflict, 410: ClusterExpired}


def _causes(document: Mapping[str, Any]) -> Causes:
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    if not isinstance(causes, Sequence):
        return ()
    return tuple(
        (str(cause.get("field", "")), str(cause.get("message", "")))
        for cause in causes
        if isinstance(cause, Mapping)
    )
