"""How many sweeps of a team may be open at once: each costs a look every few seconds, and up to thousands of rows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from foundation import clock
from jobs.models import Sweep
from jobs.sweeps.services import advance_sweep
from teams.actors import Actor
from teams.platform_settings import update_settings
from tests.api.bench import RUNS, problem
from tests.factories.submitted import move, run_body
from tests.factories.teams import api_client, make_member, make_team, make_user
from workloads.states import Phase

ASKED = 4


def let(most: int | None) -> None:
    update_settings(actor=Actor.system("tests"), changes={"open_sweeps": most}, now=clock.now())


def body(name: str, team: str = "vision") -> dict[str, object]:
    return run_body(team, flavor="a100-40gb", name=name, matrix={"parameters": {"seed": [1, 2]}})


def submit(bench, name: str):
    return bench.client.post(RUNS, body(name))


@pytest.mark.django_db
def test_one_more_than_may_be_open_is_refused_by_the_preview_too_until_another_has_ended(bench):
    let(2)
    first = submit(bench, "one").json()
    assert submit(bench, "two").status_code == 201
    said = problem(submit(bench, "three"), 409, "matrix", code="too_many_sweeps")
    assert "2 open sweeps, and 2 is the most" in said["detail"]
    problem(bench.client.post(f"{RUNS}preview/", body("three")), 409, "matrix", code="too_many_sweeps")
    assert bench.run(name="plain")["phase"] == "Queued", "a run without a matrix is none"
    for run in Sweep.objects.get(public_id=first["id"]).members.select_related("workload"):
        move(run.workload, Phase.SUCCEEDED)
    advance_sweep(sweep_id=first["id"], now=clock.now())
    assert submit(bench, "three").status_code == 201


@pytest.mark.django_db
def test_a_teams_open_sweeps_are_its_own_and_no_limit_is_none(bench):
    nlp = make_team("nlp")
    other = api_client(make_member(team=nlp, user=make_user("nina")).user)
    let(1)
    assert submit(bench, "one").status_code == 201
    unpriced = run_body("nlp", name="one", gpus_per_replica=0, matrix={"parameters": {"seed": [1, 2]}})
    assert other.post(RUNS, unpriced).status_code == 201
    let(None)
    assert submit(bench, "two").status_code == 201


@pytest.mark.django_db
def test_who_may_not_submit_is_told_that_first(bench):
    let(0)
    viewer = api_client(make_member("viewer", team=bench.team, user=make_user("vic")).user)
    problem(viewer.post(RUNS, body("one")), 403)


@pytest.mark.django_db(transaction=True)
def test_sweeps_submitted_at_once_do_not_pass_the_limit_together(bench):
    let(1)
    start = threading.Barrier(ASKED)

    def ask(number: int) -> int:
        try:
            start.wait(30)
            return api_client(bench.user).post(RUNS, body(f"sweep{number}")).status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(ASKED) as pool:
        told = sorted(pool.map(ask, range(ASKED)))
    assert told == [201, *[409] * (ASKED - 1)]
    assert Sweep.objects.count() == 1
