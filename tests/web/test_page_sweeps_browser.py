"""Every page in Chromium, in each look: accessible, quiet, within the screen, and whole without JavaScript.

A page is loaded once for all that is looked at with its scripts, and once for what is looked at without. `make test` has
five pages that stand for the others; `make matrix` has the others.
"""

from __future__ import annotations

import pytest

from quotas.changes import LimitChange, apply_changes
from tests.factories.idle import make_idle
from tests.web.browsing import LOOKS, chromium, faults, needs_chromium, session_of
from tests.web.quota_world import QuotaWorld
from tests.web.sweeping import Sweep
from tests.web.test_quota_browser import QUOTA, edit

pytestmark = [pytest.mark.browser, pytest.mark.sweep, needs_chromium, pytest.mark.django_db(transaction=True)]

CONSOLE = "/quotas/"
"""The quota console is the fifth of those that stand for the others, in a world of its own."""
PARTS = 4
QUOTA_PARTS = 2
"""In so many the others are looked at, side by side."""
IN_MATRIX = pytest.mark.matrix
WHAT_FITS = (
    "",
    "?text=7B",
    "?text=70B+bf16+training+adam+zero-3",
    "?text=nonsense",
    "?text=7B&kv_heads=8&layers=3",
)


def stand_for_the_others(made) -> list[str]:
    return ["/", "/runs/new/", f"/runs/{made['resnet50'].public_id}/", "/costs/"]


def others(made) -> list[str]:
    run, waits, failed = (f"/runs/{made[name].public_id}/" for name in ("resnet50", "bert-large", "unet-3d"))
    endpoint = f"/endpoints/{made['digits'].public_id}/"
    return [
        "/runs/",
        "/runs/?search=zzz",
        "/runs/import/",
        "/go/?search=re",
        "/endpoints/",
        "/endpoints/new/",
        "/teams/vision/",
        "/profile/",
        "/profile/password/",
        "/audit/",
        "/costs/?by=day",
        "/costs/?month=2026-02",
        "/idle/",
        "/cluster/",
        "/cluster/?view=table",
        "/cluster/?flavor=a100-40gb&gpus=4",
        "/cluster/nodes/a100-0/",
        "/settings/",
        "/duties/",
        "/notices/",
        "/notices/new/",
        waits,
        f"{failed}?tab=cost",
        *(f"{run}?tab={tab}" for tab in ("events", "pods", "manifests", "spec")),
        *(f"{endpoint}?tab={tab}" for tab in ("analytics&table=1", "cost", "revisions", "update", "access")),
    ]


def of_quotas(world: QuotaWorld) -> list[str]:
    made = apply_changes(
        changes=[LimitChange(world.team, world.a100, "on-demand", {"nominal": 20})],
        reason="Two more nodes.",
        evicts=False,
        actor=world.by_manager,
        now=world.now,
    )
    return [
        "/teams/vision/",
        "/teams/vision/quota/",
        "/teams/speech/quota/",
        "/teams/robotics/quota/",
        "/quotas/?show=people",
        "/quotas/?team=zzz",
        "/quotas/draft/",
        "/quotas/changes/",
        f"/quotas/changes/{made.public_id}/",
        "/quotas/requests/?state=all",
        "/quotas/cohorts/",
        f"/quotas/cohorts/{world.research.public_id}/",
        "/quotas/teams/",
        "/quotas/teams/vision/",
        "/idle/rules/idle/",
        "/costs/",
        "/costs/?by=team",
        "/costs/?team=vision",
        "/costs/capacity/",
    ]


@pytest.fixture
def sweep(world, made):
    """With something idle, and with runs that belong together."""
    make_idle(made["resnet50"].pods.first())
    return world.sweep("lr", early_stop={"metric": "loss", "worse_than_median_after": 30})


@pytest.mark.parametrize("part", [None, *(pytest.param(part, marks=IN_MATRIX) for part in range(PARTS))])
def test_every_page_is_right_in_each_look_and_without_scripts(live_server, world, made, sweep, part):
    wanted = stand_for_the_others(made) if part is None else others(made)[part::PARTS]
    session = session_of(world.ana)
    with chromium() as browser:
        looks = Sweep(browser, live_server.url, session)
        for address in wanted:
            looks.visit(address)
        looks.leave()
        for address in wanted:
            looks.visit_without_scripts(address)
        looks.end()


@pytest.mark.matrix
def test_what_fits_sweeps_and_the_way_in_are_right_in_each_look(live_server, world, sweep):
    session = session_of(world.ana)
    member = sweep.members.get(number=3).workload.public_id
    wanted = ["/sweeps/", sweep.page_url, f"/runs/{member}/"]
    with chromium() as browser:
        looks = Sweep(browser, live_server.url, session)
        for address in wanted:
            looks.visit(address)
        for query in WHAT_FITS:
            looks.visit(f"/what-fits/{query}", looks=(*LOOKS, (780, "light"), (780, "dark")))
        # The last page goes on asking for its live events: it must not do so as nobody.
        looks.leave()
        page = looks.page
        page.context.clear_cookies()
        page.goto("/sign-in/")
        looks.found += faults(page, *LOOKS)
        assert not page.locator(".frame").count()
        looks.end()


@pytest.mark.parametrize(
    "part", [None, *(pytest.param(part, marks=IN_MATRIX) for part in range(QUOTA_PARTS))]
)
def test_every_quota_page_is_right_in_each_look(live_server, full, part):
    session, wanted = session_of(full.admin), of_quotas(full)[part or 0 :: QUOTA_PARTS]
    with chromium() as browser:
        looks = Sweep(browser, live_server.url, session)
        looks.page.goto(CONSOLE)
        edit(looks.page, QUOTA, "4")
        edit(looks.page, "Borrows at most: speech, a100-40gb on-demand", "-1")
        looks.page.get_by_text("2 changes in 2 teams").wait_for()
        for address in [CONSOLE] if part is None else wanted:
            looks.visit(address)
        looks.leave()
        if part is None:
            looks.visit_without_scripts(CONSOLE)
        looks.end()
