from __future__ import annotations

import pytest
from django.test import Client

from workloads.models import Workload

pytestmark = pytest.mark.django_db

RUN_COMMANDS = ("cancel", "suspend", "resume", "retry")


def test_the_sign_in_page_leads_back_to_where_one_wanted_to_go(world):
    html = Client().get("/sign-in/?next=/runs/").content.decode()
    assert '<input type="hidden" name="next" value="/runs/">' in html


def test_a_viewer_is_offered_no_command_and_told_why_one_is_refused(viewer, made):
    url = f"/runs/{made['resnet50'].public_id}/"
    html = viewer.get(url).content.decode()
    assert not [command for command in RUN_COMMANDS if f"/{command}/" in html]
    response = viewer.post(f"{url}cancel/")
    assert response.status_code == 403
    assert "viewer" in response.content.decode()


def test_a_viewer_cannot_submit(viewer, world):
    assert "New run" not in viewer.get("/runs/").content.decode()
    assert viewer.get("/runs/new/").status_code == 403
    sent = {"team": "vision", "name": "a", "image": "python", "gpus": "0", "action": "submit"}
    assert viewer.post("/runs/new/", sent).status_code == 403
    assert not Workload.objects.exists()


def test_a_form_without_the_csrf_token_is_said_to_be_too_old(world):
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.ana)
    response = client.post("/theme/")
    assert response.status_code == 403
    assert "too old" in response.content.decode()


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere/", 404), ("/runs/?phase=Odd", 400), ("/runs/?cursor=x", 400)]
)
def test_each_error_page_shows_the_request_id(ana, path, status):
    response = ana.get(path, headers={"X-Request-ID": "abcdef-123456"})
    assert response.status_code == status
    assert "abcdef-123456" in response.content.decode()


def test_an_error_nobody_expected_is_a_page_with_the_request_id(world, monkeypatch):
    monkeypatch.setattr("pages.home._facts", lambda *_: 1 / 0)
    client = Client(raise_request_exception=False)
    client.login(username="ana", password="correct horse battery staple")
    response = client.get("/", headers={"X-Request-ID": "abcdef-123456"})
    assert response.status_code == 500
    assert "abcdef-123456" in response.content.decode()
    assert "ZeroDivisionError" not in response.content.decode()
