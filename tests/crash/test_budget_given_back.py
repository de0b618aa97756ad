"""A worker that is killed between giving a run's money back and writing that it has ended."""

from __future__ import annotations

import json

import pytest

from tests.crash.fleet import RestClient, running_fleet
from tests.crash.load import Shape
from tests.crash.oracle import until_billed
from tests.waiting import until

pytestmark = pytest.mark.crash

BUDGET = 1_000
GPUS = 2
_SEED = """
settings: {{grace_seconds: 2, minimum_run_seconds: 1}}
budgets: [{{team: {team}, period: month, amount_usd: "{amount}"}}]
"""
_PROMISE = "SELECT closed_at, used_micro_usd, granted_micro_usd FROM costs_budgetreservation"
_PERIOD = "SELECT committed_micro_usd FROM costs_budgetperiod"
_CHARGED = "SELECT coalesce(sum(amount_micro_usd), 0) FROM costs_ledgerentry WHERE account = %s"


@pytest.fixture
def fleet(tmp_path, devcluster):
    kinds = ("web", "beat", "watcher")
    with running_fleet(tmp_path / "fleet", kubeconfig=devcluster, kinds=kinds) as fleet:
        rows = tmp_path / "budget.yaml"
        rows.write_text(_SEED.format(team=fleet.team, amount=BUDGET))
        fleet.manage("bootstrap", str(rows))
        yield fleet


def submit(fleet):
    client = RestClient(fleet)
    shape = Shape("gpus", {"BED_RUN_SECONDS": "2"}, "Succeeded", gpus=GPUS)
    body = shape.body(fleet, "gives-back") | {"time_limit_seconds": 300}
    status, text = client.insist("POST", "training-runs/", json.dumps(body).encode(), key="one")
    client.close()
    assert status == 201, text


def test_money_is_given_back_once_whatever_kills_the_worker_meanwhile(fleet):
    fleet.spawn("worker", crash_point="budget-given-back")
    submit(fleet)
    with fleet.database() as database:

        def one(query, *values):
            return database.execute(query, values).fetchone()

        until(lambda: fleet.has_died("worker"), 120, lambda: f"killed there: {fleet.standings()}")
        # What the worker had done of it is undone: the run still holds what it was promised, and its quota.
        closed_at, used, granted = one(_PROMISE)
        assert (closed_at, used) == (None, None)
        assert one(_PERIOD) == (granted,)
        assert one("SELECT used FROM quotas_quota") == (GPUS,)
        fleet.kill("worker")
        fleet.spawn("worker")
        until(lambda: one(_PROMISE)[0], 120, lambda: f"given back: {fleet.standings()}")
        until(lambda: "Succeeded (Completed)" in fleet.standings(), 60, fleet.standings)
        until_billed(fleet)
        (charged,) = one(_CHARGED, f"team:{fleet.team}")
        assert database.execute(_PROMISE).fetchall() == [(one(_PROMISE)[0], charged, granted)]
        assert 0 < charged < granted
        assert one("SELECT used FROM quotas_quota") == (0,)
        until(lambda: one(_PERIOD) == (charged,), 60, lambda: one(_PERIOD))
