"""People for tests, made by the services that make them in earnest."""

from __future__ import annotations

from itertools import count
from typing import Any

from rest_framework.test import APIClient

from foundation import clock
from teams import services
from teams.actors import Actor
from teams.models import Membership, Team, User

PASSWORD = "correct horse battery staple"
_numbers = count(1)
ACTOR = Actor.system("tests")


def make_user(username: str | None = None, *, password: str | None = PASSWORD, **roles: bool) -> User:
    """A user; `quota_manager=True` and `platform_admin=True` give the global roles."""
    name = username or f"user{next(_numbers)}"
    return services.create_user(actor=ACTOR, username=name, password=password, now=clock.now(), **roles)


def make_team(slug: str | None = None, **values: Any) -> Team:
    """A team; its name is the slug's unless given."""
    slug = slug or f"team{next(_numbers)}"
    values.setdefault("name", slug.capitalize())
    return services.create_team(actor=ACTOR, slug=slug, now=clock.now(), **values)


def make_member(role: str = "member", *, team: Team | None = None, user: User | None = None) -> Membership:
    """A membership of `role`, with a new team and a new user unless given."""
    team, user = team or make_team(), user or make_user()
    return services.add_member(actor=ACTOR, team=team, user=user, role=role, now=clock.now())


def make_token(user: User, *, scopes: tuple[str, ...] = ("read", "submit", "manage"), **values: Any) -> str:
    """The text of a new token of `user`."""
    values.setdefault("name", "tests")
    values.setdefault("now", clock.now())
    _, plain = services.create_token(actor=Actor.of_user(user), user=user, scopes=scopes, **values)
    return plain


def api_client(user: User | None = None, **token: Any) -> APIClient:
    """A client with a bearer token of `user`; without a user, an anonymous one."""
    client = APIClient()
    if user is not None:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user, **token)}")
    return client
