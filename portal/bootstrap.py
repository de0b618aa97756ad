"""`manage.py bootstrap FILE.yaml`: loads what GitOps would apply. A second run of the same file changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml
from django.db import transaction
from rest_framework import serializers
from typing_extensions import override

from costs.serializers import PriceWriteSerializer
from costs.services import set_price
from foundation.errors import Invalid, PortalError
from foundation.http.serializers import StrictSerializer
from foundation.models import PlatformSettings
from portal.settings import env
from quotas.models import Quota
from quotas.serializers import QuotaWriteSerializer
from quotas.services import set_nominal
from teams import credentials, services
from teams.actors import Actor
from teams.models import ApiToken, Membership, Team, User
from teams.platform import SETTINGS_CHANGEABLE, update_settings
from teams.tokens import digest
from workloads.catalogue import set_flavor
from workloads.models import ResourceFlavor
from workloads.serializers import FlavorWriteSerializer

ACTOR = Actor.system("bootstrap")
FILE_BYTES_MAX = 1024 * 1024
SETTING_MAX = 2**31 - 1
WITHOUT_EFFECT_YET = (
    "minimum_run_seconds",
    "fair_share_half_life_hours",
    "spot_fallback_seconds",
    "optional_kinds",
)
SECTIONS_LATER = ("cohorts", "budgets", "templates")


class BootstrapError(Exception):
    """The file cannot be loaded; nothing of it was."""


@dataclass
class Report:
    """How many objects of each kind were made or changed, and how many were right already."""

    changed: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)

    def count(self, section: str, *, changed: bool) -> None:
        counts = self.changed if changed else self.unchanged
        counts[section] = counts.get(section, 0) + 1


class _TeamSerializer(StrictSerializer):
    slug = serializers.CharField()
    name = serializers.CharField(required=False)
    cohort = serializers.CharField(required=False, allow_null=True)
    namespace = serializers.CharField(required=False, allow_null=True)
    pod_security = serializers.CharField(required=False, default=Team.PodSecurity.BASELINE)


class _UserSerializer(StrictSerializer):
    username = serializers.CharField()
    password_env = serializers.CharField(required=False)
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=["quota-manager", "platform-admin"]), default=list
    )


class _MembershipSerializer(StrictSerializer):
    team = serializers.CharField()
    user = serializers.CharField()
    role = serializers.ChoiceField(choices=Membership.Role.choices)


class _TokenSerializer(StrictSerializer):
    user = serializers.CharField()
    name = serializers.CharField()
    token_env = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=ApiToken.Scope.choices))


class _QuotaSerializer(QuotaWriteSerializer):
    team = serializers.CharField()
    reason = serializers.CharField(default="bootstrap")
    unsupported_fields = {
        "borrowing_limit": "borrowing from a cohort",
        "lending_limit": "lending to a cohort",
    }


class _PriceSerializer(PriceWriteSerializer):
    reason = serializers.CharField(default="bootstrap")

    @override
    def get_fields(self) -> dict[str, Any]:
        """`from`, as the file calls it, is no name that a Python class can declare."""
        fields = super().get_fields()
        fields["from"] = fields.pop("valid_from")
        fields["from"].required = True
        return fields


def load(text: str, *, now: datetime) -> Report:
    """Apply the file in one transaction, or none of it. BootstrapError names the section and the field."""
    document = _parse(text)
    report = Report()
    try:
        with transaction.atomic():
            for section, apply in _SECTIONS.items():
                if section == "settings":
                    if "settings" in document:
                        _settings(document["settings"], report, now)
                    continue
                for index, item in enumerate(_items(document, section)):
                    _one(section, index, item, apply, report, now)
    except Invalid as error:
        raise BootstrapError(str(error)) from error
    return report


def _parse(text: str) -> Mapping[str, Any]:
    if len(text.encode()) > FILE_BYTES_MAX:
        raise BootstrapError(f"The file is larger than {FILE_BYTES_MAX} bytes.")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise BootstrapError("The file uses a YAML alias; write the values out.")
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise BootstrapError(f"The file is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise BootstrapError("The file is not a mapping of sections.")
    for section in document:
        if section in SECTIONS_LATER and document[section]:
            raise BootstrapError(f"{section}: not supported yet.")
        if section not in _SECTIONS and section not in SECTIONS_LATER:
            known = ", ".join([*_SECTIONS, *SECTIONS_LATER])
            raise BootstrapError(f"{section}: there is no such section; there is: {known}.")
    return document


def _items(document: Mapping[str, Any], section: str) -> list[Any]:
    items = document.get(section)
    if items is None:
        return []
    if not isinstance(items, list):
        raise BootstrapError(f"{section}: not a list.")
    return items


Apply = Callable[[Any, datetime], bool]


def _one(section: str, index: int, item: Any, apply: Apply, report: Report, now: datetime) -> None:
    try:
        report.count(section, changed=apply(item, now))
    except serializers.ValidationError as error:
        raise BootstrapError(f"{section}[{index}]: {error.detail}") from error
    except PortalError as error:
        named = [f"{problem.field}: {problem.message}" for problem in error.errors if problem.field]
        raise BootstrapError(f"{section}[{index}]: {' '.join(named) or error}") from error


def _read(serializer: type[StrictSerializer], item: Any) -> dict[str, Any]:
    body = serializer(data=item)
    body.is_valid(raise_exception=True)
    values: dict[str, Any] = body.validated_data
    return values


def _settings(values: Any, report: Report, now: datetime) -> None:
    if not isinstance(values, dict):
        raise BootstrapError("settings: not a mapping.")
    row = PlatformSettings.current()
    defaults = PlatformSettings()
    for name, value in values.items():
        if name in WITHOUT_EFFECT_YET and value != getattr(defaults, name):
            raise BootstrapError(f"settings.{name}: not supported yet; leave it out.")
        if name not in SETTINGS_CHANGEABLE and name not in WITHOUT_EFFECT_YET:
            raise BootstrapError(f"settings.{name}: there is no such setting.")
        if name in SETTINGS_CHANGEABLE and (
            not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= SETTING_MAX
        ):
            raise BootstrapError(f"settings.{name}: not a whole number from 1 to {SETTING_MAX}.")
    changed = {name: values[name] for name in SETTINGS_CHANGEABLE if name in values}
    changed = {name: value for name, value in changed.items() if getattr(row, name) != value}
    if changed:
        update_settings(actor=ACTOR, changes=changed, now=now)
    report.count("settings", changed=bool(changed))


def _team(item: Any, now: datetime) -> bool:
    values = _read(_TeamSerializer, item)
    facts = {"name": values.get("name", values["slug"]), "cohort_name": values.get("cohort") or ""}
    facts["pod_security"] = values["pod_security"]
    team = Team.objects.filter(slug=values["slug"]).first()
    if team is None:
        namespace = values.get("namespace")
        services.create_team(actor=ACTOR, slug=values["slug"], namespace=namespace, now=now, **facts)
        return True
    if all(getattr(team, name) == value for name, value in facts.items()):
        return False
    services.update_team(actor=ACTOR, team=team, changes=facts, now=now)
    return True


def _user(item: Any, now: datetime) -> bool:
    values = _read(_UserSerializer, item)
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
    values = _read(_MembershipSerializer, item)
    team, user = _find(Team, slug=values["team"]), _find(User, username=values["user"])
    membership = Membership.objects.filter(team=team, user=user).first()
    if membership is None:
        services.add_member(actor=ACTOR, team=team, user=user, role=values["role"], now=now)
        return True
    if membership.role == values["role"]:
        return False
    services.change_role(actor=ACTOR, membership=membership, role=values["role"], now=now)
    return True


def _token(item: Any, now: datetime) -> bool:
    values = _read(_TokenSerializer, item)
    user = _find(User, username=values["user"])
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
    values = _read(_QuotaSerializer, item)
    key = {
        "team": _find(Team, slug=values["team"]),
        "flavor": _find(ResourceFlavor, name=values["flavor"]),
        "capacity_type": values["capacity"],
    }
    if Quota.objects.filter(**key, nominal=values["nominal"]).exists():
        return False
    set_nominal(**key, nominal=values["nominal"], reason=values["reason"], actor=ACTOR, now=now)
    return True


def _price(item: Any, now: datetime) -> bool:
    values = _read(_PriceSerializer, item)
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


def _find(model: Any, **key: Any) -> Any:
    found = model.objects.filter(**key).first()
    if found is None:
        raise Invalid(f"There is no {model.__name__} with {key}.")
    return found


def _secret(name: str | None, where: str) -> str | None:
    """The value of the environment variable that the file names; None where the file names none."""
    if name is None:
        return None
    value = env.variable(name)
    if not value:
        raise Invalid(f"{where}: the environment has no {name}.")
    return value


_SECTIONS: dict[str, Apply] = {
    "settings": lambda _item, _now: False,
    "teams": _team,
    "users": _user,
    "memberships": _membership,
    "tokens": _token,
    "flavors": _flavor,
    "quotas": _quota,
    "prices": _price,
}
