from __future__ import annotations

from foundation.errors import Conflict, PortalError


class AlreadyMember(Conflict):
    code = "already_member"


class TeamInUse(Conflict):
    code = "team_in_use"


class TeamClosed(Conflict):
    """The team is closed, or being closed: it takes nothing new."""

    code = "team_closed"


class LinkUnusable(PortalError):
    """A one-time sign-in link that is unknown, used, expired, or whose user is inactive."""

    status = 410
    code = "link_unusable"
    title = "This link no longer works"
