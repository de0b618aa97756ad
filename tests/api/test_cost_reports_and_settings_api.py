from __future__ import annotations

import csv
import io

import pytest

from costs.models import LedgerEntry
from costs.queries import ledger_difference
from foundation.models import PlatformSettings
from tests.api.bench import Unchanged, problem
from tests.factories.submitted import make_attempt, make_pod
from tests.factories.teams import api_client, make_user
from workloads.models import Workload

pytestmark = pytest.mark.django_db

COSTS, EXPORT, ADJUSTMENTS, SETTINGS = (
    f"/api/v1/{path}" for path in ("costs/", "costs/export.csv", "adjustments/", "settings/")
)


@pytest.fixture
def manager():
    return api_client(make_user(quota_manager=True))


@pytest.fixture
def admin():
    return api_client(make_user(platform_admin=True))


@pytest.fixture
def billed(bench):
    """A run whose pod was billed."""
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb")["id"])
    make_attempt(run)
    make_pod(run, units=1, minutes=10)
    entry = LedgerEntry.objects.get(account__startswith="team:")
    assert entry.amount_micro_usd > 0
    return entry


@pytest.mark.parametrize("group_by", ["team", "flavor", "workload", "day"])
def test_what_was_charged_is_summed_by_every_group(bench, billed, group_by):
    (group,) = bench.client.get(COSTS, {"group_by": group_by}).json()["results"]
    assert group["amount"]["amount_micro_usd"] == billed.amount_micro_usd
    keys = {
        "team": billed.team.slug,
        "flavor": billed.flavor_name,
        "workload": str(billed.workload.public_id),
        "day": f"{billed.started_at:%Y-%m-%d}",
    }
    assert group["key"] == keys[group_by]


def test_a_span_leaves_out_what_began_outside_it(bench, billed):
    before = {"to": billed.started_at.isoformat()}
    assert bench.client.get(COSTS, before).json()["results"] == []
    assert len(bench.client.get(COSTS, {"from": billed.started_at.isoformat()}).json()["results"]) == 1


def test_an_unknown_group_is_refused_by_name(bench):
    problem(bench.client.get(COSTS, {"group_by": "owner"}), 400, "group_by")


def test_strangers_see_no_sum_and_no_line(billed):
    stranger = api_client(make_user())
    assert stranger.get(COSTS).json()["results"] == []
    for query in ({}, {"team": billed.team.slug}, {"pod_uid": billed.pod_uid}, {"account": billed.account}):
        assert len(b"".join(stranger.get(EXPORT, query).streaming_content).splitlines()) == 1, query


def test_the_export_holds_the_ledgers_lines_and_no_formula(bench, manager, billed):
    body = {"transaction_id": str(billed.transaction_id), "reason": "=cmd|' /C calc'!A0"}
    assert manager.post(ADJUSTMENTS, body).status_code == 201
    text = b"".join(bench.client.get(EXPORT).streaming_content).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [int(line["amount_micro_usd"]) for line in lines] == [
        billed.amount_micro_usd,
        -billed.amount_micro_usd,
    ]
    assert lines[1]["reason"].startswith("'=")


def test_an_adjustment_takes_a_posting_back_once(bench, manager, billed):
    body = {"transaction_id": str(billed.transaction_id), "reason": "billed by mistake"}
    sides = manager.post(ADJUSTMENTS, body)
    assert sides.status_code == 201
    assert sum(side["amount"]["amount_micro_usd"] for side in sides.json()) == 0
    assert ledger_difference() == 0
    assert bench.client.get(COSTS).json()["results"][0]["amount"]["amount_micro_usd"] == 0
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
