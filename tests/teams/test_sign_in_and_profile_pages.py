from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from portal.settings.env import load
from teams import credentials, services
from teams.models import ApiToken, AuditEvent, SignInLink
from teams.tasks import purge_expired_rows
from tests.factories.teams import ACTOR, PASSWORD, make_member, make_team, make_token, make_user

SIGN_IN = "/sign-in/"
PROFILE = "/profile/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana():
    return make_user("ana")


@pytest.fixture
def still():
    """What is left of a wait does not depend on how long the test takes."""
    with clock.freeze(clock.now()):
        yield


@pytest.fixture
def browser(ana) -> Client:
    client = Client()
    assert client.login(username="ana", password=PASSWORD)
    return client


def sign_in(client: Client, username="ana", password=PASSWORD, **extra):
    return client.post(SIGN_IN, {"username": username, "password": password, **extra})


def signed_in(client: Client) -> bool:
    return client.get("/api/v1/me/").status_code == 200


def test_signing_in_and_out_again(ana):
    client = Client()
    response = sign_in(client)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert signed_in(client)
    assert client.post("/sign-out/")["Location"] == SIGN_IN
    assert not signed_in(client)


@pytest.mark.parametrize("who", [("ana", "wrong"), ("nobody", PASSWORD), ("gone", PASSWORD)])
def test_a_wrong_password_an_unknown_and_an_inactive_user_look_alike(ana, who):
    services.set_active(actor=ACTOR, user=make_user("gone"), active=False, now=clock.now())
    response = sign_in(Client(), *who)
    assert response.status_code == 422
    assert "do not fit together" in response.content.decode()


def test_each_error_is_tied_to_its_field():
    html = Client().post(SIGN_IN, {}).content.decode()
    for name in ("username", "password"):
        field = re.search(rf'<input[^>]*name="{name}"[^>]*>', html)[0]
        described = re.search(r'aria-describedby="([^"]+)"', field)[1].split()
        assert 'aria-invalid="true"' in field
        assert any(f'id="{each}"' in html for each in described)


@pytest.mark.parametrize(
    ("target", "goes_to"), [("/runs/?team=vision", "/runs/?team=vision"), ("//evil.example/", "/"), ("", "/")]
)
def test_signing_in_leads_to_where_one_wanted_to_go(ana, target, goes_to):
    assert sign_in(Client(), next=target)["Location"] == goes_to


def test_who_is_signed_in_is_sent_on(browser):
    assert browser.get(f"{SIGN_IN}?next=/profile/")["Location"] == "/profile/"


def test_the_eleventh_attempt_in_a_minute_is_refused_even_with_the_right_password(ana, still):
    client = Client()
    assert {sign_in(client, password="wrong").status_code for _ in range(10)} == {422}
    refused = sign_in(client)
    assert refused.status_code == 429
    assert refused["Retry-After"] == "60"
    assert not signed_in(client)


def test_attempts_are_counted_by_user_and_address(ana):
    make_user("bo")
    for _ in range(11):
        sign_in(Client(), password="wrong")
    assert sign_in(Client(), "bo").status_code == 302
    assert (
        Client(REMOTE_ADDR="198.51.100.4")
        .post(SIGN_IN, {"username": "ana", "password": PASSWORD})
        .status_code
        == 302
    )


def test_many_names_from_one_address_are_refused_too(ana, monkeypatch):
    monkeypatch.setattr("teams.throttle.FAILURES_PER_ADDRESS", 3)
    assert [sign_in(Client(), f"guess{number}").status_code for number in range(4)] == [422, 422, 422, 429]


def test_an_address_that_a_client_claims_does_not_count(ana):
    for number in range(11):
        response = Client(HTTP_X_FORWARDED_FOR=f"10.0.0.{number}").post(
            SIGN_IN, {"username": "ana", "password": "x"}
        )
    assert response.status_code == 429


def wrong_from(address: str, *, proxy: str = "10.0.0.7", name: str = "ana") -> int:
    behind = Client(REMOTE_ADDR=proxy, HTTP_X_FORWARDED_FOR=address)
    return sign_in(behind, name, password="wrong").status_code


def test_clients_behind_a_trusted_proxy_have_limits_of_their_own(ana, monkeypatch, settings):
    settings.TRUSTED_PROXIES = load({"PORTAL_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1"}).trusted_proxies
    monkeypatch.setattr("teams.throttle.FAILURES_PER_ADDRESS", 3)
    assert [wrong_from("198.51.100.4", name=f"guess{number}") for number in range(4)] == [422, 422, 422, 429]
    assert wrong_from("198.51.100.5") == 422
    # What the client wrote itself stands further left than what the proxies saw of it.
    assert wrong_from("198.51.100.9, 198.51.100.4, 192.0.2.1", proxy="::ffff:10.0.0.8") == 429


def test_a_network_of_one_client_is_one_address(ana, monkeypatch, settings):
    settings.TRUSTED_PROXIES = load({"PORTAL_TRUSTED_PROXIES": "10.0.0.0/8"}).trusted_proxies
    monkeypatch.setattr("teams.throttle.FAILURES_PER_ADDRESS", 3)
    from_one = [wrong_from(f"2001:db8:1:1::{number}", name=f"guess{number}") for number in range(4)]
    assert from_one == [422, 422, 422, 429]
    assert wrong_from("2001:db8:1:2::1") == 422


@pytest.fixture
def link(ana) -> str:
    return f"/sign-in/link/{services.create_sign_in_link(actor=ACTOR, user=ana, now=clock.now())}/"


def test_looking_at_a_link_does_not_use_it_up(link):
    client = Client()
    for _ in range(3):
        page = client.get(link)
        assert page.status_code == 200
        assert page["Referrer-Policy"] == "strict-origin"
    assert not signed_in(client)
    assert client.post(link).status_code == 302
    assert signed_in(client)
    assert AuditEvent.objects.get(action="sign-in-link.redeem").actor_label == "ana"


def test_links_and_passwords_are_counted_apart(ana, link, monkeypatch):
    monkeypatch.setattr("teams.throttle.FAILURES_PER_ADDRESS", 3)
    # A mail program or a chat looks at a link again and again.
    assert {Client().get(link).status_code for _ in range(11)} == {200}
    assert [sign_in(Client(), f"guess{number}").status_code for number in range(4)] == [422, 422, 422, 429]
    assert Client().get(link).status_code == 200
    monkeypatch.setattr("teams.throttle.LINKS_PER_ADDRESS", 0)
    assert Client().post("/sign-in/link/invented/").status_code == 429
    assert Client().post(link).status_code == 302


def test_a_link_works_once(link):
    Client().post(link)
    second = Client()
    assert second.get(link).status_code == 410
    assert second.post(link).status_code == 410
    assert not signed_in(second)


def test_an_expired_an_unknown_and_an_inactive_users_link_are_gone(ana, link):
    with clock.freeze(clock.now() + timedelta(minutes=61)):
        assert Client().get(link).status_code == 410
    assert Client().get("/sign-in/link/unknown/").status_code == 410
    services.set_active(actor=ACTOR, user=ana, active=False, now=clock.now())
    assert Client().post(link).status_code == 410


def test_only_the_digest_of_a_link_is_kept(link):
    secret = link.split("/")[3]
    assert secret not in str(SignInLink.objects.values())


def test_used_and_expired_links_are_purged(ana, link):
    services.create_sign_in_link(actor=ACTOR, user=ana, now=clock.now())
    Client().post(link)
    purge_expired_rows.run()
    assert SignInLink.objects.count() == 1
    assert credentials.purge_sign_in_links(now=clock.now() + timedelta(hours=2)) == 1


def test_the_profile_shows_teams_and_tokens_without_secrets(ana, browser):
    make_member("lead", team=make_team("vision"), user=ana)
    plain = make_token(ana)
    html = browser.get(PROFILE).content.decode()
    assert "Vision" in html
    assert "lead" in html
    assert ApiToken.objects.get().prefix in html
    assert plain not in html


def new_token(browser: Client, **values):
    return browser.post(
        PROFILE, {"name": "ci", "scopes": ["read"], "expires_in_days": "7", "team": "", **values}
    )


def test_a_new_token_is_shown_once(browser):
    page = new_token(browser)
    plain = re.search(r"mlp_[0-9A-Za-z]+_[0-9A-Za-z]+", page.content.decode())[0]
    assert page["Cache-Control"].startswith("max-age=0")
    assert Client().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {plain}").status_code == 200
    assert plain not in browser.get(PROFILE).content.decode()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"expires_in_days": "9999"}, "expires_in_days"),
        ({"team": "not-mine"}, "team"),
    ],
)
def test_a_senseless_token_form_comes_back_with_its_error(browser, values, field):
    make_team("not-mine")
    page = new_token(browser, **values)
    assert page.status_code == 422
    assert f'id="id_{field}_error"' in page.content.decode()
    assert not ApiToken.objects.exists()


def test_a_token_is_revoked_from_the_profile(ana, browser):
    make_token(ana)
    token = ApiToken.objects.get()
    url = f"{PROFILE}tokens/{token.public_id}/revoke/"
    assert browser.post(url)["Location"] == PROFILE
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "revoked" in browser.get(PROFILE).content.decode()
