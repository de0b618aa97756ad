"""Who causes a change, and through what: a person, their token, or a part of the portal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from foundation.http.context import client_ip, request_id_of
from teams.models import ApiToken, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """`user` is None for the portal itself; `label` is what people read, and outlives a renamed user."""

    user: User | None
    label: str
    token: ApiToken | None = None
    ip: str | None = None
    request_id: str | None = None

    @classmethod
    def system(cls, part: str) -> Self:
        """A part of the portal, such as `reconciler`."""
        return cls(user=None, label=f"system:{part}")

    @classmethod
    def of_user(cls, user: User) -> Self:
        """A person outside any request: a management command, a test."""
        return cls(user=user, label=user.get_username())


def actor_of(request: Any) -> Actor:
    """The actor behind a Django or DRF request; the label is `anonymous` when no user is signed in."""
    user = request.user if isinstance(request.user, User) else None
    token = getattr(request, "auth", None)
    return Actor(
        user=user,
        label=user.get_username() if user else "anonymous",
        token=token if isinstance(token, ApiToken) else None,
        ip=client_ip(request),
        request_id=request_id_of(request),
    )
