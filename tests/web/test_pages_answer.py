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


def statuses(client, workload, tabs) -> dict[str, int]:
    kind = "endpoints" if workload.kind == "endpoint" else "runs"
    address = f"/{kind}/{workload.public_id}/?tab="
    return {tab: client.get(address + tab).status_code for tab in tabs}


@pytest.mark.parametrize("name", ["resnet50", "vit-small", "bert-large", "sweep-07", "unet-3d", "old-idea"])
def test_each_tab_of_each_run_answers(ana, made, name):
    assert statuses(ana, made[name], RUN_TABS) == dict.fromkeys(RUN_TABS, 200)


@pytest.mark.parametrize("name", ["digits", "captions"])
def test_each_tab_of_each_endpoint_answers(ana, made, name):
    assert statuses(ana, made[name], ENDPOINT_TABS) == dict.fromkeys(ENDPOINT_TABS, 200)
