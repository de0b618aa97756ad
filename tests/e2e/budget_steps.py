"""Two endpoints whose teams' budgets are cut below what they need: by policy one stops within it, one goes on. Run by
test_budget_stops_endpoints.py.

Prints a line a step; exits 1 with the first thing that is not so.
"""

from __future__ import annotations

import os
import sys
import time

from cluster import kinds
from cluster.client import connect
from cluster.labels import selector
from demo.client import DemoError, Portal

TEAM = os.environ["E2E_TEAM"]
CLUSTER = connect(os.environ["PORTAL_KUBECONFIG"])
URLS = {"url": os.environ["PORTAL_PUBLIC_URL"], "live_url": os.environ["PORTAL_LIVE_URL"]}
PORTAL = Portal(token=os.environ["E2E_TOKEN"], **URLS)
MANAGER = Portal(token=os.environ["E2E_MANAGER_TOKEN"], **URLS)
STOPS, KEPT = f"{TEAM}-stop", f"{TEAM}-kept"
CUT = 120
"""Dollars, which are seconds of a card."""


def body(team, name, **fields):
    return {
        "team": team,
        "name": name,
        "image": "example.org/image:1",
        "command": ["python", "main.py"],
        "flavor": "a100-40gb",
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        **fields,
    }


def check(claim, what):
    if not claim:
        raise DemoError(f"not so: {what}")
    print(f"ok: {what}", flush=True)


def until(ask, what, seconds=240.0):
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise DemoError(f"it never happened that {what()}")
        time.sleep(0.2)
    return answer


def reach(path, **expected):
    seen = {}

    def reached():
        seen.update(PORTAL.call("GET", path))
        return expected.items() <= seen.items()

    until(reached, lambda: f"{path} is {expected}: {seen['phase']} ({seen['reason']}) {seen['message']}")


def deploy(team):
    made = PORTAL.call("POST", "endpoints/", body(team, "serves", min_replicas=1, max_replicas=1))
    return f"endpoints/{made['id']}/"


def pods_of(path):
    own = selector(workload_id=path.split("/")[1])
    pods = [CLUSTER.list(kinds.POD, namespace=f"team-{team}", label_selector=own) for team in (STOPS, KEPT)]
    return [pod for found in pods for pod in found.items]


def budgets():
    return {each["team"]: each for each in MANAGER.call("GET", "budgets/")["results"]}


def spent(team):
    return budgets()[team]["spent"]["amount_micro_usd"]


def main():
    until(lambda: PORTAL.call("GET", "cluster/nodes/?limit=1")["results"], lambda: "the watcher saw a node")
    stops, kept = deploy(STOPS), deploy(KEPT)
    for path in (stops, kept):
        reach(path, reason="Ready")
    check(len(pods_of(stops)) == len(pods_of(kept)) == 1, "both endpoints are Ready, with a pod each")
    for team, amount in ((STOPS, CUT), (KEPT, 1)):
        MANAGER.call("PATCH", f"budgets/{budgets()[team]['id']}/", {"amount_usd": str(amount)})

    reach(stops, phase="Suspended", reason="BudgetExhausted")
    until(lambda: not pods_of(stops), lambda: "its pod is gone")
    total = spent(STOPS)
    check(
        CUT * 10**6 / 4 < total <= CUT * 10**6, f"it was stopped within ${CUT}: {total} micro-USD are spent"
    )
    PORTAL.call("POST", f"{stops}start/")
    reach(stops, phase="Queued", reason="WaitingForBudget")
    check(not pods_of(stops), "started again it waits for its budget, and has no pod")

    check(spent(KEPT) > 10**6, "the budget of the other team is spent")
    check(PORTAL.call("GET", kept)["reason"] == "Ready", "and its endpoint goes on, as its policy says")
    check(len(pods_of(kept)) == 1, "with its pod")
    run = PORTAL.call("POST", "training-runs/", body(KEPT, "new", kind="job", time_limit_seconds=600))
    reach(f"training-runs/{run['id']}/", phase="Queued", reason="WaitingForBudget")
    check(spent(STOPS) == total, "new work waits; nothing more was spent of the first budget")
    for path in (stops, kept):
        PORTAL.call("DELETE", path)
        reach(path, phase="Cancelled")


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        print(f"FAILED: {error}", flush=True)
        sys.exit(1)
