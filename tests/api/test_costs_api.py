"""Prices, the ledger, its sums and the settings over REST: integer micro-USD, and sides that add up to nothing."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from rest_framework.serializers import IntegerField

from costs.models import LedgerEntry, Price, UsageInterval
from costs.prices.services import withdraw_price
from costs.reports.queries import ledger_difference
from foundation import clock
from foundation.errors import Conflict
from foundation.models import PlatformSettings
from teams.api.serializers import SettingsUpdateSerializer
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import make_attempt, make_pod
from tests.factories.teams import ACTOR, api_client, make_user
from workloads.models import Workload

# A line of the ledger ends with its day.
pytestmark = pytest.mark.usefixtures("within_month")

PRICES, LEDGER = "/api/v1/prices/", "/api/v1/ledger/"
COSTS, IDLE, EXPORT, ADJUSTMENTS, SETTINGS = (
    f"/api/v1/{path}" for path in ("costs/", "costs/idle/", "costs/export.csv", "adjustments/", "settings/")
)


@pytest.fixture
def h100(bench):
    return make_flavor("h100")


def price(**values):
    return {"card": "a100-40gb", "micro_usd_per_card_hour": 7, "reason": "x", **values}


@pytest.fixture
def billed(bench):
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
    make_attempt(run)
    make_pod(run, units=1, minutes=10)
    return run


@pytest.fixture
def charged(billed):
    """The line of the team that the run was billed to."""
    return LedgerEntry.objects.get(account__startswith="team:", amount_micro_usd__gt=0)


def test_a_price_is_set_from_a_moment_on(bench, manager):
    answer = manager.post(PRICES, {"card": "a100-40gb", "micro_usd_per_card_hour": 7, "reason": "cheaper"})
    assert answer.status_code == 201
    assert answer.json()["micro_usd_per_card_hour"] == 7
    newest, oldest = bench.client.get(PRICES, {"card": "a100-40gb"}).json()["results"]
    assert newest["valid_until"] is None
    assert oldest["valid_until"] == newest["valid_from"]


def test_the_same_price_twice_is_one_and_another_at_that_time_is_a_conflict(bench, manager, h100):
    body = price(card="h100", valid_from="2026-06-01T00:00:00Z")
    assert manager.post(PRICES, body).status_code == 201
    with Unchanged():
        assert manager.post(PRICES, body).status_code == 201
        other = body | {"micro_usd_per_card_hour": 8}
        problem(manager.post(PRICES, other), 409, "valid_from")
    assert Price.objects.filter(priced__card="h100").count() == 1


def test_a_price_may_be_set_before_the_first_and_ends_where_that_begins(bench, manager, h100):
    body = price(card="h100", valid_from="2026-06-01T00:00:00Z")
    assert manager.post(PRICES, body).status_code == 201
    earlier = manager.post(PRICES, body | {"valid_from": "2026-05-01T00:00:00Z"})
    assert earlier.status_code == 201
    assert earlier.json()["valid_until"] == "2026-06-01T00:00:00Z"
    with Unchanged():
        between = body | {"micro_usd_per_card_hour": 9, "valid_from": "2026-05-15T00:00:00Z"}
        problem(manager.post(PRICES, between), 409, "valid_from")


@pytest.mark.parametrize("moment", ["0099-06-01T00:00:00Z", "1969-12-31T23:59:59Z", "4000-01-01T00:00:00Z"])
def test_a_price_of_an_age_that_is_no_ones_is_refused_by_its_field(bench, manager, h100, moment):
    """The database tells prices of cards apart by seconds from 1970 on; beyond its reach two cards' would overlap."""
    body = price(card="h100")
    for furthest in ("3999-12-31T23:59:59Z", "1970-01-01T00:00:00Z"):
        assert manager.post(PRICES, body | {"valid_from": furthest}).status_code == 201
    with Unchanged():
        problem(manager.post(PRICES, body | {"card": "a100-40gb", "valid_from": moment}), 422, "valid_from")


def test_a_price_that_has_not_begun_is_taken_back_and_the_one_before_goes_on(bench, manager):
    (now,) = manager.get(PRICES).json()["results"]
    later = clock.now() + timedelta(days=7)
    asked = price(micro_usd_per_card_hour=9, valid_from=later.isoformat())
    made = manager.post(PRICES, asked)
    assert manager.get(made["Location"]).json() == made.json()
    with Unchanged():
        problem(manager.delete(f"{PRICES}{now['id']}/"), 409, code="price_began")
        problem(bench.client.delete(made["Location"]), 403)
    assert manager.delete(made["Location"]).status_code == 204
    assert manager.get(PRICES).json()["results"] == [now], "without an end again"
    problem(manager.delete(made["Location"]), 404)
    sooner = later - timedelta(days=3)
    assert manager.post(PRICES, asked | {"valid_from": sooner.isoformat()}).status_code == 201


def test_a_price_that_began_while_its_lock_was_waited_for_stays(bench, manager):
    body = price(micro_usd_per_card_hour=9, valid_from=(clock.now() + timedelta(hours=1)).isoformat())
    made = Price.objects.get(public_id=manager.post(PRICES, body).json()["id"])
    read_before_the_lock = clock.now()
    with clock.freeze(clock.now() + timedelta(hours=2)), pytest.raises(Conflict):
        withdraw_price(price=made, actor=ACTOR, now=read_before_the_lock)
    assert Price.objects.filter(pk=made.pk).exists()


def test_a_card_that_no_flavor_has_any_more_gets_a_price_if_it_was_used(bench, manager, charged):
    UsageInterval.objects.update(card="retired")
    assert manager.post(PRICES, price(card="retired")).status_code == 201


def test_a_price_of_a_card_that_no_flavor_has_is_refused_by_its_field(bench, manager):
    with Unchanged():
        refused = problem(manager.post(PRICES, price(card="b300")), 422, "card", code="unknown_card")
    assert "There is: a100-40gb." in refused["detail"]


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


def test_nothing_in_the_ledger_can_be_written(bench, manager, billed):
    with Unchanged():
        for method in ("post", "put", "patch", "delete"):
            problem(getattr(manager, method)(LEDGER, {}), 405)


# --- sums, adjustments, settings


ALWAYS = {"from": "2000-01-01T00:00:00Z"}
"""A run that ended ten minutes ago may lie in another month."""


@pytest.mark.parametrize(
    "group_by", ["team", "user", "project", "flavor", "capacity", "phase", "workload", "day", "month"]
)
def test_what_was_charged_is_summed_by_every_group(bench, charged, group_by):
    answer = bench.client.get(COSTS, {"group_by": group_by, **ALWAYS}).json()
    groups = [each for each in answer["results"] if each["amount"]["amount_micro_usd"]]
    assert sum(each["amount"]["amount_micro_usd"] for each in groups) == charged.amount_micro_usd
    assert answer["total"]["amount_micro_usd"] == charged.amount_micro_usd
    keys = {
        "team": {charged.team.slug},
        "user": {charged.user.username},
        "project": {charged.project},
        "flavor": {charged.flavor_name},
        "capacity": {"on-demand"},
        "workload": {str(charged.workload.public_id)},
    }
    if group_by in keys:
        assert {each["key"] for each in groups} == keys[group_by]
    for each in groups:
        assert (each["workload"] is not None) == (group_by == "workload")


def test_a_run_that_goes_on_counts_as_its_own_page_says(bench):
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
    make_attempt(run)
    make_pod(run, units=1, minutes=10, finished_at=None)
    with clock.freeze(clock.now()):
        own = bench.client.get(f"/api/v1/training-runs/{run.public_id}/").json()["cost"]["so_far"]
        (group,) = bench.client.get(COSTS, {"group_by": "workload", **ALWAYS}).json()["results"]
        assert group["amount"] == own
        assert group["running"] == own
        assert own["amount_micro_usd"] > 0


def test_this_month_is_meant_unless_a_time_is_given(bench, charged):
    with clock.freeze(datetime(2026, 12, 17, tzinfo=UTC)):
        answer = bench.client.get(COSTS).json()
    assert (answer["from"], answer["to"]) == ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
    before = {"to": charged.started_at.isoformat()}
    open_ended = bench.client.get(COSTS, before).json()
    assert (open_ended["results"], open_ended["from"]) == ([], None)
    assert len(bench.client.get(COSTS, {"from": charged.started_at.isoformat()}).json()["results"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"group_by": "owner"}, "group_by"),
        ({"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "to"),
        ({"from": "yesterday"}, "from"),
        ({"capacity": "free"}, "capacity"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"ordering": "size"}, "ordering"),
        ({"ordering": "key", "group_by": "workload"}, "ordering"),
        ({"tema": "vision"}, "tema"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(bench, query, field):
    problem(bench.client.get(COSTS, query), 400, field)


def test_groups_that_are_left_out_are_said_and_are_in_the_total(bench, charged):
    for _ in range(2):
        run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
        make_attempt(run)
        make_pod(run, units=1, minutes=5)
    answer = bench.client.get(COSTS, {"group_by": "workload", "limit": "1", **ALWAYS}).json()
    (first,) = answer["results"]
    assert first["key"] == str(charged.workload.public_id)
    assert first["workload"]["team"] == charged.team.slug
    assert not answer["complete"]
    assert answer["total"]["amount_micro_usd"] == 2 * charged.amount_micro_usd


def test_strangers_see_no_sum_and_no_line(charged):
    stranger = api_client(make_user())
    assert stranger.get(COSTS, ALWAYS).json()["results"] == []
    assert (
        stranger.get(COSTS, {"user": charged.user.username, **ALWAYS}).json()["total"]["amount_micro_usd"]
        == 0
    )
    assert len(b"".join(stranger.get(EXPORT, ALWAYS).streaming_content).splitlines()) == 1
    for address in (COSTS, EXPORT):
        for team in (charged.team.slug, "no-such-team"):
            problem(stranger.get(address, {"team": team}), 404, "team")


def test_idle_capacity_is_told_to_who_has_a_global_role(bench, manager, charged):
    answer = manager.get(IDLE, ALWAYS).json()
    (lane,) = answer["results"]
    assert (lane["card"], lane["capacity"]) == (bench.flavor.card, "on-demand")
    assert lane["charged"]["amount_micro_usd"] == charged.amount_micro_usd
    assert lane["idle_share"] == 0
    assert answer["spot"]["saved"]["amount_micro_usd"] == 0
    problem(bench.client.get(IDLE), 403, code="role_missing")
    problem(manager.get(IDLE, {"team": "vision"}), 400, "team")


def test_the_export_holds_the_ledgers_lines_in_columns_of_focus_and_no_formula(bench, manager, charged):
    body = {"transaction_id": str(charged.transaction_id), "reason": "=cmd|' /C calc'!A0"}
    assert manager.post(ADJUSTMENTS, body).status_code == 201
    text = b"".join(bench.client.get(EXPORT, ALWAYS).streaming_content).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [int(line["x_MicroUsd"]) for line in lines] == [
        charged.amount_micro_usd,
        -charged.amount_micro_usd,
    ]
    assert [Decimal(line["BilledCost"]) for line in lines] == [Decimal(600), Decimal(-600)]
    assert lines[1]["x_Reason"].startswith("'=")
    first = lines[0]
    assert (first["ChargeCategory"], first["ChargeClass"], first["PricingCategory"]) == (
        "Usage",
        "",
        "Standard",
    )
    assert (first["ConsumedQuantity"], first["ConsumedUnit"]) == ("600", "Unit-Seconds")
    assert Decimal(first["PricingQuantity"]) * Decimal(first["ContractedUnitPrice"]) == pytest.approx(
        Decimal(600)
    )
    assert (first["SubAccountId"], first["x_PodUid"]) == (bench.team.slug, charged.pod_uid)


def test_the_export_is_had_by_who_asks_for_csv_and_takes_no_pages(bench, charged):
    answered = bench.client.get(EXPORT, ALWAYS, headers={"Accept": "text/csv"})
    assert (answered.status_code, answered["Content-Type"]) == (200, "text/csv; charset=utf-8")
    (line,) = csv.DictReader(io.StringIO(b"".join(answered.streaming_content).decode()))
    assert line["x_Account"] == charged.account == f"team:{bench.team.slug}"
    problem(bench.client.get(EXPORT, {"limit": "1"}), 400, "limit", code="unknown_parameter")


def test_an_adjustment_takes_a_posting_back_once(bench, manager, charged):
    body = {"transaction_id": str(charged.transaction_id), "reason": "billed by mistake"}
    sides = manager.post(ADJUSTMENTS, body)
    assert sides.status_code == 201
    assert sum(side["amount"]["amount_micro_usd"] for side in sides.json()) == 0
    assert ledger_difference() == 0
    assert bench.client.get(COSTS, ALWAYS).json()["results"][0]["amount"]["amount_micro_usd"] == 0
    with Unchanged():
        problem(manager.post(ADJUSTMENTS, body), 409, code="already_reversed")
        problem(bench.client.post(ADJUSTMENTS, body), 403)
        unknown = body | {"transaction_id": "00000000-0000-4000-8000-000000000000"}
        problem(manager.post(ADJUSTMENTS, unknown), 422, "transaction_id")


def test_settings_are_read_by_all_and_changed_by_admins(bench, manager, admin):
    assert bench.client.get(SETTINGS).json()["grace_seconds"] == 60
    changed = admin.patch(SETTINGS, {"grace_seconds": 5})
    assert changed.status_code == 200
    assert PlatformSettings.current().grace_seconds == 5
    with Unchanged():
        problem(manager.patch(SETTINGS, {"grace_seconds": 6}), 403)
        problem(admin.patch(SETTINGS, {"grace_seconds": -1}), 422, "grace_seconds")
        problem(admin.patch(SETTINGS, {"spot_fallback_seconds": 0}), 422, "spot_fallback_seconds")
        stale = {"If-Match": '"1"'}
        problem(admin.patch(SETTINGS, {"grace_seconds": 7}, headers=stale), 412)


def test_a_limit_of_the_platform_may_be_nothing_at_all(admin):
    fields = SettingsUpdateSerializer().fields.items()
    limits = {name: 0 for name, field in fields if field.allow_null and isinstance(field, IntegerField)}
    answer = admin.patch(SETTINGS, limits)
    assert answer.status_code == 200, answer.json()
    assert {name: answer.json()[name] for name in limits} == limits
    assert {"ceiling_pods", "open_sweeps", "team_log_gib"} <= limits.keys()
