"""How many runs and endpoints of a team may be there that have not ended: each that waits is looked at in every pass."""

from __future__ import annotations

import pytest
from django.test import Client

from foundation import clock
from teams.actors import Actor
from teams.platform_settings import update_settings
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.submitted import endpoint_body, make_run, move, run_body
from tests.factories.teams import make_member, make_team
from workloads.models import Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db


def let(most: int | None) -> None:
    update_settings(actor=Actor.system("tests"), changes={"open_workloads": most}, now=clock.now())


def test_one_more_than_may_be_is_refused_until_another_has_ended(bench):
    let(2)
    others = make_team("others")
    make_run(others, make_member(team=others).user, name="elsewhere")
    bench.endpoint()
    first = bench.run(name="one")
    with Unchanged():
        for path, body in (
            (RUNS, run_body("vision", name="two")),
            (ENDPOINTS, endpoint_body("vision", name="two")),
        ):
            said = problem(bench.client.post(path, body), 409, code="too_many_workloads")
    assert "may have 2 runs and endpoints" in said["detail"]
    move(Workload.objects.get(public_id=first["id"]), Phase.SUCCEEDED)
    bench.run(name="two")


def test_the_members_of_a_sweep_count_together(bench):
    let(3)
    body = run_body("vision", flavor="a100-40gb", name="many", matrix={"parameters": {"seed": [1, 2, 3, 4]}})
    with Unchanged():
        problem(bench.client.post(RUNS, body), 409, code="too_many_workloads")
    let(4)
    assert bench.client.post(RUNS, body).status_code == 201


def test_no_limit_is_none_and_zero_lets_nobody_submit(bench):
    let(0)
    problem(bench.client.post(RUNS, run_body("vision")), 409, code="too_many_workloads")
    let(None)
    bench.run()


def test_the_form_and_a_button_say_so_too(bench):
    made = bench.run(name="one")
    move(Workload.objects.get(public_id=made["id"]), Phase.SUCCEEDED)
    let(0)
    page = Client()
    page.force_login(bench.user)
    typed = {**run_body("vision", name="two"), "command": "python train.py", "cpu": "1", "memory": "1Gi"}
    for url, sent in (("/runs/new/", typed), (f"/runs/{made['id']}/retry/", {})):
        said = page.post(url, sent, follow=True).content.decode()
        assert "may have 0 runs and endpoints that have not ended" in said
    assert Workload.objects.count() == 1
