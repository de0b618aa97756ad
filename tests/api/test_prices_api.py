"""Prices over REST: in USD or micro-USD, what a change would do, and prices from a table of machines."""

from __future__ import annotations

from datetime import timedelta

import pytest

from costs.models import LedgerEntry, Price
from foundation import clock
from tests.api.bench import RUNS, Unchanged, problem
from tests.factories.catalogue import make_price
from tests.factories.submitted import make_attempt, make_pod, run_body
from workloads.models import ResourceFlavor, Workload

PRICES = "/api/v1/prices/"
PREVIEW, IMPORT, IMPORT_PREVIEW = (f"{PRICES}{path}" for path in ("preview/", "import/", "import/preview/"))
TABLE = """provider,instance_type,gpu_model,gpu_count,gpu_memory_gib,on_demand_usd_per_hour,spot_usd_per_hour
aws,p4d.24xlarge,NVIDIA A100,8,40,21.957642,
gcp,a2-highgpu-1g,NVIDIA A100,1,40,3.673385,1.92802
aws,g4dn.xlarge,NVIDIA T4,1,16,-1,
"""


def price(**values):
    return {"card": "a100-40gb", "usd_per_card_hour": "2.5", **values}


def table(machine="p4d.24xlarge", **values):
    return {"csv": TABLE, "cards": [{"card": "a100-40gb", "instance_type": machine}], **values}


def test_a_price_may_be_given_in_usd(bench, manager):
    made = manager.post(PRICES, price(reason="x", usd_per_card_hour="2.744705", currency="USD"))
    assert made.status_code == 201, made.content
    assert made.json()["micro_usd_per_card_hour"] == 2_744_705


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"usd_per_card_hour": "-1"}, "usd_per_card_hour", "min_value"),
        ({"usd_per_card_hour": "1.1234567"}, "usd_per_card_hour", "max_decimal_places"),
        ({"usd_per_card_hour": "1e3"}, "usd_per_card_hour", "invalid"),
        ({"usd_per_card_hour": "NaN"}, "usd_per_card_hour", "invalid"),
        ({"usd_per_card_hour": "€2"}, "usd_per_card_hour", "invalid"),
        ({"usd_per_card_hour": 2.5}, "usd_per_card_hour", "invalid"),
        ({"usd_per_card_hour": "1000001"}, "usd_per_card_hour", "max_value"),
        ({"micro_usd_per_card_hour": 1}, "usd_per_card_hour", "exclusive"),
        ({"currency": "EUR"}, "currency", "invalid_choice"),
        ({"valid_from": "9999-01-01T00:00:00Z"}, "valid_from", "out_of_range"),
        ({"valid_from": "tomorrow"}, "valid_from", "invalid"),
        ({"card": "b300"}, "card", "unknown_card"),
        ({"capacity": "reserved"}, "capacity", "invalid_choice"),
    ],
)
def test_what_is_no_price_is_refused_by_its_field(bench, manager, values, field, code):
    with Unchanged():
        problem(manager.post(PRICES, price(reason="x", **values)), 422, field, code=code)


def test_a_price_without_an_amount_is_refused(bench, manager):
    body = {"card": "a100-40gb", "reason": "x"}
    problem(manager.post(PRICES, body), 422, "micro_usd_per_card_hour", code="required")


def test_a_preview_says_what_the_change_would_do_and_makes_nothing(bench, manager):
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb", gpus_per_replica=2)["id"])
    make_attempt(run)
    make_pod(run, units=2, scheduled_at=clock.now())
    with Unchanged():
        found = manager.post(PREVIEW, price(usd_per_card_hour="1800")).json()
    assert (found["before"]["usd"], found["after"]["usd"]) == ("3600.000000", "1800.000000")
    assert (found["difference"]["usd"], found["difference_percent"]) == ("-1800.000000", "-50.00")
    assert (found["outcome"], found["refused"], found["valid_until"]) == ("changed", [], None)
    (vision,) = found["teams"]
    assert (vision["team"], vision["cards"]) == ("vision", "2")
    assert vision["rate_per_hour_before"]["usd"] == "7200.000000"
    assert vision["rate_per_hour_after"]["usd"] == "3600.000000"
    assert vision["difference"]["usd"] == "-3600.000000"


def test_a_preview_says_why_a_price_would_be_refused_as_setting_it_does(bench, manager):
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
    make_attempt(run)
    make_pod(run, units=1, minutes=10)
    assert LedgerEntry.objects.exists()
    later = (clock.now() + timedelta(days=2)).isoformat()
    assert manager.post(PRICES, price(reason="x", valid_from=later)).status_code == 201
    sooner = (clock.now() + timedelta(days=1)).isoformat()
    for values, status, code in [
        ({"valid_from": sooner}, 409, "not_latest"),
        ({"valid_from": "2026-01-02T00:00:00Z"}, 409, None),
        ({"valid_from": "4001-01-01T00:00:00Z"}, 422, "out_of_range"),
        ({"card": "b300"}, 422, "unknown_card"),
    ]:
        found = manager.post(PREVIEW, price(**values)).json()
        refused = problem(manager.post(PRICES, price(reason="x", **values)), status, code=code)
        assert found["outcome"] == "refused"
        assert found["refused"] == refused["errors"]


def test_who_sets_no_prices_previews_none(bench):
    problem(bench.client.post(PREVIEW, price()), 403)
    problem(bench.client.post(IMPORT_PREVIEW, table()), 403)
    problem(bench.client.post(IMPORT, table(reason="x")), 403)


def test_an_import_is_looked_at_and_then_set(bench, manager):
    with Unchanged():
        found = manager.post(IMPORT_PREVIEW, table()).json()
    assert found["acceptable"]
    (first,) = found["prices"]
    assert first["instance"]["instance_type"] == "p4d.24xlarge"
    assert first["left_over"]["amount_micro_usd"] == 2
    assert first["change"]["after"]["amount_micro_usd"] == 2_744_705
    assert [(each["line"], each["column"], each["code"]) for each in found["problems"]] == [
        (4, "on_demand_usd_per_hour", "min_value")
    ]
    assert len(found["instances"]) == 2
    made = manager.post(IMPORT, table(reason="list prices"))
    assert made.status_code == 201, made.content
    (answered,) = made.json()["prices"]
    assert answered["micro_usd_per_card_hour"] == 2_744_705
    assert Price.objects.get(public_id=answered["id"]).reason == "list prices"


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"csv": TABLE.replace(",", ";")}, "csv", "invalid"),
        ({"csv": TABLE.replace("usd", "eur")}, "csv", "unknown_field"),
        ({"csv": ""}, "csv", "blank"),
        ({"csv": "x" * (1024 * 1024 + 1)}, "csv", "max_length"),
        ({"cards": []}, "cards", None),
        ({"cards": [{"card": "a100-40gb", "gpu_model": "NVIDIA A100", "gpu_memory_gib": "-4"}]},
         "cards.0.gpu_memory_gib", "invalid"),
    ],
)  # fmt: skip
def test_a_table_or_choice_that_is_none_is_refused_by_its_field(bench, manager, values, field, code):
    with Unchanged():
        problem(manager.post(IMPORT, table(reason="x") | values), 422, field, code=code)


def test_a_choice_that_names_no_line_that_can_be_read_says_what_is_wrong_with_the_lines(bench, manager):
    with Unchanged():
        refused = problem(manager.post(IMPORT, table("g4dn.xlarge", reason="x")), 422, "cards.0", "csv")
    assert "Line 4, column on_demand_usd_per_hour" in refused["errors"][1]["message"]


def test_a_preview_of_a_run_has_the_cost_on_demand_and_spot_side_by_side(bench):
    both = {"on-demand": {}, "spot": {}}
    ResourceFlavor.objects.update(capacity=both)
    body = run_body("vision", flavor="a100-40gb", gpus_per_replica=1, time_limit_seconds=100)
    cost = bench.client.post(f"{RUNS}preview/", body).json()["cost"]
    assert [each["capacity"] for each in cost["by_capacity"]] == ["on-demand"], "spot has no price"
    make_price(micro_usd=1_000_000_000, capacity_type="spot")
    cost = bench.client.post(f"{RUNS}preview/", body).json()["cost"]
    assert [
        (each["capacity"], each["rate_per_hour"]["usd"], each["at_time_limit"]["usd"])
        for each in cost["by_capacity"]
    ] == [("on-demand", "3600.000000", "100.000000"), ("spot", "1000.000000", "27.777777")]
    assert cost["at_time_limit"]["usd"] == "100.000000"
