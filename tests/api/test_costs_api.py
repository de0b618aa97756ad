"""Prices and the ledger over REST: integer micro-USD, and sides that add up to nothing."""

from __future__ import annotations

from collections import defaultdict

import pytest

from costs.models import Price
from tests.api.bench import Unchanged, problem
from tests.factories.submitted import make_attempt, make_pod
from tests.factories.teams import api_client, make_member, make_team, make_user
from workloads.models import Workload

PRICES, LEDGER = "/api/v1/prices/", "/api/v1/ledger/"


@pytest.fixture
def manager(bench):
    return api_client(make_user("manager", quota_manager=True))


@pytest.fixture
def billed(bench):
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
    make_attempt(run)
    make_pod(run, units=1, minutes=10)
    return run


def test_a_price_is_set_from_a_moment_on(bench, manager):
    answer = manager.post(PRICES, {"card": "a100-40gb", "micro_usd_per_card_hour": 7, "reason": "cheaper"})
    assert answer.status_code == 201
    assert answer.json()["micro_usd_per_card_hour"] == 7
    newest, oldest = bench.client.get(PRICES, {"card": "a100-40gb"}).json()["results"]
    assert newest["valid_until"] is None
    assert oldest["valid_until"] == newest["valid_from"]


def test_the_same_price_twice_is_one_and_another_at_that_time_is_a_conflict(bench, manager):
    body = {"card": "h100", "micro_usd_per_card_hour": 7, "reason": "x", "valid_from": "2026-06-01T00:00:00Z"}
    assert manager.post(PRICES, body).status_code == 201
    with Unchanged():
        assert manager.post(PRICES, body).status_code == 201
        other = body | {"micro_usd_per_card_hour": 8}
        problem(manager.post(PRICES, other), 409, "valid_from")
    assert Price.objects.filter(priced__card="h100").count() == 1


def test_a_price_may_be_set_before_the_first_and_ends_where_that_begins(bench, manager):
    body = {"card": "h100", "micro_usd_per_card_hour": 7, "reason": "x", "valid_from": "2026-06-01T00:00:00Z"}
    assert manager.post(PRICES, body).status_code == 201
    earlier = manager.post(PRICES, body | {"valid_from": "2026-05-01T00:00:00Z"})
    assert earlier.status_code == 201
    assert earlier.json()["valid_until"] == "2026-06-01T00:00:00Z"
    with Unchanged():
        between = body | {"micro_usd_per_card_hour": 9, "valid_from": "2026-05-15T00:00:00Z"}
        problem(manager.post(PRICES, between), 409, "valid_from")


def test_only_managers_set_prices(bench):
    body = {"card": "h100", "micro_usd_per_card_hour": 7, "reason": "x"}
    clients = [bench.client, api_client(bench.lead)]
    with Unchanged():
        for client in clients:
            problem(client.post(PRICES, body), 403, code="role_missing")


def test_what_is_billed_already_cannot_get_another_price(bench, manager, billed):
    with Unchanged():
        body = {
            "card": "a100-40gb",
            "micro_usd_per_card_hour": 1,
            "reason": "x",
            "valid_from": "2026-01-02T00:00:00Z",
        }
        problem(manager.post(PRICES, body), 409, "valid_from", code="already_billed")


def test_the_ledger_is_told_to_the_micro_dollar_and_adds_up(bench, billed):
    entries = bench.client.get(LEDGER).json()["results"]
    sums = defaultdict(int)
    for entry in entries:
        assert isinstance(entry["amount"]["amount_micro_usd"], int)
        sums[entry["transaction_id"]] += entry["amount"]["amount_micro_usd"]
    assert set(sums.values()) == {0}
    own = bench.client.get(LEDGER, {"account": "team:vision"}).json()["results"]
    assert sum(each["amount"]["amount_micro_usd"] for each in own) == 600 * 10**6
    assert own[0]["workload"] == str(billed.public_id)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"team": "vision"}, 2),
        ({"team": "audio"}, 0),
        ({"account": "team:audio"}, 0),
        ({"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"}, 0),
        ({"from": "2020-01-01T00:00:00+19:01"}, 2),
        ({"pod_uid": "x"}, 0),
        ({"limit": 1}, 1),
    ],
)
def test_the_ledger_is_filtered(bench, billed, query, count):
    assert len(bench.client.get(LEDGER, query).json()["results"]) == count


def test_the_ledger_of_another_team_is_not_told(bench, billed):
    stranger = api_client(make_member("lead", team=make_team("audio")).user)
    for query in ({}, {"team": "vision"}, {"workload": str(billed.public_id)}, {"account": "team:vision"}):
        assert stranger.get(LEDGER, query).json()["results"] == []


def test_nothing_in_the_ledger_can_be_written(bench, manager, billed):
    with Unchanged():
        for method in ("post", "put", "patch", "delete"):
            problem(getattr(manager, method)(LEDGER, {}), 405)
