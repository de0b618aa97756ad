"""The page of settings: what is set and where that is from, never a secret; a platform admin changes it there."""

from __future__ import annotations

import pytest

from foundation.models import PlatformSettings
from pages.cluster.settings import GROUPS
from portal.settings.env import KNOWN, SECRETS
from portal.settings.told import told
from teams.models import AuditEvent
from teams.platform_settings import SETTINGS_CHANGEABLE
from tests.factories.teams import make_user
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(world):
    return signed_in(make_user("root", platform_admin=True))


def shown(client, name):
    groups = client.get("/settings/").context["groups"]
    return next(setting for _, settings in groups for setting in settings if setting.name == name)


def save(client, name, value, version="1"):
    return client.post("/settings/", {"name": name, "value": value, "version": version})


def test_every_setting_is_in_one_group():
    named = [name for _, names in GROUPS for name in names]
    assert sorted(named) == sorted(SETTINGS_CHANGEABLE)


def test_a_setting_says_its_value_its_source_and_its_default(admin):
    assert (shown(admin, "grace_seconds").value, shown(admin, "grace_seconds").changed) == ("60", False)
    assert save(admin, "grace_seconds", "90").status_code == 303
    setting = shown(admin, "grace_seconds")
    assert (setting.value, setting.changed, setting.default) == ("90", True, "60")
    assert AuditEvent.objects.get(action="settings.update").after == {"grace_seconds": 90}


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("ceiling_cpus", "", None),
        ("password_exchange", "no", False),
        ("image_prefixes", "ghcr.io/one\nghcr.io/two", ["ghcr.io/one", "ghcr.io/two"]),
        ("optional_kinds", "", []),
        ("gang_scheduler", "volcano", "volcano"),
    ],
)
def test_what_is_typed_is_what_rest_would_be_sent(admin, name, typed, value):
    assert save(admin, name, typed).status_code == 303
    assert getattr(PlatformSettings.current(), name) == value


@pytest.mark.parametrize(
    ("name", "typed"), [("grace_seconds", "soon"), ("grace_seconds", ""), ("password_exchange", "perhaps")]
)
def test_what_is_wrong_is_said_at_the_field_and_what_was_typed_stays(admin, name, typed):
    answer = save(admin, name, typed)
    assert answer.status_code == 422
    assert answer.context["wrong"]
    assert answer.context["typed"] == typed
    assert 'aria-invalid="true"' in answer.content.decode()


def test_what_somebody_else_has_changed_is_not_overwritten(admin):
    save(admin, "grace_seconds", "90")
    assert save(admin, "grace_seconds", "30", version="1").status_code == 412
    assert PlatformSettings.current().grace_seconds == 90


def test_a_member_sees_the_settings_and_neither_form_nor_environment(ana):
    answer = ana.get("/settings/?change=grace_seconds")
    assert answer.status_code == 200
    assert 'name="value"' not in answer.content.decode()
    assert not answer.context["environment"]
    assert save(ana, "grace_seconds", "1").status_code == 403


def test_a_quota_manager_sees_the_environment_and_changes_nothing(world):
    manager = signed_in(world.manager)
    assert manager.get("/settings/").context["environment"]
    assert save(manager, "grace_seconds", "1").status_code == 403


def test_a_setting_that_there_is_not_is_refused(admin):
    assert admin.get("/settings/?change=version").status_code == 400
    assert save(admin, "version", "7").status_code == 400


def test_of_a_secret_it_is_only_told_that_it_is_there():
    given = dict.fromkeys(SECRETS, "hunter2-hunter2")
    given |= {"PORTAL_REDIS_URL_FILE": "/run/redis", "PORTAL_PROMETHEUS_URL": "http://me:hunter2@prometheus"}
    del given["PORTAL_REDIS_URL"]
    rows = {row.name: row for row in told(given, {"PORTAL_BIND": "127.0.0.1:8000"})}
    assert set(rows) == set(KNOWN)
    assert "hunter2" not in repr(rows)
    assert (rows["PORTAL_SECRET_KEY"].source, rows["PORTAL_SECRET_KEY"].secret) == ("environment", True)
    assert rows["PORTAL_REDIS_URL"].source == "file"
    assert (rows["PORTAL_BIND"].value, rows["PORTAL_BIND"].source) == ("127.0.0.1:8000", "default")
    assert rows["PORTAL_PROMETHEUS_URL"].value == "http://prometheus"
