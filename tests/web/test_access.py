from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.test import Client

from workloads.models import Workload

pytestmark = pytest.mark.django_db

RUN_COMMANDS = ("cancel", "suspend", "resume", "retry")
ENDPOINT_COMMANDS = ("stop", "start", "delete", "update", "try")


def without_ids(html: str) -> str:
    """A page less what differs from request to request."""
    html = re.sub(r'(name="csrfmiddlewaretoken" value=)"[^"]*"', r"\1", html)
    html = re.sub(r'(id="request-id">)[^<]*', r"\1", html)
    return re.sub(r'(name="next" value=)"[^"]*"', r"\1", html)


@pytest.mark.parametrize("path", ["/", "/runs/", "/runs/new/", "/endpoints/", "/teams/", "/teams/vision/"])
def test_who_is_not_signed_in_is_led_to_the_sign_in_page(world, path):
    response = Client().get(path)
    assert response.status_code == 302
    assert response["Location"] == f"/sign-in/?next={path}"


def test_the_sign_in_page_leads_back_to_where_one_wanted_to_go(world):
    html = Client().get("/sign-in/?next=/runs/").content.decode()
    assert '<input type="hidden" name="next" value="/runs/">' in html


def test_a_foreign_and_an_unknown_run_are_the_same_page(stranger, made):
    foreign = stranger.get(f"/runs/{made['resnet50'].public_id}/")
    unknown = stranger.get(f"/runs/{uuid4()}/")
    assert foreign.status_code == unknown.status_code == 404
    assert without_ids(foreign.content.decode()) == without_ids(unknown.content.decode())
    assert "resnet50" not in foreign.content.decode()


def test_a_foreign_and_an_unknown_team_are_the_same_page(stranger, made):
    foreign, unknown = stranger.get("/teams/vision/"), stranger.get("/teams/nobody/")
    assert foreign.status_code == unknown.status_code == 404
    assert without_ids(foreign.content.decode()) == without_ids(unknown.content.decode())


@pytest.mark.parametrize("command", RUN_COMMANDS)
def test_a_stranger_cannot_steer_a_run_and_is_not_told_that_it_exists(stranger, made, command):
    run = made["resnet50"]
    assert stranger.post(f"/runs/{run.public_id}/{command}/").status_code == 404
    assert Workload.objects.get(pk=run.pk).desired == "run"


@pytest.mark.parametrize("command", ENDPOINT_COMMANDS)
def test_a_stranger_cannot_steer_or_try_an_endpoint(stranger, made, command):
    endpoint = made["digits"]
    response = stranger.post(
        f"/endpoints/{endpoint.public_id}/{command}/", {"confirm": "digits", "path": "/"}
    )
    assert response.status_code == 404
    assert Workload.objects.get(pk=endpoint.pk).desired == "run"


@pytest.mark.parametrize("path", ["/", "/runs/", "/endpoints/", "/teams/"])
def test_a_stranger_sees_nothing_of_another_team_in_a_list(stranger, made, path):
    html = stranger.get(path, follow=True).content.decode()
    assert not [name for name in made if f">{name}<" in html]


@pytest.mark.parametrize("command", RUN_COMMANDS)
def test_a_viewer_is_refused_what_the_page_offers_them_no_button_for(viewer, made, command):
    run = made["resnet50"]
    html = viewer.get(f"/runs/{run.public_id}/").content.decode()
    assert f"/{command}/" not in html
    response = viewer.post(f"/runs/{run.public_id}/{command}/")
    assert response.status_code == 403
    assert "viewer" in response.content.decode()
    assert Workload.objects.get(pk=run.pk).desired == "run"


def test_a_viewer_cannot_submit(viewer, world):
    assert "New run" not in viewer.get("/runs/").content.decode()
    assert viewer.get("/runs/new/").status_code == 403
    sent = {"team": "vision", "name": "a", "image": "python", "gpus": "0", "action": "submit"}
    assert viewer.post("/runs/new/", sent).status_code == 403
    assert not Workload.objects.exists()


def test_commands_are_posts(ana, made):
    run, endpoint = made["resnet50"].public_id, made["digits"].public_id
    assert {ana.get(f"/runs/{run}/{each}/").status_code for each in RUN_COMMANDS} == {405}
    assert {
        ana.get(f"/endpoints/{endpoint}/{each}/").status_code for each in ("stop", "start", "delete")
    } == {405}


def test_a_command_without_the_csrf_token_does_nothing(world, made):
    client = Client(enforce_csrf_checks=True)
    client.login(username="ana", password="correct horse battery staple")
    response = client.post(f"/runs/{made['resnet50'].public_id}/cancel/")
    assert response.status_code == 403
    assert "too old" in response.content.decode()
    assert Workload.objects.get(pk=made["resnet50"].pk).desired == "run"


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere/", 404), ("/runs/?phase=Odd", 400), ("/runs/?cursor=x", 400)]
)
def test_each_error_page_shows_the_request_id(ana, path, status):
    response = ana.get(path, headers={"X-Request-ID": "abcdef-123456"})
    assert response.status_code == status
    assert "abcdef-123456" in response.content.decode()


def test_an_error_nobody_expected_is_a_page_with_the_request_id(world, monkeypatch):
    monkeypatch.setattr("portal.web.home._facts", lambda *_: 1 / 0)
    client = Client(raise_request_exception=False)
    client.login(username="ana", password="correct horse battery staple")
    response = client.get("/", headers={"X-Request-ID": "abcdef-123456"})
    assert response.status_code == 500
    assert "abcdef-123456" in response.content.decode()
    assert "ZeroDivisionError" not in response.content.decode()
