"""A whole portal, a run whose pod is a process that trains, and a budget that pays for half a minute of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teams.tokens import new_token
from tests.crash.fleet import RestClient, running_fleet
from tests.crash.oracle import until_billed
from tests.waiting import until

pytestmark = pytest.mark.processes

HERE = Path(__file__).resolve().parent
BUDGET = 30
"""Dollars, of which a card costs one a second."""
GRACE = 5
SECONDS = 120.0
_SEED = f"""
settings: {{grace_seconds: {GRACE}, minimum_run_seconds: 1}}
users: [{{username: quinn, roles: [quota-manager]}}]
tokens: [{{user: quinn, name: e2e, token_env: MANAGER_TOKEN, scopes: [read, manage]}}]
budgets: [{{team: TEAM, period: month, amount_usd: "{BUDGET}"}}]
"""


@pytest.fixture
def portal(process_cluster, tmp_path):
    with running_fleet(tmp_path / "fleet", kubeconfig=process_cluster, MANAGER_TOKEN=new_token()) as fleet:
        rows = tmp_path / "budget.yaml"
        rows.write_text(_SEED.replace("TEAM", fleet.team))
        fleet.manage("bootstrap", str(rows))
        yield fleet


@pytest.fixture
def member(portal):
    client = RestClient(portal)
    yield client
    client.close()


@pytest.fixture
def manager(portal):
    client = RestClient(portal)
    client.token = portal.variables["MANAGER_TOKEN"]
    yield client
    client.close()


def ask(rest, method, path, **body):
    status, text = rest.insist(
        method, path, json.dumps(body).encode() if body else None, key=f"{method}:{path}" if body else ""
    )
    assert status < 300, text
    return json.loads(text)


def submit(member, portal):
    ask(member, "POST", f"teams/{portal.team}/volumes/", name="checkpoints", size="1Gi")
    sources = {
        "train.py": HERE.parents[1] / "demo" / "digits" / "train.py",
        "until_told.py": HERE / "saves_when_told.py",
    }
    made = ask(
        member,
        "POST",
        "training-runs/",
        team=portal.team,
        name="digits",
        kind="job",
        image="python:3.13",
        command=["python", "until_told.py"],
        source={"files": {name: path.read_text() for name, path in sources.items()}, "path": "/workspace"},
        flavor="a100-40gb",
        gpus_per_replica=1,
        cpu="1",
        memory="2Gi",
        checkpoint={"path": "/checkpoints", "claim": "checkpoints"},
        time_limit_seconds=3600,
    )
    return f"training-runs/{made['id']}/"


def until_shown(member, run, **expected):
    seen = {}

    def reached():
        seen.update(ask(member, "GET", run))
        return expected.items() <= seen.items()

    until(reached, SECONDS, lambda: f"{seen.get('phase')}: {seen.get('message')}", longest=0.3)


def log_of(member, run):
    status, text = member.insist("GET", f"{run}logs/")
    assert status == 200, text
    return text.decode()


def charged(portal, account):
    query = "SELECT coalesce(sum(amount_micro_usd), 0) FROM costs_ledgerentry WHERE account = %s"
    with portal.database() as database:
        return database.execute(query, [account]).fetchone()[0]


def test_the_run_ends_inside_its_budget_with_a_checkpoint_and_goes_on_from_it_when_there_is_more(
    portal, member, manager
):
    run = submit(member, portal)
    until_shown(member, run, phase="Suspended", reason="BudgetExhausted")
    (saved,) = ask(member, "GET", f"{run}checkpoints/")["results"]
    assert saved["step"] > 0
    until_billed(portal)
    total = charged(portal, f"team:{portal.team}")
    assert BUDGET * 10**6 / 2 < total <= BUDGET * 10**6
    # Not because the platform paid for the rest.
    assert charged(portal, "platform:adjustment") == 0
    assert ask(member, "GET", f"teams/{portal.team}/budget/")["spent"]["amount_micro_usd"] == total

    ask(member, "POST", f"{run}resume/")
    until_shown(member, run, phase="Queued", reason="WaitingForBudget")
    (budget,) = ask(manager, "GET", "budgets/")["results"]
    ask(manager, "POST", f"budgets/{budget['id']}/overrides/", amount_usd="1000", reason="a paper")
    resumed = f"resuming after epoch {saved['step']} from {saved['path']}"
    until(lambda: resumed in log_of(member, run), SECONDS, lambda: log_of(member, run), longest=0.3)
    ask(member, "POST", f"{run}cancel/")
    until_shown(member, run, phase="Cancelled")
    last, first = ask(member, "GET", f"{run}checkpoints/")["results"]
    assert first["path"] == saved["path"]
    assert last["step"] > first["step"]
    with portal.database() as database:
        query = "SELECT number, resumed_from FROM workloads_attempt ORDER BY number"
        assert database.execute(query).fetchall() == [(1, ""), (2, saved["path"])]
