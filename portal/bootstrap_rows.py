"""The sections of a bootstrap file, row by row: each compares with what there is and calls the service that changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from budgets.serializers import budget_values
from budgets.services import change_budget, create_budget
from budgets.standings import budget_of
from costs.models import Budget
from costs.prices.services import set_price
from foundation.errors import Invalid
from foundation.http.serializers import StrictSerializer
from jobs.catalogue import set_template
from jobs.template_serializers import TemplateWriteSerializer
from portal.bootstrap_serializers import (
    BudgetSection,
    CohortSection,
    MembershipSection,
    PriceSection,
    QuotaSection,
    TeamSection,
    TemplateSection,
    TokenSection,
    UserSection,
)
from portal.settings import env
from quotas.limits import LIMITS, create_cohort, limits_of, move_cohort, set_limits, set_policy
from quotas.models import Cohort, Quota
from quotas.queries import policy_of
from teams import credentials, services
from teams.actors import Actor
from teams.models import ApiToken, Membership, Team, User
from teams.tokens import digest
from workloads.catalogue import set_flavor
from workloads.models import ResourceFlavor
from workloads.placement import Sharing
from workloads.serializers import FlavorWriteSerializer

ACTOR = Actor.system("bootstrap")
Apply = Callable[[Any, datetime], bool]
"""Make one item of a section true; returns whether anything was different. Raises Invalid, ValidationError."""


def parents_first(items: list[Any]) -> list[tuple[int, Any]]:
    """Cohorts with their places in the file, in an order in which each one's parent is there before it.

    What is in a cycle, or no cohort at all, comes last and is refused when it is read.
    """
    left, ordered = dict(enumerate(items)), []
    while left:
        waiting = {_text_of(item, "name") for item in left.values()} - {None}
        free = [place for place, item in left.items() if _text_of(item, "parent") not in waiting]
        ordered += [(place, left.pop(place)) for place in free or list(left)]
    return ordered


def _text_of(item: Any, key: str) -> str | None:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None


def _read(serializer: type[StrictSerializer], item: Any) -> dict[str, Any]:
    body = serializer(data=item)
    body.is_valid(raise_exception=True)
    values: dict[str, Any] = body.validated_data
    return values


def _cohort(item: Any, now: datetime) -> bool:
    values = _read(CohortSection, item)
    parent = _find(Cohort, "parent", name=values["parent"]) if values.get("parent") else None
    cohort = Cohort.objects.filter(name=values["name"]).first()
    if cohort is None:
        create_cohort(name=values["name"], parent=parent, actor=ACTOR, now=now)
        return True
    if "parent" not in values or cohort.parent == parent:
        return False
    move_cohort(cohort=cohort, parent=parent, actor=ACTOR, now=now)
    return True


def _team(item: Any, now: datetime) -> bool:
    values = _read(TeamSection, item)
    plain = ("name", "pod_security", "mlflow_tracking_uri", *services.WORKLOAD_POLICY)
    facts: dict[str, Any] = {name: values[name] for name in plain if name in values}
    if "cohort" in values:
        facts["cohort_name"] = values["cohort"] or ""
    team = Team.objects.filter(slug=values["slug"]).first()
    changed = team is None
    if team is None:
        new = {"name": values["slug"], "namespace": values.get("namespace")} | facts
        team = services.create_team(actor=ACTOR, slug=values["slug"], now=now, **new)
    elif any(getattr(team, name) != value for name, value in facts.items()):
        team = services.update_team(actor=ACTOR, team=team, changes=facts, now=now)
        changed = True
    return _policy(team, values.get("policy", {}), now) or changed


def _policy(team: Team, wanted: Mapping[str, Any], now: datetime) -> bool:
    policy = policy_of(team)
    changes = {name: value for name, value in wanted.items() if getattr(policy, name) != value}
    if changes:
        set_policy(team=team, changes=changes, actor=ACTOR, now=now)
    return bool(changes)


def _user(item: Any, now: datetime) -> bool:
    values = _read(UserSection, item)
    quota_manager, platform_admin = (role in values["roles"] for role in ("quota-manager", "platform-admin"))
    user = User.objects.filter(username=values["username"]).first()
    changed = user is None
    if user is None:
        user = services.create_user(
            actor=ACTOR,
            username=values["username"],
            quota_manager=quota_manager,
            platform_admin=platform_admin,
            now=now,
        )
    elif (user.is_quota_manager, user.is_platform_admin) != (quota_manager, platform_admin):
        services.set_global_roles(
            actor=ACTOR, user=user, quota_manager=quota_manager, platform_admin=platform_admin, now=now
        )
        changed = True
    password = _secret(values.get("password_env"), "password_env")
    if password is not None and not user.check_password(password):
        services.set_password(actor=ACTOR, user=user, password=password, now=now, validate=False)
        changed = True
    return changed


def _membership(item: Any, now: datetime) -> bool:
    values = _read(MembershipSection, item)
    team, user = _find(Team, "team", slug=values["team"]), _find(User, "user", username=values["user"])
    membership = Membership.objects.filter(team=team, user=user).first()
    if membership is None:
        services.add_member(actor=ACTOR, team=team, user=user, role=values["role"], now=now)
        return True
    if membership.role == values["role"]:
        return False
    services.change_role(actor=ACTOR, membership=membership, role=values["role"], now=now)
    return True


def _token(item: Any, now: datetime) -> bool:
    values = _read(TokenSection, item)
    user = _find(User, "user", username=values["user"])
    plain = _secret(values["token_env"], "token_env")
    if plain is None or ApiToken.objects.filter(digest=digest(plain)).exists():
        return False
    credentials.create_token(
        actor=ACTOR, user=user, name=values["name"], scopes=values["scopes"], plain=plain, now=now
    )
    return True


def _flavor(item: Any, now: datetime) -> bool:
    return set_flavor(**_read(FlavorWriteSerializer, item), actor=ACTOR, now=now)[1]


def _quota(item: Any, now: datetime) -> bool:
    values = _read(QuotaSection, item)
    key = {
        "team": _find(Team, "team", slug=values["team"]),
        "flavor": _find(ResourceFlavor, "flavor", name=values["flavor"]),
        "capacity_type": values["capacity"],
    }
    if key["team"].closing_since is not None:
        # Whoever closed it in the portal need not wait until the file says so too.
        return False
    quota = Quota.objects.filter(**key).first()
    before = limits_of(quota) if quota else None
    wanted = {name: values[name] for name in LIMITS if name in values}
    # Compared afterwards: a lower nominal quota takes the lending limit down with it.
    return before != limits_of(
        set_limits(**key, limits=wanted, reason=values["reason"], actor=ACTOR, now=now)
    )


def _price(item: Any, now: datetime) -> bool:
    values = _read(PriceSection, item)
    price = set_price(
        card=values["card"],
        capacity_type=values["capacity"],
        micro_usd_per_card_hour=values["micro_usd_per_card_hour"],
        valid_from=values["from"],
        reason=values["reason"],
        actor=ACTOR,
        now=now,
    )
    return price.created_at == now


def _budget(item: Any, now: datetime) -> bool:
    """The team's budget that holds now, or the next one where a fixed period is said to begin later."""
    read = _read(BudgetSection, item)
    team, values = _find(Team, "team", slug=read["team"]), budget_values(read)
    fixed = values["starts_at"] is not None
    known = Budget.objects.filter(team=team, starts_at=values["starts_at"]).first() if fixed else None
    budget = known or budget_of(team, now=now)
    if budget is None:
        create_budget(team=team, values=values, actor=ACTOR, now=now)
        return True
    return change_budget(budget=budget, changes=values, actor=ACTOR, now=now).changed_at == now


def _template(item: Any, now: datetime) -> bool:
    """One template; with `each_flavor`, one for every enabled flavor, named after it and held to it."""
    values = _read(TemplateSection, item)
    if not values.pop("each_flavor"):
        return set_template(**values, actor=ACTOR, now=now)[1]
    changed = [
        set_template(**_read(TemplateWriteSerializer, _of_flavor(values, flavor)), actor=ACTOR, now=now)[1]
        for flavor in ResourceFlavor.objects.filter(enabled=True)
    ]
    return any(changed)


def _of_flavor(values: Mapping[str, Any], flavor: ResourceFlavor) -> dict[str, Any]:
    shared = flavor.facts.sharing is not Sharing.NONE
    return {
        **values,
        "name": f"{values['name']}-{flavor.name}",
        "title": f"{values['title']}: {flavor.name}",
        "defaults": {**values["defaults"], "flavor": flavor.name, "capacity": min(flavor.capacity)},
        # One container has the use of one slice or share.
        "maximum": {**values["maximum"], **({"gpus_per_replica": 1} if shared else {})},
        "locked": [*values["locked"], "flavor"],
    }


def _find(model: Any, field: str, **key: Any) -> Any:
    row = model.objects.filter(**key).first()
    if row is None:
        name = " ".join(map(str, key.values()))
        raise Invalid.of_field(field, f"There is no {model._meta.verbose_name} {name}.", code="unknown")  # noqa: SLF001
    return row


def _secret(name: str | None, where: str) -> str | None:
    """The value of the environment variable that the file names; None where the file names none."""
    if name is None:
        return None
    value = env.variable(name)
    if not value:
        raise Invalid(f"{where}: the environment has no {name}.")
    return value


SECTIONS: Mapping[str, Apply] = {
    "cohorts": _cohort,
    "teams": _team,
    "users": _user,
    "memberships": _membership,
    "tokens": _token,
    "flavors": _flavor,
    "quotas": _quota,
    "prices": _price,
    "budgets": _budget,
    "templates": _template,
}
"""In the order in which they are applied."""
