"""A page that stays open in Chromium: log lines come by themselves, over attempts, and its times go on.

The browser's clock is stepped; what the cluster would do is done to the rows in another thread.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from foundation import clock
from logs.store import mark_stored
from tests.web.browsing import chromium, meanwhile, needs_chromium, open_page, session_of
from workloads import services
from workloads.models import Workload
from workloads.states import Desired, Phase, Reason

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]
POLL_MS = 2_500
TOLD_MS = 16_000
"""By then a page without events of its own asks for itself."""


def fresh(run) -> Workload:
    return Workload.objects.select_related("team", "flavor").get(pk=run.pk)


def begin(world, run, *lines: str) -> None:
    """Its next attempt, with a pod that writes."""
    workload = fresh(run)
    now = clock.now()
    attempt = services.start_attempt(workload, object_name="x", token_digest="", now=now)
    attempt.started_at = now
    attempt.save()
    for phase, reason in (
        (Phase.ADMITTED, Reason.CREATING),
        (Phase.STARTING, Reason.PULLING),
        (Phase.RUNNING, Reason.PROGRESSING),
    ):
        world.move(workload, phase, reason, at=now)
    pod = workload.pods.create(
        uid=f"{workload.public_id}-{attempt.number}",
        namespace="team-vision",
        name=f"{workload.name}-{attempt.number}",
        attempt=attempt.number,
        resource_version="1",
        phase="Running",
        created_at=now,
        started_at=now,
    )
    world.log(pod, *lines)


def suspend(world, run, *, at) -> None:
    workload = fresh(run)
    services.set_desired(workload, desired=Desired.SUSPEND, now=at)
    attempt = workload.attempts.get(ended_at=None)
    services.end_attempt(
        attempt, phase=Phase.SUSPENDED, reason="UserRequested", message="", exit_code=None, ended_at=at
    )
    for pod in workload.pods.all():
        mark_stored(pod, now=at)
    services.transition(
        workload,
        to=Phase.STOPPING,
        reason=Reason.USER_REQUESTED,
        message="",
        actor="reconciler",
        now=at,
        stopping_to=Phase.SUSPENDED,
    )
    world.move(workload, Phase.SUSPENDED, Reason.USER_REQUESTED, "Suspended by ana.", at=at)


def resume(world, run, *lines: str) -> None:
    workload = fresh(run)
    services.set_desired(workload, desired=Desired.RUN, now=clock.now())
    world.move(workload, Phase.QUEUED, Reason.PENDING_EVALUATION, at=clock.now())
    begin(world, run, *lines)


def so_far(steps) -> int:
    minutes, seconds = re.search(r"Suspended (?:(\d+)m )?(\d+)s so far", steps.inner_text()).groups()
    return 60 * int(minutes or 0) + int(seconds)


def hours_ago(head) -> int:
    return int(re.search(r"· (\d+) h ago", head.inner_text())[1])


def test_the_log_of_a_run_that_has_just_been_submitted_comes_by_itself(live_server, world):
    session, run = session_of(world.ana), world.run("first", minutes_ago=0)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/")
        log = page.get_by_role("log")
        log.get_by_text("Nothing runs yet").wait_for()
        with page.expect_response(lambda answer: "tab=logs" in answer.url) as asked:
            page.clock.run_for(POLL_MS)
        assert asked.value.ok
        meanwhile(lambda: begin(world, run, "epoch 1", "epoch 2"))
        page.clock.run_for(POLL_MS)
        log.get_by_text("epoch 2").wait_for()
        page.get_by_text("Attempt 1.").wait_for()
        meanwhile(lambda: world.log(fresh(run).pods.get(), "-", "-", "-", "epoch 3"))
        page.clock.run_for(POLL_MS)
        log.get_by_text("epoch 3").wait_for()
        assert log.get_by_text("epoch 2").count() == 1
        assert complaints == []


@pytest.mark.matrix
def test_the_log_goes_on_with_the_attempt_after_a_resume_and_who_chose_an_older_one_stays(live_server, world):
    session, run = session_of(world.ana), world.run("twice", minutes_ago=0)
    begin(world, run, "first attempt")
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/")
        log = page.get_by_role("log")
        log.get_by_text("first attempt").wait_for()
        meanwhile(lambda: suspend(world, run, at=clock.now()))
        page.clock.run_for(POLL_MS)
        page.locator(".phase-Suspended").first.wait_for()
        log.get_by_text("End of attempt 1.").wait_for()
        # Somebody resumes it elsewhere.
        meanwhile(lambda: resume(world, run, "second attempt"))
        page.clock.run_for(TOLD_MS)
        page.locator("#live .phase-Running").first.wait_for()
        log.get_by_text("second attempt").wait_for()
        assert log.get_by_text("first attempt").count() == 0
        page.locator("select[name=attempt]").select_option("1")
        log.get_by_text("End of the log.").wait_for()
        page.clock.run_for(TOLD_MS)
        assert log.get_by_text("first attempt").count() == 1
        assert complaints == []


def nothing_new(route):
    if route.request.resource_type in {"xhr", "fetch"}:
        route.fulfill(status=204)
    else:
        route.continue_()


@pytest.mark.matrix
def test_the_times_of_a_page_that_nothing_happens_to_go_on(live_server, world, made):
    session, run = session_of(world.ana), world.run("rests", minutes_ago=10)
    begin(world, run)
    suspend(world, run, at=clock.now() - timedelta(seconds=1))
    ended = made["sweep-07"]
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/?tab=spec")
        page.get_by_text("Suspended by ana.").wait_for()
        ran = page.get_by_text("Ran for").locator("..").inner_text()
        page.locator("#timeline > summary").click()
        steps, head = page.locator(".steps"), page.locator(".page-head .reason")
        # The server's clock does not run with the page's: what it answers meanwhile must not be of before.
        page.route("**/*", nothing_new)
        before = so_far(steps)
        page.clock.run_for(300_000)
        # Both are whole seconds of what has a part of one.
        assert so_far(steps) >= before + 299
        assert int(re.search(r"· (\d+) min ago", head.inner_text())[1]) >= 5
        assert page.get_by_text("Ran for").locator("..").inner_text() == ran
        page.unroute("**/*")
        page.goto(f"/runs/{ended.public_id}/?tab=spec")
        page.route("**/*", nothing_new)
        hours = hours_ago(head)
        page.clock.run_for(3 * 3_600_000)
        assert hours_ago(head) >= hours + 3
        assert complaints == []
