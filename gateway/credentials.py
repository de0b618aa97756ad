"""Tokens that call one endpoint through the gateway and open nothing else. Imported through gateway.services."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from foundation.errors import Conflict, Invalid, NotAllowed
from gateway.models import EndpointToken
from teams import tokens
from teams.actors import Actor
from teams.audit import record_audit
from teams.permissions import check_can_submit, check_open
from workloads.models import Workload

NAME_LENGTH_MAX: Final = 100
TOKEN_DAYS_DEFAULT: Final = 90
TOKEN_DAYS_MAX: Final = 365
LIVE_TOKENS_MAX: Final = 50
USE_NOTED_EVERY: Final = timedelta(minutes=1)


@transaction.atomic
def create_endpoint_token(
    *, actor: Actor, endpoint: Workload, name: str, expires_in_days: int, now: datetime
) -> tuple[EndpointToken, str]:
    """A new token of the endpoint and its text, which exists nowhere else from then on.

    Raises NotFound for a stranger, NotAllowed for a viewer, Conflict for an endpoint that is over or has 50 live
    tokens, TeamClosed where the team takes nothing new, Invalid for a name or a time that will not do.
    """
    if actor.user is None:
        raise NotAllowed("Only a user can make a token.")
    check_can_submit(actor.user, endpoint.team)
    check_open(endpoint.team)
    if not name.strip() or len(name.strip()) > NAME_LENGTH_MAX:
        raise Invalid.of_field("name", f"A token needs a name of at most {NAME_LENGTH_MAX} characters.")
    if not 1 <= expires_in_days <= TOKEN_DAYS_MAX:
        raise Invalid.of_field("expires_in_days", f"From 1 to {TOKEN_DAYS_MAX} days.", code="out_of_range")
    # Counts and creates one after the other.
    locked = Workload.objects.select_for_update(no_key=True).get(pk=endpoint.pk)
    if locked.is_final:
        raise Conflict(f"{endpoint.name} is over; nobody can call it.", code="ended")
    live = EndpointToken.objects.filter(endpoint=locked, revoked_at__isnull=True, expires_at__gt=now).count()
    if live >= LIVE_TOKENS_MAX:
        raise Conflict(f"{LIVE_TOKENS_MAX} live tokens are the most; revoke some.", code="too_many_tokens")
    text = tokens.new_token(tokens.ENDPOINT_TOKEN_PREFIX)
    token = EndpointToken.objects.create(
        endpoint=endpoint,
        name=name.strip(),
        prefix=tokens.shown_prefix(text),
        digest=tokens.digest(text),
        created_by=actor.user,
        created_at=now,
        expires_at=now + timedelta(days=expires_in_days),
    )
    _audit(token, "endpoint-token.create", actor, now, expires_at=token.expires_at.isoformat())
    return token, text


@transaction.atomic
def revoke_endpoint_token(*, actor: Actor, token: EndpointToken, now: datetime) -> EndpointToken:
    """The token, which opens nothing from now on. Revoking twice changes nothing.

    Raises NotFound for a stranger, NotAllowed for a viewer.
    """
    tokens = EndpointToken.objects.select_for_update(of=("self",)).select_related("endpoint__team")
    locked = tokens.get(pk=token.pk)
    check_can_submit(actor.user, locked.endpoint.team)
    if locked.revoked_at is None:
        locked.revoked_at, locked.revoked_by = now, actor.user
        locked.save(update_fields=["revoked_at", "revoked_by"])
        _audit(locked, "endpoint-token.revoke", actor, now)
    return locked


def find_live_endpoint_tokens(digests: Collection[str], *, now: datetime) -> list[EndpointToken]:
    """Those of them that open anything at `now`, with their endpoints and teams; it counts as their use."""
    rows = EndpointToken.objects.with_makers().filter(digest__in=digests)
    live = [token for token in rows if token.end_at(now) is None]
    stale = now - USE_NOTED_EVERY
    unnoted = [token.pk for token in live if token.last_used_at is None or token.last_used_at <= stale]
    if unnoted:
        rows = EndpointToken.objects.filter(Q(last_used_at__isnull=True) | Q(last_used_at__lte=stale))
        rows.filter(pk__in=unnoted).update(last_used_at=now)
    return live


def _audit(token: EndpointToken, action: str, actor: Actor, now: datetime, **more: str) -> None:
    endpoint = token.endpoint
    record_audit(
        actor=actor,
        action=action,
        target_kind="endpoint-token",
        target_id=str(token.public_id),
        team=endpoint.team,
        after={"endpoint": str(endpoint.public_id), "name": token.name, "prefix": token.prefix, **more},
        now=now,
    )
