"""What a page asks of the database is bounded, however many rows it shows; and the first page reads no past."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.test import override_settings

from foundation import clock
from inference.autoscaling.state import WAKES_SHOWN, slept
from inference.now import endpoint_now
from quotas.cohorts import create_cohort
from quotas.services import release
from teams.actors import Actor
from teams.services import update_team
from tests.api.test_lists_by_index import grow
from tests.effort import spread
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.workloads import put_in
from tests.plans import rows_answered, rows_read
from tests.web.conftest import signed_in
from tests.web.queue_world import make_queue
from tests.web.world import PROMETHEUS
from workloads.models import WorkloadEvent
from workloads.services import end_attempt
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db

QUERIES_MAX = {
    "/": 12,
    "/runs/": 10,
    "/runs/?phase=live&search=re&label=a&mine=1": 10,
    "/endpoints/": 12,
    "/teams/vision/runs/": 10,
    "/teams/vision/endpoints/": 12,
    "/teams/vision/": 12,
    "/teams/vision/quota/": 12,
    "/go/": 6,
    "/go/?search=re": 8,
    "/profile/": 6,
    "/profile/password/": 4,
    "/audit/": 8,
    "/audit/?what=people&team=vision": 8,
    "/what-fits/": 4,
    "/costs/": 12,
    "/costs/?month=2026-02&by=user": 12,
    "/costs/this-month/": 10,
    "/costs/?from=2026-02-03&to=2026-02-09&by=phase": 12,
    "/idle/": 10,
    "/cluster/": 8,
    "/cluster/?view=table": 8,
    "/cluster/?flavor=a100-40gb&gpus=4&pods=2": 10,
    "/cluster/nodes/a100-0/": 11,
    "/settings/": 4,
    "/notices/": 8,
    "/notices/new/": 6,
    "/runs/import/": 4,
    "/runs/new/": 11,
    "/teams/vision/runs/new/": 11,
    "/runs/new/?from={resnet50}": 12,
    "/endpoints/new/": 9,
    "/endpoints/new/?from={digits}": 11,
    # It runs, has ended, waits for the first time, waits again.
    "/runs/{resnet50}/": 11,
    "/runs/{unet-3d}/": 12,
    "/runs/{bert-large}/": 12,
    "/runs/{evicted}/": 12,
    "/api/v1/training-runs/{resnet50}/": 7,
    "/api/v1/training-runs/{bert-large}/waiting/": 12,
    "/endpoints/{fresh}/": 12,
    "/endpoints/{fresh}/?tab=manifests": 12,
    "/endpoints/{digits}/": 12,
    "/endpoints/{sleepy}/": 12,
    "/endpoints/{sleepy}/?tab=analytics": 12,
    "/endpoints/{sleepy}/?tab=manifests": 12,
    "/endpoints/{sleepy}/?range=6h": 12,
    "/endpoints/{digits}/?tab=gpus": 12,
    "/endpoints/{digits}/?tab=access": 12,
    "/endpoints/{digits}/?tab=analytics": 12,
    "/endpoints/{digits}/?tab=logs": 12,
    "/endpoints/{digits}/?tab=revisions": 11,
    "/endpoints/{digits}/?tab=update": 9,
    "/endpoints/{digits}/?tab=cost": 12,
    "/endpoints/{digits}/?tab=manifests": 12,
    "/runs/{resnet50}/?tab=manifests": 12,
    "/runs/{bert-large}/?tab=manifests": 12,
    "/runs/{evicted}/?tab=manifests": 12,
}
OF_A_MANAGER = {
    "/": 12,
    "/duties/": 12,
    "/cluster/": 8,
    "/cluster/nodes/a100-0/": 11,
    "/settings/": 4,
    "/teams/vision/": 12,
    "/quotas/": 12,
    "/quotas/draft/": 12,
    "/quotas/changes/": 5,
    "/quotas/requests/": 5,
    "/cluster/strays/": 6,
    "/quotas/cohorts/": 6,
    "/quotas/teams/": 5,
    "/quotas/teams/vision/": 7,
    "/costs/": 12,
    "/costs/?by=team": 12,
    "/costs/?team=vision": 12,
    "/costs/capacity/": 12,
    "/idle/rules/idle/": 6,
    "/admin/": 6,
    "/admin/quotas/quota/": 9,
    "/admin/costs/price/": 9,
}


@pytest.fixture(scope="module")
def standing_shown(stands, standing_world, standing_workloads):
    return stands(show, standing_world, standing_workloads)


@pytest.fixture
def shown(own, made, standing_shown, settings):
    settings.PROMETHEUS_URL = PROMETHEUS
    return own(standing_shown)


def show(world, made):
    """The world's workloads by name, an endpoint that may sleep, and a run that had to leave and waits again."""
    with override_settings():
        sleepy = world.sleeper(settings)
    world.start(sleepy)
    for number in range(4):
        world.run(f"more-{number}")
        world.endpoint(f"served-{number}")
    return {**made, "sleepy": sleepy, "evicted": evicted(world), "fresh": world.endpoint("fresh")}


def evicted(world):
    run = world.run("evicted")
    world.log(world.start(run), "epoch 1/10")
    how = {"phase": Phase.FAILED, "reason": Reason.PREEMPTED.value, "message": "", "exit_code": None}
    end_attempt(run.attempts.get(), **how, ended_at=world.now)
    release(workload=run, now=world.now)
    return put_in(run, Phase.QUEUED, reason=Reason.PREEMPTED)


WAKE = (
    (Phase.STARTING, Reason.WAKING),
    (Phase.RUNNING, Reason.READY),
    (Phase.RUNNING, Reason.SCALED_TO_ZERO),
)


@pytest.mark.parametrize("address", ["/endpoints/{}/", "/api/v1/endpoints/{}/scaling/"])
def test_an_endpoint_that_slept_a_thousand_times_is_shown_by_its_newest_moves_and_the_sum_of_all(
    ana, shown, world, address
):
    sleepy, second = shown["sleepy"], timedelta(seconds=1)
    moves = [(phase, reason) for _ in range(1000) for phase, reason in WAKE]
    WorkloadEvent.objects.bulk_create(
        WorkloadEvent(
            workload=sleepy, at=world.now + number * second, to_phase=phase.value, reason=reason.value
        )
        for number, (phase, reason) in enumerate(moves)
    )
    assert rows_answered(lambda: ana.get(address.format(sleepy.public_id))) < len(moves)
    # Of the last sleep it knows no end but now, which is a second later here.
    found = slept(sleepy, endpoint_now(sleepy).spec, now=world.now + len(moves) * second)
    assert (found.asleep_seconds, found.cold_start_seconds, len(found.wakes)) == (1000, 1, WAKES_SHOWN)


@pytest.mark.parametrize("path", spread(QUERIES_MAX, usual=12))
def test_a_page_asks_a_bounded_number_of_queries(ana, shown, path, django_assert_max_num_queries):
    address = path.format(**{name: each.public_id for name, each in shown.items()})
    assert ana.get(address).status_code == 200
    with django_assert_max_num_queries(QUERIES_MAX[path]):
        ana.get(address)


@pytest.mark.parametrize("path", spread(OF_A_MANAGER, usual=5))
def test_a_page_of_who_manages_quotas_asks_a_bounded_number(made, world, path, django_assert_max_num_queries):
    manager = signed_in(world.manager)
    assert manager.get(path).status_code == 200
    with django_assert_max_num_queries(OF_A_MANAGER[path]):
        manager.get(path)


def test_the_duties_of_a_lead_ask_a_bounded_number(made, world, django_assert_max_num_queries):
    lead = signed_in(world.lead)
    assert lead.get("/duties/").context["waiting"].count
    with django_assert_max_num_queries(12):
        lead.get("/duties/")


def test_the_volumes_of_a_team_ask_a_bounded_number(
    ana, world, devcluster, settings, django_assert_max_num_queries
):
    settings.CLUSTER_KUBECONFIG = devcluster
    assert ana.get("/teams/vision/volumes/").status_code == 200
    with django_assert_max_num_queries(5):
        ana.get("/teams/vision/volumes/")


@pytest.mark.parametrize("path", ["/teams/vision/", "/teams/vision/quota/"])
def test_a_page_of_a_team_that_borrows_asks_as_often_as_of_one_alone(
    ana, made, world, path, django_assert_max_num_queries
):
    join_a_cohort(world)
    lines = ana.get(path).context["lines"]
    assert {line.figures.cohort for line in lines} == {"research"}
    with django_assert_max_num_queries(QUERIES_MAX[path]):
        ana.get(path)


def join_a_cohort(world):
    manager = Actor.of_user(world.manager)
    create_cohort(name="research", parent=None, actor=manager, now=world.now)
    for team in (world.team, world.other):
        update_team(team=team, changes={"cohort_name": "research"}, actor=manager, now=world.now)


@pytest.mark.parametrize("name", ["vit-huge", "bert-large"])
def test_the_card_of_a_full_pool_asks_no_more_however_many_pools_there_are(
    world, name, django_assert_max_num_queries
):
    waits, client = make_queue(world)[name], signed_in(world.ana)
    for number in range(4):
        make_quota(world.team, make_flavor(f"other-{number}"), 2)
    with django_assert_max_num_queries(12):
        assert client.get(f"/runs/{waits.public_id}/").context["waiting"].ahead


def test_the_first_page_of_a_portal_without_workloads_asks_no_more(world, django_assert_max_num_queries):
    for who in (world.manager, world.ana):
        client = signed_in(who)
        assert client.get("/").context["is_new"]
        with django_assert_max_num_queries(OF_A_MANAGER["/"]):
            client.get("/")


def test_the_first_page_is_as_short_after_a_long_past(made, world):
    before = [rows_read(lambda who=who: signed_in(who).get("/")) for who in (world.ana, world.manager)]
    old = clock.now() - timedelta(days=30)
    grow(
        made["unet-3d"],
        400,
        phase=lambda number: ("Failed", "Succeeded")[number % 2],
        finished_at=old,
        since=old,
    )
    after = [rows_read(lambda who=who: signed_in(who).get("/")) for who in (world.ana, world.manager)]
    # Of 400 rows; the plan itself may take some more or less of those that live.
    assert all(later <= earlier + 20 for earlier, later in zip(before, after, strict=True))
