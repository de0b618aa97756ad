"""Letting somebody in, or not: guesses are counted, and what came of it is in the audit trail and in the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.contrib.auth import authenticate
from django.utils.crypto import salted_hmac

from foundation import clock
from foundation.errors import Invalid, RateLimited
from foundation.http.context import client_ip
from teams import credentials, services
from teams.actors import Actor, actor_of
from teams.audit import audit_event
from teams.devices import device_of
from teams.errors import LinkUnusable
from teams.models import User
from teams.throttle import address_of, count_attempt, count_bad_link, count_change
from teams.trail.sums import INVENTED, note

log = logging.getLogger(__name__)

SIGN_INS_EACH = 20
"""So many of one user from one address in an hour are rows of their own."""
NAME_SHOWN_MAX = 150
_LETTERS_SHOWN = 3
_LINES = {"sign-in.fail": "sign_in.failed", "sign-in.refuse": "sign_in.refused"}


class Way(StrEnum):
    """How somebody signs in."""

    PASSWORD = "password"  # noqa: S105 - the name of a way
    EXCHANGE = "exchange"
    LINK = "link"
    CHANGE = "password-change"


def with_password(request: Any, *, username: str, password: str, way: Way) -> User | None:
    """The user whom the name and the password let in; None where they do not fit together. Raises RateLimited.

    What it asks of the database and of the hash is the same for a name that is there and for one that is not.
    """
    named = User.objects.filter(username=username).first()
    tried = _Tried(_origin(request), username, named, way)
    try:
        attempt = count_attempt(username=username, ip=client_ip(request), device=device_of(request, username))
    except RateLimited as error:
        tried.was_refused(error)
        raise
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        tried.has_failed()
        return None
    attempt.succeeded()
    _tell_signed_in(request, user, way)
    return user


def with_link(request: Any, *, plain: str) -> User:
    """The user of the link, which is used up. Raises LinkUnusable, and RateLimited where there were too many of those."""
    tried = _Tried(_origin(request), "", None, Way.LINK)
    try:
        user = credentials.redeem_sign_in_link(actor=actor_of(request), plain=plain, now=clock.now())
    except LinkUnusable:
        try:
            count_bad_link(ip=client_ip(request))
        except RateLimited as error:
            tried.was_refused(error)
            raise
        tried.has_failed()
        raise
    _tell_signed_in(request, user, Way.LINK)
    return user


def change_password(request: Any, *, old: str, new: str) -> User:
    """The user of the request with a new password. Raises Invalid for a wrong `old` or a weak `new`, RateLimited."""
    actor, user = actor_of(request), request.user
    tried = _Tried(actor, user.get_username(), user, Way.CHANGE)
    try:
        attempt = count_change(username=user.get_username(), ip=client_ip(request))
    except RateLimited as error:
        tried.was_refused(error)
        raise
    if not user.check_password(old):
        tried.has_failed()
        raise Invalid.of_field("old_password", "This is not your password.")
    attempt.succeeded()
    return services.set_password(actor=actor, user=user, password=new, now=clock.now())


def _tell_signed_in(request: Any, user: User, way: Way) -> None:
    now, origin = clock.now(), _origin(request)
    actor = Actor(user=user, label=user.get_username(), ip=origin.ip, request_id=origin.request_id)
    event = audit_event(
        actor=actor,
        action="sign-in.succeed",
        target_kind="user",
        target_id=user.public_id,
        target_name=user.get_username(),
        after={"way": way},
        now=now,
    )
    note(event, same=(user.pk, address_of(origin.ip), way), now=now, each=SIGN_INS_EACH)
    log.info(
        "sign_in.succeeded", extra={"account": user.get_username(), "address": origin.ip, "way": str(way)}
    )


def shown_account(typed: str, *, is_known: bool) -> str:
    """What was typed as a name, as the trail and the log may have it: whole where it is one, else its beginning.

    What is no name may be a password, typed into the wrong field: of that at most three letters are kept, and no more
    than a quarter.
    """
    typed = typed[:NAME_SHOWN_MAX]
    if is_known or not typed:
        return typed
    return f"{typed[: min(_LETTERS_SHOWN, len(typed) // 4)]}…"


@dataclass(frozen=True, slots=True)
class _Tried:
    """Somebody who tries to get in, as the trail and the log tell of them."""

    origin: Actor
    typed: str
    named: User | None
    way: Way

    def has_failed(self) -> None:
        self._tell("sign-in.fail")

    def was_refused(self, error: RateLimited) -> None:
        self._tell("sign-in.refuse", retry_after_seconds=error.retry_after_seconds)

    def _tell(self, action: str, **more: Any) -> None:
        now, mark = clock.now(), _mark(self.typed)
        account = shown_account(self.typed, is_known=self.named is not None)
        facts = {"account": account, "way": str(self.way), **more}
        event = audit_event(
            actor=self.origin,
            action=action,
            target_kind="user",
            target_id=self.named.public_id if self.named else mark,
            target_name=account,
            after=facts,
            now=now,
        )
        times = note(event, same=(mark, address_of(self.origin.ip), self.way), now=now)
        log.warning(_LINES[action], extra={**facts, "address": self.origin.ip, "times": times})


def _origin(request: Any) -> Actor:
    """Where it came from; who it was is what the sign-in is about."""
    made = actor_of(request)
    return Actor(user=None, label="anonymous", ip=made.ip, request_id=made.request_id)


def _mark(typed: str) -> str:
    """The same for the same name, and nothing that the name could be found by without the portal's key."""
    return f"{INVENTED}{salted_hmac('portal.account', typed, algorithm='sha256').hexdigest()[:12]}"
