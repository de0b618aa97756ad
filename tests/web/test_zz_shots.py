import os, pytest
from tests.web.browsing import chromium, open_page, session_of
from tests.web.quota_world import make_quota_world, populate_quotas
from tests.web.conftest import *
pytestmark = [pytest.mark.django_db(transaction=True)]
OUT = "/tmp/shots/out"
def test_shots(live_server, db):
    world = make_quota_world(); populate_quotas(world)
    qm, ana = session_of(world.manager), session_of(world.ana)
    only = os.environ.get("ONLY", "")
    ids = {"cohort": world.research.public_id}
    pages = [("team", ana, "/teams/vision/"), ("teamquota", ana, "/teams/vision/quota/"), ("speech", qm, "/teams/speech/quota/"), ("robotics", qm, "/teams/robotics/quota/"),
      ("grid", qm, "/quotas/"), ("requests", qm, "/quotas/requests/"), ("changes", qm, "/quotas/changes/"), ("cohorts", qm, "/quotas/cohorts/"), ("cohort", qm, f"/quotas/cohorts/{ids['cohort']}/"), ("teams", qm, "/quotas/teams/"), ("rules", qm, "/quotas/teams/vision/")]
    os.makedirs(OUT, exist_ok=True)
    with chromium() as browser:
        for tag, width, theme in (("wide", 1440, "light"), ("narrow", 390, "light"), ("dark", 1440, "dark")):
            for name, session, url in pages:
                if only and name not in only.split(","): continue
                page, complaints = open_page(browser, live_server.url, session, width=width, theme=theme)
                page.goto(url)
                page.screenshot(path=f"{OUT}/{name}-{tag}.png", full_page=True)
                if complaints: print(name, tag, complaints)
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"): print("WIDE", name, tag)
                page.context.close()
