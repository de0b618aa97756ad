"""What the browser is told and asked for: CSRF tokens, CSP without exceptions, and cookies that stay at home."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from django.conf import settings as conf
from django.contrib import admin
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client
from django.urls import reverse

from tests.factories.submitted import run_body
from tests.factories.teams import PASSWORD, make_token
from tests.security.routes import ADMIN, ROUTES, all_routes
from tests.security.world import TEAM, different, snapshot
from tests.tables import every_row

UNSAFE_PAGES = sorted(
    {name for name, row in ROUTES.items() if row.kind == "page" and "POST" in row.methods}
    | {"teams:sign-in", "teams:sign-in-link", "teams:sign-out", "teams:profile", "portal:theme"}
)
PAGES = sorted(name for name, row in ROUTES.items() if row.kind == "page" and "GET" in row.methods)
UNSAFE_API = sorted(
    (name, method)
    for name, row in ROUTES.items()
    if row.kind == "api"
    for method in row.methods
    if method != "GET"
)


def browser(user=None) -> Client:
    client = Client(enforce_csrf_checks=True)
    if user is not None:
        client.force_login(user)
    return client


def what_of(name: str) -> str:
    return "link" if name == "teams:sign-in-link" else ROUTES[name].what


def test_each_unsafe_page_and_operation_refuses_a_session_without_its_csrf_token(world):
    """The two matrices below in short: one request of each."""
    before = snapshot()
    client = browser(world.lead)
    with every_row() as row:
        for name in UNSAFE_PAGES:
            with row(name):
                response = client.post(reverse(name, kwargs=world.kwargs(what_of(name))), {"name": "x"})
                assert response.status_code == 403
        for name, method in UNSAFE_API:
            with row(f"{method} {name}"):
                url = reverse(name, kwargs=world.kwargs(ROUTES[name].what))
                response = client.generic(method, url, "{}", content_type="application/json")
                assert response.status_code == 403
                assert response.json()["detail"].startswith("CSRF")
    assert different(before, snapshot()) == []


@pytest.mark.matrix
@pytest.mark.parametrize("name", UNSAFE_PAGES)
def test_no_page_acts_without_a_csrf_token(world, name):
    url = reverse(name, kwargs=world.kwargs(what_of(name)))
    before = snapshot()
    for client in (browser(), browser(world.member)):
        for headers in (
            {},
            {"HX-Request": "true"},
            {"Origin": "https://evil.example"},
            {"X-CSRFToken": "x" * 32},
        ):
            response = client.post(
                url, {"name": "x", "username": "canary-member", "password": PASSWORD}, headers=headers
            )
            assert response.status_code in {302, 403}, (url, headers, response.status_code)
            if response.status_code == 302:
                assert response["Location"].startswith("/sign-in/?next=")
    assert different(before, snapshot()) == []


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "method"), UNSAFE_API)
def test_a_session_needs_its_csrf_token_in_the_api_and_a_bearer_does_not(world, name, method):
    url = reverse(name, kwargs=world.kwargs(ROUTES[name].what))
    before = snapshot()
    client = browser(world.lead)
    response = client.generic(method, url, "{}", content_type="application/json")
    assert response.status_code == 403
    assert response.json()["detail"].startswith("CSRF")
    assert different(before, snapshot()) == []
    secret = _get_new_csrf_string()
    client.cookies[conf.CSRF_COOKIE_NAME] = secret
    passed = client.generic(
        method, url, "{", content_type="application/json", headers={"X-CSRFToken": secret}
    )
    assert not passed.content.startswith(b'{"type": "urn:ml-portal:problem:not_allowed", "title": "CSRF')
    assert "CSRF" not in passed.content.decode()
    bearer = browser().generic(
        method,
        url,
        "{",
        content_type="application/json",
        headers={"Authorization": f"Bearer {make_token(world.viewer)}"},
    )
    assert "CSRF" not in bearer.content.decode()


def test_a_session_beside_a_bearer_token_does_not_lend_it_rights(world):
    client = browser(world.lead)
    bearer = {"Authorization": f"Bearer {make_token(world.stranger)}"}
    assert client.get(f"/api/v1/teams/{TEAM}/", headers=bearer).status_code == 404
    wrong = {"Authorization": "Bearer mlp_" + "x" * 58}
    assert client.get(f"/api/v1/teams/{TEAM}/", headers=wrong).status_code == 401


# --- headers


def policy_of(response) -> dict[str, list[str]]:
    parts = [each.split() for each in response["Content-Security-Policy"].split(";") if each.strip()]
    return {each[0]: each[1:] for each in parts}


def check_headers(response, url: str) -> None:
    policy = policy_of(response)
    flat = " ".join(" ".join(each) for each in policy.values())
    assert "unsafe-" not in flat, (url, flat)
    assert "*" not in flat, (url, flat)
    assert policy["default-src"] == ["'self'"], url
    assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == ["'none'"], url
    assert policy["form-action"] == ["'self'"], url
    assert response["X-Content-Type-Options"] == "nosniff", url
    assert response["X-Frame-Options"] == "DENY", url
    assert response["Referrer-Policy"] in {"same-origin", "strict-origin"}, url
    assert response["Cross-Origin-Opener-Policy"] == "same-origin", url
    assert "Access-Control-Allow-Origin" not in response, url
    assert "Server" not in response, url


def test_every_page_carries_the_policy(world):
    client = browser(world.member)
    with every_row() as row:
        for name in PAGES:
            with row(name):
                check_page(client, reverse(name, kwargs=world.kwargs(what_of(name))))


@pytest.mark.matrix
@pytest.mark.parametrize("name", PAGES)
def test_every_page_its_parts_and_its_errors_carry_the_policy(world, name):
    client = browser(world.member)
    for foreign in (True, False):
        url = reverse(name, kwargs=world.kwargs(what_of(name), foreign=foreign))
        for headers in ({}, {"HX-Request": "true", "HX-Target": "live"}):
            check_page(client, url, headers)


def check_page(client: Client, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
    response = client.get(url, headers=headers)
    check_headers(response, url)
    if response["Content-Type"].startswith("text/html") and response.status_code == 200:
        assert "HX-Request" in response["Vary"]
        assert no_inline(response.content.decode()) == [], url


def no_inline(html: str) -> list[str]:
    """Scripts, styles and handlers that the policy would stop: a page that has one is broken, or asks for unsafe-*."""
    found = re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")[^>]*>", html)
    found += re.findall(r"<style[^>]*>|\sstyle=\"", html)
    found += re.findall(r"\son(?:click|load|submit|change|input|error)=", html)
    return found + re.findall(r"(?:href|src|action)=\"javascript:", html) + re.findall(r"hx-on[:=]", html)


def test_open_pages_the_api_and_errors_carry_the_policy(world):
    client = browser(world.member)
    urls = [
        "/sign-in/",
        "/no-such-page/",
        "/api/v1/me/",
        "/api/v1/nothing/",
        "/healthz",
        "/readyz",
    ]
    urls += [
        reverse("teams:sign-in-link", kwargs={"token": "x"}),
        "/api/v1/schema/",
        f"/api/v1/teams/{TEAM}/",
    ]
    for url in urls:
        for each in (client, browser()):
            response = each.get(url)
            if url not in {"/healthz", "/readyz"}:
                check_headers(response, url)
            assert "unsafe-" not in response.get("Content-Security-Policy", "")


@pytest.mark.matrix
def test_the_admin_console_carries_the_policy_too(world):
    from tests.factories.teams import make_user

    client = browser(make_user("root", platform_admin=True))
    for name in sorted(
        name for name in all_routes() if re.fullmatch(rf"{ADMIN}\w+_changelist|{ADMIN}index", name)
    ):
        response = client.get(reverse(name))
        assert response.status_code in {200, 403}, name
        check_headers(response, name)
        assert no_inline(response.content.decode()) == [], name
    for model in admin.site._registry:
        if (row := model._default_manager.first()) is not None:
            url = reverse(f"{ADMIN}{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
            response = client.get(url)
            assert response.status_code == 200, url
            check_headers(response, url)
            assert no_inline(response.content.decode()) == [], url


def test_answers_with_secrets_are_not_kept_by_caches(world):
    client = browser(world.member)
    answers = [
        client.get("/profile/"),
        client.get("/live-ticket/"),
        client.get("/api/v1/stream/"),
        client.get("/sign-in/"),
    ]
    bearer = {"Authorization": f"Bearer {make_token(world.member)}"}
    answers.append(
        browser().post(
            "/api/v1/tokens/", {"name": "x", "scopes": ["read"]}, "application/json", headers=bearer
        )
    )
    for response in answers:
        assert "no-store" in response["Cache-Control"], response


def test_nobody_is_asked_across_origins(world):
    for url in ("/api/v1/me/", "/api/v1/training-runs/"):
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        response = browser(world.member).options(url, headers=headers)
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


# --- cookies and sessions


def signed_in(client: Client, user: str = "canary-member", **headers: str):
    page = client.get("/sign-in/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.content.decode())[1]
    data = {"username": user, "password": PASSWORD, "csrfmiddlewaretoken": token}
    return client.post("/sign-in/", data | headers)


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(world):
    client = browser()
    response = signed_in(client)
    assert response.status_code in {302, 303}
    for name in (conf.SESSION_COOKIE_NAME, conf.CSRF_COOKIE_NAME):
        cookie = client.cookies[name]
        assert cookie["httponly"], name
        assert cookie["samesite"] == "Lax", name
        assert cookie["domain"] == "", name
        assert bool(cookie["secure"]) == conf.PUBLIC_URL.startswith("https://"), name


def test_a_session_planted_before_signing_in_is_worth_nothing(world):
    victim, attacker = browser(), browser()
    attacker.get("/sign-in/")
    planted = _get_new_csrf_string()
    victim.cookies[conf.SESSION_COOKIE_NAME] = planted
    signed_in(victim)
    assert victim.cookies[conf.SESSION_COOKIE_NAME].value != planted
    attacker.cookies[conf.SESSION_COOKIE_NAME] = planted
    assert attacker.get("/api/v1/me/").status_code == 401


def test_signing_out_ends_the_session_itself(world):
    client = browser()
    signed_in(client)
    kept = client.cookies[conf.SESSION_COOKIE_NAME].value
    page = client.get("/profile/").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    client.post("/sign-out/", {"csrfmiddlewaretoken": token})
    thief = browser()
    thief.cookies[conf.SESSION_COOKIE_NAME] = kept
    assert thief.get("/api/v1/me/").status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "http://localhost.evil.example/",
        "/\t/evil.example",
        "\x00//evil.example",
        "/ok\r\nSet-Cookie: a=b",
    ],
)
def test_signing_in_leads_nowhere_else(world, target):
    response = signed_in(browser(), next=target)
    assert response.status_code in {302, 303}
    location = response["Location"]
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))
    assert "\r" not in location
    assert "Set-Cookie" not in location.partition("%0D")[0]
    assert "a" not in response.cookies


def test_a_body_in_a_query_or_a_form_is_not_a_request_to_the_api(world):
    bearer = {"Authorization": f"Bearer {make_token(world.member)}"}
    before = snapshot()
    response = browser().post("/api/v1/training-runs/", run_body(TEAM), headers=bearer)
    assert response.status_code == 415
    for name in ("_method=DELETE", "format=api", "_content={}"):
        assert browser().get(f"/api/v1/training-runs/?{name}", headers=bearer).status_code == 400
    headers = bearer | {"X-HTTP-Method-Override": "DELETE"}
    assert browser().post(f"/api/v1/training-runs/{world.run.public_id}/", headers=headers).status_code in {
        405,
        415,
    }
    assert different(before, snapshot()) == []
