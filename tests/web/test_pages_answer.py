from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db

RUN_TABS = ("logs", "events", "pods", "cost", "manifests", "spec")
ENDPOINT_TABS = (
    "overview",
    "try",
    "analytics",
    "access",
    "logs",
    "events",
    "pods",
    "revisions",
    "update",
    "cost",
    "manifests",
    "spec",
)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/runs/",
        "/runs/new/",
        "/runs/import/",
        "/endpoints/",
        "/endpoints/new/",
        "/teams/vision/",
        "/teams/vision/runs/",
        "/teams/vision/endpoints/",
        "/teams/vision/runs/new/",
        "/profile/",
    ],
)
def test_each_page_answers(ana, made, path):
    response = ana.get(path)
    assert response.status_code == 200
    assert "HX-Request" in response["Vary"]


@pytest.mark.parametrize("name", ["resnet50", "vit-small", "bert-large", "sweep-07", "unet-3d", "old-idea"])
@pytest.mark.parametrize("tab", RUN_TABS)
def test_each_tab_of_each_run_answers(ana, made, name, tab):
    response = ana.get(f"/runs/{made[name].public_id}/?tab={tab}")
    assert response.status_code == 200


@pytest.mark.parametrize("name", ["digits", "captions"])
@pytest.mark.parametrize("tab", ENDPOINT_TABS)
def test_each_tab_of_each_endpoint_answers(ana, made, name, tab):
    response = ana.get(f"/endpoints/{made[name].public_id}/?tab={tab}")
    assert response.status_code == 200
