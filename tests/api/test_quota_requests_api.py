"""Members ask for quota until a date, managers decide."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from quotas.models import Quota
from quotas.requests import PENDING_MAX
from tests.api.bench import Unchanged, problem
from tests.factories.teams import api_client, make_member, make_user

REQUESTS = "/api/v1/quota-requests/"
ANSWER = {
    "id", "team", "flavor", "capacity", "units", "until", "reason", "state", "requested_by", "requested_at",
    "decided_by", "decided_at", "comment", "returned_at",
}  # fmt: skip


@pytest.fixture
def good(bench):
    until = (clock.now() + timedelta(days=7)).isoformat()
    return {"team": "vision", "flavor": "a100-40gb", "units": 4, "until": until, "reason": "a paper"}


@pytest.fixture
def asked(bench, good):
    answer = bench.client.post(REQUESTS, good)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_a_member_asks_and_everybody_of_the_team_sees_it(bench, good):
    answer = bench.client.post(REQUESTS, good)
    made = answer.json()
    assert set(made) == ANSWER
    assert (made["state"], made["requested_by"], made["units"], made["decided_by"]) == (
        "pending",
        "ana",
        4,
        None,
    )
    assert answer["Location"].endswith(f"{REQUESTS}{made['id']}/")
    assert bench.client.get(f"{REQUESTS}{made['id']}/").json() == made
    assert api_client(bench.lead).get(REQUESTS).json()["results"] == [made]


def test_an_approved_request_raises_the_quota(bench, manager, asked):
    answer = manager.post(f"{REQUESTS}{asked['id']}/approve/", {"comment": "until the paper is in"})
    assert answer.status_code == 200
    decided = answer.json()
    assert (decided["state"], decided["decided_by"], decided["comment"]) == (
        "approved",
        "manager",
        "until the paper is in",
    )
    assert decided["decided_at"] is not None
    assert Quota.objects.get().nominal == 12
    with Unchanged():
        for verb in ("approve", "deny"):
            problem(manager.post(f"{REQUESTS}{asked['id']}/{verb}/", {}), 409)
        problem(bench.client.post(f"{REQUESTS}{asked['id']}/withdraw/"), 409)


def test_a_denied_request_changes_no_quota(bench, manager, asked):
    decided = manager.post(f"{REQUESTS}{asked['id']}/deny/", {"comment": "not this month"}).json()
    assert (decided["state"], decided["comment"]) == ("denied", "not this month")
    assert Quota.objects.get().nominal == 8


def test_who_asked_takes_it_back_and_nobody_else(bench, asked):
    lead = api_client(bench.lead)
    with Unchanged():
        problem(lead.post(f"{REQUESTS}{asked['id']}/withdraw/"), 403)
    taken = bench.client.post(f"{REQUESTS}{asked['id']}/withdraw/")
    assert (taken.status_code, taken.json()["state"]) == (200, "withdrawn")


def test_viewers_and_strangers_do_not_ask(bench, good):
    viewer = api_client(make_member("viewer", team=bench.team).user)
    stranger = api_client(make_user())
    with Unchanged():
        problem(viewer.post(REQUESTS, good), 403, code="viewer_only")
        problem(stranger.post(REQUESTS, good), 404, "team")
        problem(bench.client.post(REQUESTS, good | {"team": "nope"}), 404, "team")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", "4"),
        ("flavor", "nope"),
        ("flavor", 5),
        ("capacity", "reserved"),
        ("until", "yesterday"),
        ("until", "2020-01-01T00:00:00Z"),
        ("until", "0001-01-01T00:00:00+14:00"),
        ("until", 5),
        ("until", None),
        ("reason", ""),
        ("reason", "x" * 1001),
        ("state", "approved"),
    ],
)
def test_a_wrong_request_is_refused_by_name(bench, good, field, value):
    with Unchanged():
        problem(bench.client.post(REQUESTS, good | {field: value}), 422, field)


def test_requests_are_filtered(bench, manager, good, asked):
    second = bench.client.post(REQUESTS, good | {"units": 1, "reason": "another"}).json()
    manager.post(f"{REQUESTS}{asked['id']}/deny/", {})

    def ids(**query):
        return [each["id"] for each in manager.get(REQUESTS, query).json()["results"]]

    assert ids() == [second["id"], asked["id"]]
    assert ids(state="pending") == [second["id"]]
    assert ids(state="denied,pending", ordering="requested_at") == [asked["id"], second["id"]]
    assert ids(team="vision") == ids()
    assert ids(team="nope") == []
    problem(manager.get(REQUESTS, {"state": "open"}), 400, "state")


def test_a_team_has_so_many_that_wait_for_a_decision(bench, good):
    """Thousands that end at one moment are ended one by one, while nobody in their pool is admitted."""
    made = [bench.client.post(REQUESTS, good) for _ in range(PENDING_MAX)]
    assert {answer.status_code for answer in made} == {201}
    lead = api_client(bench.lead)
    with Unchanged():
        problem(lead.post(REQUESTS, good), 409, code="too_many_requests")
    assert bench.client.post(f"{REQUESTS}{made[0].json()['id']}/withdraw/").status_code == 200
    assert bench.client.post(REQUESTS, good).status_code == 201
