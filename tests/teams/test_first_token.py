"""A first API token without a browser: for a name and a password, by a command, and brought along by a bootstrap file."""

from __future__ import annotations

import io

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from foundation.models import PlatformSettings
from teams.models import ApiToken, AuditEvent
from teams.throttle import FAILURES_PER_ACCOUNT_AND_ADDRESS
from teams.tokens import is_well_formed
from tests.factories.teams import api_client, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
EXCHANGE, ME = "/api/v1/tokens/exchange/", "/api/v1/me/"
PASSWORD = "correct horse battery staple"


@pytest.fixture
def ana():
    cache.clear()
    team = make_team("vision")
    user = make_member(team=team, user=make_user("ana")).user
    user.set_password(PASSWORD)
    user.save()
    return user


def asked(**values):
    body = {"username": "ana", "password": PASSWORD, "name": "ci", "scopes": ["read", "submit"], **values}
    return APIClient().post(EXCHANGE, body, format="json")


def whoami(secret):
    return APIClient().get(ME, headers={"Authorization": f"Bearer {secret}"})


def test_a_name_and_a_password_get_a_token_that_works(ana):
    answered = asked(expires_in_days=7, team="vision")
    assert answered.status_code == 201, answered.content
    body = answered.json()
    assert answered["Cache-Control"] == "no-store"
    me = whoami(body["secret"]).json()
    assert (me["username"], me["scopes"]) == ("ana", ["read", "submit"])
    assert answered["Location"].endswith(f"/api/v1/tokens/{body['id']}/")
    event = AuditEvent.objects.get(action="token.create")
    assert (event.actor_label, event.after["user"]) == ("ana", "ana")
    assert PASSWORD not in str(event.after)


@pytest.mark.parametrize(
    ("values", "status", "code"),
    [
        ({"password": "wrong"}, 401, "wrong_password"),
        ({"username": "nobody"}, 401, "wrong_password"),
        ({"password": ""}, 422, "invalid"),
        ({"scopes": []}, 422, "invalid"),
        ({"scopes": ["everything"]}, 422, "invalid"),
        ({"team": "speech"}, 422, "invalid"),
        ({"passwort": "x"}, 422, "invalid"),
    ],
)
def test_what_will_not_do_gets_none(ana, values, status, code):
    answered = asked(**values)
    assert (answered.status_code, answered.json()["code"]) == (status, code), answered.content
    assert not ApiToken.objects.exists()


def test_who_may_not_sign_in_gets_none(ana):
    ana.is_active = False
    ana.save()
    assert asked().status_code == 401


def test_guesses_are_counted_as_those_of_the_page_are(ana):
    statuses = [asked(password="wrong").status_code for _ in range(FAILURES_PER_ACCOUNT_AND_ADDRESS + 1)]
    assert statuses == [401] * FAILURES_PER_ACCOUNT_AND_ADDRESS + [429]
    late = asked()
    assert late.status_code == 429
    assert 0 < int(late["Retry-After"]) <= 60


def test_a_setting_turns_it_off(ana):
    admin = api_client(make_user("root", platform_admin=True))
    assert admin.patch("/api/v1/settings/", {"password_exchange": False}).status_code == 200
    refused = asked()
    assert (refused.status_code, refused.json()["code"]) == (403, "exchange_off")
    assert PlatformSettings.current().password_exchange is False


def printed(*arguments, **options):
    out = io.StringIO()
    call_command("token", *arguments, stdout=out, **options)
    return out.getvalue().strip()


def test_the_command_prints_a_token_that_works_and_nothing_else(ana):
    secret = printed("ana", scopes=["read"], team="vision")
    assert whoami(secret).json()["scopes"] == ["read"]


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (["nobody"], {}, "There is no active user nobody."),
        ([], {}, "Say whose token it is"),
        (["ana"], {"team": "nowhere"}, "There is no team nowhere."),
        (["ana"], {"days": 400}, "365"),
    ],
)
def test_the_command_says_what_is_wrong(ana, arguments, options, says):
    with pytest.raises(CommandError, match=says):
        printed(*arguments, **options)
    assert not ApiToken.objects.exists()


def test_a_text_for_a_bootstrap_file_is_one_that_it_takes():
    text = printed(new=True)
    assert text.startswith("mlp_")
    assert is_well_formed(text)
    assert not ApiToken.objects.exists()
