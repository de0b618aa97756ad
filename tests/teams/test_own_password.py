"""The page of one's own password: guesses of the old one are slowed down, and every change is told."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.test import Client

from foundation import clock
from teams.models import AuditEvent, User
from tests.factories.teams import PASSWORD, make_user

pytestmark = pytest.mark.django_db
PAGE, NEW = "/profile/password/", "a wholly other passphrase"


@pytest.fixture
def ana():
    cache.clear()
    return make_user("ana")


@pytest.fixture
def browser(ana) -> Client:
    client = Client()
    client.force_login(ana)
    return client


def changed(browser: Client, old: str = PASSWORD, new: str = NEW, again: str | None = None):
    return browser.post(
        PAGE,
        {"old_password": old, "new_password": new, "new_password_again": new if again is None else again},
    )


def told(action: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=action))


def test_a_new_password_ends_the_other_sessions_and_is_told(ana, browser):
    other = Client()
    other.force_login(ana)
    assert browser.get(PAGE).status_code == 200
    assert changed(browser)["Location"] == "/profile/"
    assert User.objects.get().check_password(NEW)
    assert browser.get(PAGE).status_code == 200
    assert other.get(PAGE).status_code == 302
    event = told("user.set-password")[0]
    assert (event.actor, event.target_name, event.after) == (ana, "ana", None)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"old": "wrong"}, "old_password"),
        ({"old": ""}, "old_password"),
        ({"new": "1"}, "new_password"),
        ({"new": "password"}, "new_password"),
        ({"again": "another"}, "new_password_again"),
    ],
)
def test_what_will_not_do_is_said_at_its_field(browser, values, field):
    page = changed(browser, **values)
    assert page.status_code == 422
    assert f'id="id_{field}_error"' in page.content.decode()
    assert User.objects.get().check_password(PASSWORD)
    assert told("user.set-password") == []


def test_who_has_the_session_alone_may_not_guess_the_password(ana, browser):
    with clock.freeze(clock.now().replace(minute=10)):
        assert [changed(browser, "wrong").status_code for _ in range(11)] == [422] * 10 + [429]
        late = changed(browser)
        assert (late.status_code, late["Retry-After"]) == (429, "60")
    assert User.objects.get().check_password(PASSWORD)
    assert [each.after["way"] for each in told("sign-in.fail")] == ["password-change"] * 2
    assert {each.actor for each in told("sign-in.fail")} == {ana}
    # It is no attempt to sign in: that goes on.
    assert Client().post("/sign-in/", {"username": "ana", "password": PASSWORD}).status_code == 302


def test_who_has_no_password_is_told_so():
    client = Client()
    client.force_login(make_user("link-only", password=None))
    assert "You have no password" in client.get(PAGE).content.decode()
    assert changed(client, "").status_code == 200
    assert not User.objects.get().has_usable_password()
