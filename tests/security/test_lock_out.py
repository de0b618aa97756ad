"""Guessing passwords: what slows a guesser down, and what a guesser can do to others, which is nothing."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from foundation import clock
from foundation.errors import RateLimited
from portal.settings import stores
from portal.settings.env import load
from teams import services, throttle
from teams.devices import cookie_name
from tests.factories.teams import ACTOR, PASSWORD, make_user

pytestmark = pytest.mark.django_db
SIGN_IN, EXCHANGE = "/sign-in/", "/api/v1/tokens/exchange/"
HOME, ELSEWHERE = "198.51.100.4", "203.0.113.9"


@pytest.fixture(autouse=True)
def proxied(settings):
    cache.clear()
    settings.TRUSTED_PROXIES = load({"PORTAL_TRUSTED_PROXIES": "10.0.0.0/8"}).trusted_proxies


@pytest.fixture
def ana():
    return make_user("ana")


def browser(address: str = HOME) -> Client:
    return Client(REMOTE_ADDR="10.0.0.7", HTTP_X_FORWARDED_FOR=address)


def sign_in(client: Client, username: str = "ana", password: str = PASSWORD):
    return client.post(SIGN_IN, {"username": username, "password": password})


def guess(address: str, username: str = "ana", times: int = 1) -> list[int]:
    return [sign_in(browser(address), username, "wrong").status_code for _ in range(times)]


def exchanged(address: str, password: str = PASSWORD):
    body = {"username": "ana", "password": password, "name": "ci", "scopes": ["read"]}
    where = {"REMOTE_ADDR": "10.0.0.7", "HTTP_X_FORWARDED_FOR": address}
    return APIClient().post(EXCHANGE, body, format="json", **where)


@pytest.mark.matrix
def test_a_stranger_who_fails_a_thousand_times_keeps_nobody_out(ana):
    """From forty addresses, until each of them is held: ana comes in, from where she never was, by page and by REST."""
    for number in range(1000):
        with suppress(RateLimited):
            throttle.count_attempt(username="ana", ip=f"203.0.113.{number % 40}")
    assert guess("203.0.113.7") == [429]
    assert sign_in(browser(HOME)).status_code == 302
    assert exchanged("198.51.100.77").status_code == 201


def test_while_an_account_is_guessed_from_everywhere_a_new_address_has_fewer_tries(ana, monkeypatch):
    monkeypatch.setattr(throttle, "FAILURES_PER_ACCOUNT", 12)
    guess("203.0.113.1", times=10)
    guess("203.0.113.2", times=3)
    assert guess("203.0.113.3", times=4) == [422, 422, 429, 429]
    assert guess("203.0.113.4", "bo", times=4) == [422] * 4
    assert sign_in(browser(HOME)).status_code == 302


def test_where_an_account_signed_in_before_it_has_all_its_tries(ana, monkeypatch):
    assert sign_in(browser(HOME)).status_code == 302
    monkeypatch.setattr(throttle, "FAILURES_PER_ACCOUNT", 12)
    guess("203.0.113.1", times=10)
    guess("203.0.113.2", times=3)
    assert guess(HOME, times=3) == [422] * 3
    assert sign_in(browser(HOME)).status_code == 302


def test_who_guesses_next_door_keeps_a_known_browser_out_of_nothing(ana):
    """One address for a whole office: a colleague guesses ana's password, and everybody's."""
    known = browser(HOME)
    sign_in(known)
    known.post("/sign-out/")
    guess(HOME, times=20)
    for number in range(70):
        guess(HOME, f"guess{number}")
    assert sign_in(browser(HOME)).status_code == 429
    assert sign_in(known).status_code == 302


def test_a_device_helps_the_account_that_it_belongs_to_alone(ana):
    make_user("bo")
    known = browser(HOME)
    sign_in(known, "bo")
    known.post("/sign-out/")
    guess(HOME, times=11)
    assert sign_in(known).status_code == 429
    assert sign_in(known, "bo").status_code == 302


def test_guesses_with_a_device_are_counted_by_it(ana):
    stolen = browser(ELSEWHERE)
    sign_in(stolen)
    stolen.post("/sign-out/")
    assert [sign_in(stolen, password="wrong").status_code for _ in range(11)] == [422] * 10 + [429]
    # They moved nothing of the account itself.
    assert sign_in(browser(ELSEWHERE)).status_code == 302


def test_a_device_that_was_not_given_out_is_none(ana):
    forger = browser(HOME)
    for value in ("x", "WyJhbmEiLCAiYSJd:1abc:def", "ana"):
        forger.cookies[cookie_name()] = value
        assert sign_in(forger, password="wrong").status_code == 422
    guess(HOME, times=7)
    assert sign_in(forger).status_code == 429


def test_a_device_is_for_the_sign_in_page_and_no_script(ana):
    client = browser()
    sign_in(client)
    cookie = client.cookies[cookie_name()]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert "ana" not in cookie.value


def test_a_link_makes_a_known_browser(ana):
    guess(HOME, times=11)
    secret = services.create_sign_in_link(actor=ACTOR, user=ana, now=clock.now())
    client = browser(HOME)
    assert client.post(f"/sign-in/link/{secret}/").status_code == 302
    client.post("/sign-out/")
    assert sign_in(client).status_code == 302


def test_invented_links_hold_no_link_that_is_one(ana):
    links = [services.create_sign_in_link(actor=ACTOR, user=ana, now=clock.now()) for _ in range(2)]
    tries = [browser().post(f"/sign-in/link/invented-{number}/").status_code for number in range(62)]
    assert tries == [410] * 60 + [429, 429]
    assert browser().post(f"/sign-in/link/{links[0]}/").status_code == 302
    assert browser().post(f"/sign-in/link/{links[0]}/").status_code == 429, "used up, and so none any more"
    assert browser(ELSEWHERE).post(f"/sign-in/link/{links[0]}/").status_code == 410
    assert browser().post(f"/sign-in/link/{links[1]}/").status_code == 302


def tried(address: str) -> int:
    """How long to wait; 0 where the password is looked at."""
    try:
        throttle.count_attempt(username="ana", ip=address)
    except RateLimited as error:
        return error.retry_after_seconds
    return 0


def test_who_goes_on_waits_longer_each_time_up_to_a_quarter_of_an_hour(monkeypatch):
    monkeypatch.setattr(throttle, "FAILURES_PER_ADDRESS", 1000)
    waits, now = [], clock.now()
    for _ in range(6):
        with clock.freeze(now):
            told = [tried(ELSEWHERE) for _ in range(12)]
        assert told[:10] == [0] * 10
        assert told[10] == told[11]
        waits.append(told[10])
        with clock.freeze(now + timedelta(seconds=waits[-1] - 1)):
            assert tried(ELSEWHERE) == 1
        now += timedelta(seconds=waits[-1])
    assert waits == [60, 120, 240, 480, 900, 900]


def test_what_is_held_is_kept_no_longer_than_it_is_needed(ana):
    """The real store forgets it by itself."""
    guess(ELSEWHERE, times=11)
    client = cache._cache.get_client()
    ends = [client.ttl(key) for key in client.keys("*sign-in*")]
    assert ends
    assert all(0 < each <= throttle.KNOWN_SECONDS for each in ends)


def test_only_failures_count(ana):
    assert [sign_in(browser(HOME)).status_code for _ in range(30)] == [302] * 30
    assert guess(HOME, times=10) == [422] * 10


def test_an_own_account_buys_no_guesses_at_others(ana, monkeypatch):
    """Whoever signs in to their own account between guesses is counted on all the same."""
    monkeypatch.setattr(throttle, "FAILURES_PER_ADDRESS", 6)
    make_user("mallory")
    statuses = []
    for number in range(8):
        statuses += guess(ELSEWHERE, f"guess{number}")
        sign_in(browser(ELSEWHERE), "mallory")
    assert statuses == [422] * 6 + [429] * 2


def test_rest_says_how_long_to_wait(ana):
    statuses = [exchanged(ELSEWHERE, "wrong").status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    late = exchanged(ELSEWHERE)
    assert (late.status_code, late.json()["code"]) == (429, "rate_limited")
    assert 0 < int(late["Retry-After"]) <= 60
    assert exchanged(HOME).status_code == 201


def answer_to(username: str, address: str) -> tuple[int, str]:
    response = sign_in(browser(address), username, "wrong")
    html = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", response.content.decode())
    return response.status_code, re.sub(r"[0-9a-f]{32}", "", html.replace(username, "NAME"))


def test_no_answer_and_no_work_tells_a_name_that_is_there_from_one_that_is_not(ana, monkeypatch):
    """Held or not; the time of a sign-in is that of its hashes and its queries."""
    make_user("link-only", password=None)
    services.set_active(actor=ACTOR, user=make_user("gone"), active=False, now=clock.now())
    hashed: list[str] = []
    honest = MD5PasswordHasher.encode

    def counted(self, password, salt):
        hashed.append(password)
        return honest(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    told = {}
    for number, name in enumerate(("ana", "nobody", "gone", "link-only")):
        seen = []
        for _ in range(12):
            hashed.clear()
            with CaptureQueriesContext(connection) as queries:
                seen.append((*answer_to(name, f"203.0.113.{number}"), len(hashed), len(queries)))
        told[name] = seen
    assert [status for status, *_ in told["ana"]] == [422] * 10 + [429] * 2
    assert told["nobody"] == told["gone"] == told["link-only"] == told["ana"]


@pytest.fixture
def cache_is_away(settings):
    throttle.forget_own()
    settings.CACHES = {"default": stores.cache("redis://127.0.0.1:1/0")}
    yield
    throttle.forget_own()


def test_guesses_are_held_by_each_process_while_the_cache_is_away(ana, cache_is_away, caplog):
    assert sign_in(browser(HOME)).status_code == 302
    assert guess(ELSEWHERE, times=11) == [422] * 10 + [429]
    assert sign_in(browser(HOME)).status_code == 302
    assert "sign_in.counted_here" in caplog.text
