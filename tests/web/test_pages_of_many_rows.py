"""A page asks as often of a long life and of many people as of a short one and of few."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from foundation import clock
from gateway.services import Bucket, Tally, add_request_counts
from inference.models import Endpoint
from quotas.requests import request_quota
from teams.actors import Actor
from teams.models import SecretName
from tests.api.test_lists_by_index import grow
from tests.effort import spread
from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.teams import make_member, make_team
from tests.web.queue_world import make_queue
from tests.web.test_forms import filled
from tests.web.test_page_budgets import join_a_cohort
from tests.web.test_submit_preview import AS_TYPED

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def queries(look: Callable[[], HttpResponse]) -> int:
    """How often the page asks when it is looked at again."""
    look()
    with CaptureQueriesContext(connection) as asked:
        assert look().status_code == 200
    return len(asked)


def multiply(row, count: int, **values) -> None:
    """So many rows like this one; a value may go by the number of the copy."""
    kept = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    del kept[row._meta.pk.attname]
    own = [{key: give(number) for key, give in values.items()} for number in range(count)]
    type(row).objects.bulk_create(type(row)(**{**kept, **each}) for each in own)


@pytest.fixture
def sleepy(world, settings):
    """An endpoint that sleeps while nobody calls, awake."""
    workload = world.sleeper(settings)
    world.start(workload)
    return workload


def live_long(workload) -> None:
    """More revisions, replicas, moves, calls and looks at its size."""
    now = clock.now().replace(second=0, microsecond=0)
    endpoint = Endpoint.objects.get(workload=workload)
    multiply(endpoint.current, 20, number=lambda number: number + 2, state=lambda _: "superseded")
    multiply(workload.pods.get(), 8, uid=lambda number: f"pod-{number}")
    multiply(workload.events.latest("id"), 30, to_phase=lambda number: ("Starting", "Running")[number % 2])
    for back in range(20):
        size = {"desired": back, "ready": back, "minimum": 0, "maximum": 30}
        endpoint.samples.create(at=now - MINUTE * 9 * back, metric=back, target=4, **size)
        bucket = Bucket(workload.public_id, 1, now - MINUTE * back, 2 + back % 3)
        add_request_counts(tallies={bucket: Tally(count=9, milliseconds=90, latency=[0, 9])})


@pytest.mark.parametrize(
    "tab", spread(["overview", "analytics", "update", "cost", "pods", "revisions"], usual=2)
)
@pytest.mark.parametrize("name", ["digits", "sleepy"])
def test_the_page_of_an_endpoint_asks_as_often_after_a_long_life(ana, made, sleepy, name, tab):
    workload = {**made, "sleepy": sleepy}[name]
    look = partial(ana.get, f"/endpoints/{workload.public_id}/?tab={tab}")
    before = queries(look)
    live_long(workload)
    assert queries(look) == before


def flourish(world, made) -> None:
    """More people, flavors, secrets, changes and requests, and more of what holds GPUs; and other teams."""
    actor, until = Actor.of_user(world.ana), world.now + timedelta(days=14)
    for number in range(6):
        make_member(team=world.team)
        flavor = make_flavor(f"card-{number}", resource=f"example.org/card-{number}")
        make_price(f"card-{number}")
        make_node(f"node-{number}")
        for team in (world.team, world.other, make_team(cohort_name=world.team.cohort_name)):
            make_quota(team, flavor)
        asked = {"flavor": flavor, "capacity_type": "on-demand", "units": number + 1, "until": until}
        request_quota(team=world.team, **asked, reason="A paper.", actor=actor, now=world.now)
        SecretName.objects.create(team=world.team, name=f"secret-{number}", keys=["token"])
    grow(made["resnet50"], 5, phase="Running", name=lambda number: f"more-{number}")


@pytest.mark.parametrize("page", spread(["", "quota/"], usual=1))
@pytest.mark.parametrize("cohort", [False, True])
def test_the_page_of_a_team_asks_as_often_when_the_team_has_grown(ana, world, made, cohort, page):
    if cohort:
        join_a_cohort(world)
        world.team.refresh_from_db()
    look = partial(ana.get, f"/teams/vision/{page}")
    before = queries(look)
    flourish(world, made)
    assert queries(look) == before


@pytest.mark.parametrize("page", spread(["preview", "run"], usual=1))
def test_a_card_asks_as_often_however_long_the_queue_is(ana, world, page):
    waits = make_queue(world)["bert-large"]
    look = {
        "preview": partial(
            ana.post, "/runs/new/", filled(name="new", gpus="8", action="check"), headers=AS_TYPED
        ),
        "run": partial(ana.get, f"/runs/{waits.public_id}/"),
    }[page]
    before = queries(look)
    for number in range(12):
        world.run(f"more-{number}", minutes_ago=7 + number, gpus_per_replica=4)
    assert queries(look) == before
