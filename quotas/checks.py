"""Who may decide about quotas, and which values a limit may have."""

from __future__ import annotations

from collections.abc import Mapping

from foundation.errors import Invalid, NotAllowed
from teams.actors import Actor
from teams.models import Team
from teams.permissions import check_can_manage, check_can_submit, check_global_role, has_global_role
from workloads.models import CapacityType

NOMINAL_MAX = 1_000_000
TIME_LIMIT_MAX = 10 * 366 * 86_400
LIMITS = ("nominal", "borrowing_limit", "lending_limit", "user_limit", "max_time_limit_seconds")


def is_system(actor: Actor) -> bool:
    """Whether it is a part of the portal, and no person."""
    return actor.user is None and actor.label.startswith("system:")


def check_manager(actor: Actor) -> None:
    """Raises NotAllowed unless it is a quota manager, a platform admin or a part of the portal."""
    if not is_system(actor):
        check_global_role(actor.user, "quota-manager")


def check_manager_or_lead(actor: Actor, team: Team) -> None:
    """Raises NotFound for a stranger, NotAllowed for a user who is neither a quota manager nor a lead of the team."""
    if is_system(actor) or has_global_role(actor.user, "quota-manager"):
        return
    if actor.user is None:
        raise NotAllowed("Only a lead of the team or a quota manager may do this.", code="role_missing")
    check_can_manage(actor.user, team)


def check_may_ask(user: object, team: Team) -> None:
    """Raises NotFound for a stranger, NotAllowed for a viewer; a quota manager may ask for every team, and so give for a time."""
    if not has_global_role(user, "quota-manager"):
        check_can_submit(user, team)


def check_reason(reason: str) -> None:
    """Raises Invalid for a blank one."""
    if not reason.strip():
        raise Invalid.of_field("reason", "Say why; it is kept with the change.", code="required")


def check_capacity_type(capacity_type: str) -> None:
    """Raises Invalid for an unknown one."""
    if capacity_type not in CapacityType.values:
        message = f"A capacity type is one of {', '.join(CapacityType.values)}."
        raise Invalid.of_field("capacity", message, code="invalid_choice")


def check_limits(limits: Mapping[str, int | None], known: tuple[str, ...] = LIMITS) -> None:
    """Raises Invalid, naming the field, for a limit that is unknown, no whole number or out of range."""
    for name, value in limits.items():
        if name not in known:
            raise Invalid.of_field(name, f"Limits are {', '.join(known)}.", code="unknown_field")
        if value is None and name != "nominal":
            continue
        seconds = name == "max_time_limit_seconds"
        check_whole(name, value, least=int(seconds), most=TIME_LIMIT_MAX if seconds else NOMINAL_MAX)


def check_whole(name: str, value: object, *, least: int, most: int) -> None:
    """Raises Invalid unless the value is a whole number in this range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid.of_field(name, f"Choose a whole number from {least} to {most}.", code="out_of_range")
