"""What is answered to somebody is kept by no cache: over all routes, by token and by session."""

from __future__ import annotations

from itertools import cycle

import pytest
from django.urls import reverse

from tests.factories.teams import make_token
from tests.security.routes import ROUTES
from tests.security.world import Principal
from tests.tables import every_row

pytestmark = pytest.mark.django_db

READ = sorted(name for name, row in ROUTES.items() if "GET" in row.methods)
ALSO = (
    "/admin/",
    "/admin/teams/user/",
    "/live-ticket/",
    "/api/v1/schema/",
    "/api/v1/docs/",
    "/api/v1/nothing/",
)


@pytest.fixture
def everybody(world):
    return [*world.leads, *world.strangers, world.quota_manager]


def is_kept(response) -> bool:
    return "no-store" not in response.get("Cache-Control", "")


def kept(who: Principal, url: str) -> bool:
    return is_kept(who.ask("GET", url)) or is_kept(who.ask("GET", url, HX_Request="true", HX_Target="panel"))


@pytest.mark.matrix
@pytest.mark.parametrize("name", READ)
def test_no_answer_to_anybody_is_kept_whatever_it_is(world, everybody, name):
    url = reverse(name, kwargs=world.kwargs(ROUTES[name].what))
    # A third of them each: what keeps an answer off asks nobody who it is for.
    assert [who.name for who in everybody[READ.index(name) % 3 :: 3] if kept(who, url)] == []


def test_no_answer_to_somebody_is_kept_whatever_it_is(world, everybody):
    """A third of the addresses of the matrix above, each requested by one person."""
    with every_row() as row:
        for name, who in zip(READ[::3], cycle(everybody), strict=False):
            with row(f"{name} asked by {who.name}"):
                assert not kept(who, reverse(name, kwargs=world.kwargs(ROUTES[name].what)))


def test_so_it_is_beside_the_matrix(world, everybody):
    with every_row() as row:
        for url, who in zip(ALSO, cycle(everybody), strict=False):
            with row(url):
                assert not is_kept(who.ask("GET", url))


def test_signing_in_and_out_is_kept_by_no_cache(world, client):
    page = client.get("/sign-in/")
    assert not is_kept(page)
    client.force_login(world.member)
    assert not is_kept(client.post("/sign-out/"))


def test_a_tag_saves_a_client_the_answer_that_it_kept_itself(world):
    asks = Principal("member", bearer=make_token(world.member, name="tags"))
    url = f"/api/v1/training-runs/{world.run.public_id}/"
    first = asks.ask("GET", url)
    assert first["ETag"]
    again = asks.ask("GET", url, If_None_Match=first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == first["ETag"]
    assert not is_kept(again)


def test_static_files_are_still_kept_by_caches(client, settings):
    """Also where the cookie of a session comes along, as it does to the same host."""
    client.cookies[settings.SESSION_COOKIE_NAME] = "any"
    answer = client.get("/static/portal/live.js")
    answer.close()
    assert answer.status_code == 200
    assert "max-age" in answer["Cache-Control"]
    assert is_kept(answer)
