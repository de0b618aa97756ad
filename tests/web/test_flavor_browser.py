"""A flavor written down in Chromium: from what nodes report, with rows added and taken away."""

from __future__ import annotations

import re

import pytest

from tests.factories.catalogue import make_node
from tests.factories.teams import make_user
from tests.web.browsing import (
    chromium,
    faults,
    meanwhile,
    needs_chromium,
    open_page,
    session_of,
    show,
    too_wide_between,
)
from workloads.models import NodeRecord, ResourceFlavor

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]

ADD = "/admin/workloads/resourceflavor/add/"


@pytest.fixture
def manager(world):
    make_node("l4-0", units=2, product="NVIDIA-L4", **{"nvidia.com/gpu.memory": "23034"})
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    NodeRecord.objects.filter(name="l4-0").update(taints=[taint])
    return session_of(make_user("boss", quota_manager=True))


@pytest.mark.matrix
def test_a_flavor_is_made_from_what_a_node_reports_with_one_row_more(live_server, manager):
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, manager)
        page.goto(ADD)
        page.get_by_role("link", name="Use this: l4").click()
        tolerations = page.locator("row-set[data-one=Toleration]")
        rows = tolerations.get_by_role("group")
        tolerations.get_by_role("button", name="Add a row").wait_for()
        before = rows.count()
        tolerations.get_by_role("button", name="Add a row").click()
        assert rows.count() == before + 1
        assert page.evaluate("document.activeElement.name") == f"tolerations-{before}-key"
        page.keyboard.type("dedicated")
        tolerations.get_by_role("button", name="Remove Toleration 1").click()
        assert rows.count() == before
        page.get_by_role("button", name="Save", exact=True).click()
        page.wait_for_url("**/admin/workloads/resourceflavor/")
        assert complaints == []
        made = meanwhile(lambda: ResourceFlavor.objects.get(name="l4"))
    assert [each["key"] for each in made.tolerations] == ["dedicated"]
    assert made.node_selector == {"nvidia.com/gpu.product": ["NVIDIA-L4"]}


@pytest.mark.sweep
@pytest.mark.matrix
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_choice_the_form_its_errors_and_filters_are_accessible_and_quiet(
    live_server, world, made, manager, theme
):
    flavor = ResourceFlavor.objects.get(name="a100-40gb")
    found: list[str] = []
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, manager, theme=theme)

        def look_at(name: str) -> None:
            for width in (360, 1440):
                seen = faults(page, (width, theme), advice=False, colours=theme == "dark")
                found.extend(f"{name} {each}" for each in seen)
            found.extend(too_wide_between(page))
            show(page, (1440, theme))

        page.goto(ADD)
        assert page.locator("html.dark").count() == (theme == "dark")
        look_at("choices")
        page.get_by_role("link", name="Use this: l4").click()
        page.locator("row-set").first.get_by_role("button", name="Add a row").wait_for()
        look_at("form")
        page.locator("[name=labels-0-values]").fill("not a value")
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator("[name=labels-0-values][aria-invalid=true]").wait_for()
        look_at("error")
        page.goto(f"/admin/workloads/resourceflavor/{flavor.pk}/change/")
        look_at("change")
        page.goto("/admin/quotas/quotachange/")
        page.get_by_text(re.compile(r"^\s*Filters")).click()
        page.get_by_label("By actor").wait_for()
        look_at("filters")
        page.get_by_label("By actor").fill("tests")
        page.get_by_role("button", name="Apply Filters").click()
        page.wait_for_url("**actor_is=tests**")
        assert complaints == []
    assert found == []


@pytest.mark.matrix
def test_without_scripts_the_last_row_is_empty_and_is_saved(live_server, manager):
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, manager, script=False)
        page.goto(ADD)
        page.get_by_role("link", name="Use this: l4").click()
        page.locator("[name=tolerations-1-key]").fill("dedicated")
        page.get_by_role("button", name="Save", exact=True).click()
        page.wait_for_url("**/admin/workloads/resourceflavor/")
        made = meanwhile(lambda: ResourceFlavor.objects.get(name="l4"))
    assert [each["key"] for each in made.tolerations] == ["nvidia.com/gpu", "dedicated"]
