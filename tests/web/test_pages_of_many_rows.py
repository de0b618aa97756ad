"""A page asks as often of a long life and of many people as of a short one and of few."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation import clock
from gateway.services import Bucket, Tally, add_request_counts
from inference.models import Endpoint
from quotas.cohorts import create_cohort
from teams.actors import Actor
from teams.models import SecretName
from teams.services import update_team
from tests.api.test_lists_by_index import grow
from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.teams import make_member, make_team

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def queries(client, address: str) -> int:
    """How often the page asks."""
    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200
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


@pytest.mark.parametrize("tab", ["overview", "analytics", "try", "update", "cost", "pods", "revisions"])
@pytest.mark.parametrize("name", ["digits", "sleepy"])
def test_the_page_of_an_endpoint_asks_as_often_after_a_long_life(ana, made, sleepy, name, tab):
    workload = {**made, "sleepy": sleepy}[name]
    address = f"/endpoints/{workload.public_id}/?tab={tab}"
    queries(ana, address)
    before = queries(ana, address)
    live_long(workload)
    assert queries(ana, address) == before


def flourish(world, made) -> None:
    """More people, flavors, secrets and changes, and more of what holds GPUs; and other teams."""
    for number in range(6):
        make_member(team=world.team)
        flavor = make_flavor(f"card-{number}", resource=f"example.org/card-{number}")
        make_price(f"card-{number}")
        make_node(f"node-{number}")
        for team in (world.team, world.other, make_team(cohort_name=world.team.cohort_name)):
            make_quota(team, flavor)
        SecretName.objects.create(team=world.team, name=f"secret-{number}", keys=["token"])
    grow(made["resnet50"], 5, phase="Running", name=lambda number: f"more-{number}")


@pytest.mark.parametrize("page", ["", "quota/"])
@pytest.mark.parametrize("cohort", ["", "research"])
def test_the_page_of_a_team_asks_as_often_when_the_team_has_grown(ana, world, made, cohort, page):
    if cohort:
        manager = Actor.of_user(world.manager)
        create_cohort(name=cohort, parent=None, actor=manager, now=world.now)
        for team in (world.team, world.other):
            update_team(team=team, changes={"cohort_name": cohort}, actor=manager, now=world.now)
        world.team.refresh_from_db()
    address = f"/teams/vision/{page}"
    queries(ana, address)
    before = queries(ana, address)
    flourish(world, made)
    assert queries(ana, address) == before
