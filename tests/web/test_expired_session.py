"""A session that ends behind an open page: no part of the page turns into the sign-in page."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.factories.teams import PASSWORD
from tests.web.browsing import chromium, needs_chromium, open_page, session_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_part_of_a_page_sends_the_browser_to_sign_in_and_back_to_the_page(made, method):
    page = f"/runs/{made['resnet50'].public_id}/"
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}?tab=events&q=a%26b#end"}
    path = page if method == "get" else f"{page}cancel/"
    response = getattr(Client(), method)(path, headers=headers)
    assert (response.status_code, response.content) == (204, b"")
    assert response["HX-Redirect"] == f"/sign-in/?next={page}%3Ftab%3Devents%26q%3Da%2526b"
    assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        "",
        "https://evil.example/runs/",
        "http://testserver.evil.example/runs/",
        "http://testserver//evil.example/",
        "http://testserver/\\evil.example/",
        "javascript:alert(1)",
        "http://[::1",
    ],
)
def test_nobody_is_sent_elsewhere_after_signing_in(world, elsewhere):
    headers = {"HX-Request": "true", "HX-Current-URL": elsewhere}
    response = Client().get("/runs/", headers=headers)
    assert (response.status_code, response["HX-Redirect"]) == (204, "/sign-in/")


def test_a_whole_page_is_still_redirected_by_the_server(world):
    response = Client().get("/runs/", headers={"HX-Current-URL": "http://testserver/"})
    assert (response.status_code, response["Location"]) == (302, "/sign-in/?next=/runs/")


def test_a_redirect_to_another_page_stays_one_of_the_fragment(ana):
    response = ana.get("/sign-in/?next=/runs/", headers={"HX-Request": "true"})
    assert (response.status_code, response["Location"]) == (302, "/runs/")


@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_browser_comes_back_to_the_page_that_was_open(live_server, world, made):
    session, run = session_of(world.ana), made["resnet50"]
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/runs/{run.public_id}/?tab=pods")
        open_at = page.url
        page.context.clear_cookies()
        page.locator("#tab-events").click()
        page.wait_for_url("**/sign-in/**")
        assert page.locator("h1").all_inner_texts() == ["Sign in"]
        page.get_by_label("Username").fill(world.ana.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(open_at)
        assert page.locator("#tabs #tab-pods").count() == 1
        # Its stream may ask for a ticket meanwhile; that it is refused, the browser itself writes into its console.
        assert [each for each in complaints if "/live-ticket/" not in each] == []
