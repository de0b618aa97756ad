"""Secrets that let people and programs in: API tokens and one-time links. Imported through teams.services."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.db.utils import IntegrityError

from foundation.errors import Conflict, Invalid
from teams import tokens
from teams.actors import Actor
from teams.audit import record_audit
from teams.errors import LinkUnusable
from teams.models import ApiToken, Membership, SignInLink, Team, User
from teams.permissions import hold_open

TOKEN_DAYS_DEFAULT = 90
TOKEN_DAYS_MAX = 365
LIVE_TOKENS_MAX = 100
LINK_MINUTES_DEFAULT = 60
LAST_USED_EVERY = timedelta(minutes=1)
LINK_GONE = "This sign-in link was used before, has expired, or never existed. Ask for a new one."


@transaction.atomic
def create_token(
    *,
    actor: Actor,
    user: User,
    name: str,
    scopes: Sequence[str],
    now: datetime,
    team: Team | None = None,
    expires_in_days: int = TOKEN_DAYS_DEFAULT,
    plain: str | None = None,
    made_with: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """A new token of `user` and its text, which exists nowhere else from then on.

    With `team` it sees that team only. `plain` brings a text along (bootstrap). `made_with` is the token that asked for it,
    which it does not outlive. Raises Invalid for unknown
    scopes, a team that the user is no member of, more than 365 days, a malformed text; Conflict above 100
    live tokens or when the text is in use, TeamClosed for a team that takes nothing new.
    """
    _check_token(user=user, team=team, name=name, scopes=scopes, days=expires_in_days)
    if team is not None:
        hold_open(team)
    User.objects.select_for_update().get(pk=user.pk)  # counts and creates one after the other
    live = ApiToken.objects.filter(user=user, revoked_at__isnull=True, expires_at__gt=now).count()
    if live >= LIVE_TOKENS_MAX:
        raise Conflict(f"{LIVE_TOKENS_MAX} live tokens are the most; revoke some.", code="too_many_tokens")
    text = plain or tokens.new_token()
    _check_text(text)
    token = ApiToken(
        user=user,
        team=team,
        name=name.strip(),
        prefix=tokens.shown_prefix(text),
        digest=tokens.digest(text),
        scopes=_ordered(scopes),
        created_at=now,
        expires_at=min(
            [now + timedelta(days=expires_in_days), *([made_with.expires_at] if made_with else [])]
        ),
        made_with=made_with,
    )
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict("This token exists already.", code="token_taken") from error
    after = {name: getattr(token, name) for name in ("name", "prefix", "scopes", "expires_at")}
    record_audit(
        actor=actor,
        action="token.create",
        target_kind="token",
        target_id=token.public_id,
        team=team,
        after={**after, "user": user.username},
        now=now,
    )
    return token, text


def _check_text(text: str) -> None:
    if not tokens.is_well_formed(text):
        message = (
            "Bring 16 to 200 letters, digits or -._~+/=. What begins with mlp_ is one that the portal has made "
            "(`manage.py token --new`) and ends with a checksum; what begins with mlr_ or mle_ is refused."
        )
        raise Invalid.of_field("token", message, code="malformed_token")


@transaction.atomic
def revoke_token(*, actor: Actor, token: ApiToken, now: datetime) -> ApiToken:
    """The token, which opens nothing from now on, nor do those that were made with it. Revoking twice changes nothing."""
    locked = ApiToken.objects.select_for_update(of=("self",)).select_related("user", "team").get(pk=token.pk)
    if locked.revoked_at is not None:
        return locked
    locked.revoked_at, locked.revoked_by = now, actor.user
    locked.save(update_fields=["revoked_at", "revoked_by"])
    for made in ApiToken.objects.filter(made_with=locked, revoked_at__isnull=True):
        revoke_token(actor=actor, token=made, now=now)
    record_audit(
        actor=actor,
        action="token.revoke",
        target_kind="token",
        target_id=locked.public_id,
        team=locked.team,
        before={"name": locked.name, "prefix": locked.prefix, "user": locked.user.username},
        now=now,
    )
    return locked


@transaction.atomic
def create_sign_in_link(
    *, actor: Actor, user: User, now: datetime, expires_in_minutes: int = LINK_MINUTES_DEFAULT
) -> str:
    """The secret of a link that signs `user` in once: `/sign-in/link/<secret>/`."""
    plain = tokens.new_link_secret()
    link = SignInLink.objects.create(
        digest=tokens.digest(plain),
        user=user,
        created_at=now,
        expires_at=now + timedelta(minutes=expires_in_minutes),
    )
    record_audit(
        actor=actor,
        action="sign-in-link.create",
        target_kind="user",
        target_id=user.public_id,
        after={"username": user.username, "expires_at": link.expires_at},
        now=now,
    )
    return plain


def usable_sign_in_link(*, plain: str, now: datetime) -> SignInLink:
    """The link, untouched. Raises LinkUnusable."""
    links = SignInLink.objects.select_related("user").filter(digest=tokens.digest(plain))
    link = links.filter(used_at__isnull=True, expires_at__gt=now, user__is_active=True).first()
    if link is None:
        raise LinkUnusable(LINK_GONE)
    return link


@transaction.atomic
def redeem_sign_in_link(*, actor: Actor, plain: str, now: datetime) -> User:
    """Use the link up and return its user. If two redeem it at once, one succeeds; raises LinkUnusable."""
    link = usable_sign_in_link(plain=plain, now=now)
    if SignInLink.objects.filter(pk=link.pk, used_at__isnull=True).update(used_at=now) != 1:
        raise LinkUnusable(LINK_GONE)
    person = replace(actor, user=link.user, label=link.user.get_username())
    record_audit(
        actor=person,
        action="sign-in-link.redeem",
        target_kind="user",
        target_id=link.user.public_id,
        target_name=link.user.username,
        now=now,
    )
    return link.user


def purge_sign_in_links(*, now: datetime) -> int:
    """Delete links that are used or expired; returns how many."""
    deleted, _ = SignInLink.objects.filter(Q(used_at__isnull=False) | Q(expires_at__lte=now)).delete()
    return deleted


def _check_token(*, user: User, team: Team | None, name: str, scopes: Sequence[str], days: int) -> None:
    if not name.strip() or len(name.strip()) > 100:
        raise Invalid.of_field("name", "A token needs a name of at most 100 characters.")
    unknown = sorted(set(scopes) - set(ApiToken.Scope.values))
    if unknown or not scopes:
        message = f"Scopes are one or more of {', '.join(ApiToken.Scope.values)}."
        raise Invalid.of_field("scopes", message, code="invalid_choice")
    if not 1 <= days <= TOKEN_DAYS_MAX:
        raise Invalid.of_field("expires_in_days", f"From 1 to {TOKEN_DAYS_MAX} days.", code="out_of_range")
    if team is not None and not Membership.objects.filter(user=user, team=team).exists():
        message = f"{user.username} is no member of team {team.slug}."
        raise Invalid.of_field("team", message, code="not_a_member")


def _ordered(scopes: Sequence[str]) -> list[str]:
    return [scope for scope in ApiToken.Scope.values if scope in scopes]


def find_live_token(plain: str, *, now: datetime) -> ApiToken | None:
    """The token, with its user, if it opens anything at `now`: not expired, not revoked, its user active."""
    if not tokens.is_well_formed(plain):
        return None
    return next(iter(find_live_tokens({tokens.digest(plain)}, now=now)), None)


def find_live_tokens(digests: Collection[str], *, now: datetime) -> list[ApiToken]:
    """The tokens among them that open anything at `now`, with their users; it counts as their use."""
    rows = ApiToken.objects.select_related("user").filter(digest__in=digests)
    live = [token for token in rows if token.is_live(now) and token.user.is_active]
    _note_use(live, now=now)
    return live


def _note_use(used: Sequence[ApiToken], *, now: datetime) -> None:
    stale = now - LAST_USED_EVERY
    unnoted = [token.pk for token in used if token.last_used_at is None or token.last_used_at <= stale]
    if unnoted:
        rows = ApiToken.objects.filter(Q(last_used_at__isnull=True) | Q(last_used_at__lte=stale))
        rows.filter(pk__in=unnoted).update(last_used_at=now)
