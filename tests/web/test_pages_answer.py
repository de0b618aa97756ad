from __future__ import annotations

import re

import pytest

from tests.effort import spread

pytestmark = pytest.mark.django_db

RUN_TABS = ("logs", "events", "pods", "cost", "manifests", "spec")
ENDPOINT_TABS = (
    "overview",
    "analytics",
    "gpus",
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


@pytest.mark.parametrize(
    "name", spread(["resnet50", "vit-small", "bert-large", "sweep-07", "unet-3d", "old-idea"], usual=2)
)
def test_each_tab_of_each_run_answers(ana, made, name):
    assert statuses(ana, made[name], RUN_TABS) == dict.fromkeys(RUN_TABS, 200)


def test_an_endpoint_has_five_tabs_whatever_is_shown(ana, made):
    for tab in ENDPOINT_TABS:
        html = ana.get(f"/endpoints/{made['digits'].public_id}/?tab={tab}").content.decode()
        nav = html.partition('<nav class="tabs"')[2].partition("</nav>")[0]
        names = re.findall(r'id="tab-[a-z]+"[^>]*>([^<]+)</a>', nav)
        assert names == ["Overview", "Analytics", "Logs", "Usage &amp; cost", "Settings &amp; revisions"]
        assert nav.count("aria-current") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tab=try", "tab=overview#try"),
        ("tab=try&mode=raw", "tab=overview&mode=raw#try"),
        ("tab=settings", "tab=update#tabs"),
    ],
)
def test_an_old_address_leads_to_where_its_tab_now_stands(ana, made, old, new):
    page = f"/endpoints/{made['digits'].public_id}/?"
    answer = ana.get(page + old)
    assert (answer.status_code, answer["Location"]) == (303, page + new)


def test_a_viewer_sees_the_revisions_where_others_change_the_settings(viewer, made):
    html = viewer.get(f"/endpoints/{made['digits'].public_id}/").content.decode()
    assert re.search(r'id="tab-update" href="[^"]*\?tab=revisions"', html)


@pytest.mark.parametrize("name", ["digits", "captions"])
def test_each_tab_of_each_endpoint_answers(ana, made, name):
    assert statuses(ana, made[name], ENDPOINT_TABS) == dict.fromkeys(ENDPOINT_TABS, 200)
