"""Half an hour of a busy team on a real control plane, and then its bill against the nodes' own. Run by
test_money_on_a_real_control_plane.py.

Prints a line a step; exits 1 with the first thing that is not so.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import django

django.setup()

from django.db.models import Sum  # noqa: E402

from cluster import kinds  # noqa: E402
from cluster.client import connect  # noqa: E402
from cluster.kinds import ObjectRef  # noqa: E402
from costs.ledger.check import check_all  # noqa: E402
from costs.ledger.idle import sweep  # noqa: E402
from costs.models import LedgerEntry, PricedCard, UsageInterval  # noqa: E402
from costs.reports.queries import ledger_difference  # noqa: E402
from demo.client import DemoError, Portal  # noqa: E402
from tests.e2e.money_nodes import Fleet, money  # noqa: E402
from workloads.models import NodeInterval  # noqa: E402

TEAM = os.environ["E2E_TEAM"]
RUNS, ENDPOINTS = int(os.environ["E2E_RUNS"]), int(os.environ["E2E_ENDPOINTS"])
DICE = random.Random(os.environ["E2E_SEED"])
CLUSTER = connect(os.environ["PORTAL_KUBECONFIG"])
URLS = {"url": os.environ["PORTAL_PUBLIC_URL"], "live_url": os.environ["PORTAL_LIVE_URL"]}
PORTAL = Portal(token=os.environ["E2E_TOKEN"], **URLS)
MANAGER = Portal(token=os.environ["E2E_MANAGER_TOKEN"], **URLS)
FLEET = Fleet(CLUSTER, TEAM)
AGO = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = [
    (("money-a100", "on-demand"), AGO, 2_744_705),
    (("money-a100", "spot"), AGO, 1_928_021),
    (("money-t4", "on-demand"), AGO, 526_001),
    (("money-a100-80", "on-demand"), AGO, 3_430_883),
]
ASKED = [
    {"flavor": "whole", "gpus_per_replica": 1},
    {"flavor": "whole", "gpus_per_replica": 4},
    {"flavor": "whole", "gpus_per_replica": 2, "replicas": 2, "kind": "pytorchjob"},
    {"flavor": "whole", "gpus_per_replica": 1, "capacity": "spot"},
    {"flavor": "shared", "gpus_per_replica": 1},
    {"flavor": "mig-1g", "gpus_per_replica": 1},
    {"flavor": "mig-3g", "gpus_per_replica": 1},
]
SEEN_WITHIN = timedelta(seconds=5)
"""A node that went is missed by an event, on a busy machine."""
FINAL = {"Succeeded", "Failed", "Cancelled"}


def body(name, *, env=None, **fields):
    return {
        "team": TEAM,
        "name": name,
        "image": "example.org/image:1",
        "command": ["python", "main.py"],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "cpu": "1",
        "memory": "1Gi",
        **fields,
    }


def check(claim, what):
    if not claim:
        raise DemoError(f"not so: {what}")
    print(f"ok: {what}", flush=True)


def until(ask, what, seconds):
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise DemoError(what() if callable(what) else what)
        time.sleep(1)
    return answer


def retried(ask):
    """A rate limit is no fault of the bill."""

    def answer():
        try:
            return [ask()]
        except DemoError as error:
            if " 429:" not in str(error):
                raise
            return []

    return until(answer, "the rate limit never ended", 120)[0]


def nodes_come():
    for index in range(4):
        FLEET.add(f"{TEAM}-whole-{index}", "whole")
    for index in range(2):
        FLEET.add(f"{TEAM}-spot-{index}", "whole", spot=True)
        FLEET.add(f"{TEAM}-shared-{index}", "shared")
        FLEET.add(f"{TEAM}-mig-{index}", "mig")
    seen = lambda: [  # noqa: E731
        row["name"]
        for row in PORTAL.call("GET", "cluster/nodes/?limit=200")["results"]
        if row["name"].startswith(f"{TEAM}-")
    ]
    until(lambda: sorted(seen()) == FLEET.names(), "the watcher has not seen the nodes", 120)


def submit(number):
    asked = DICE.choice(ASKED)
    env = {"BED_RUN_SECONDS": str(DICE.randint(1, 40)), "BED_START_SECONDS": str(DICE.randint(0, 3))}
    if DICE.random() < 0.1:
        env["BED_EXIT_CODE"] = "1"
    fields = {"labels": {"project": DICE.choice(["x", "y"])}, "time_limit_seconds": 900, **asked}
    made = retried(lambda: PORTAL.call("POST", "training-runs/", body(f"run-{number}", env=env, **fields)))
    return f"training-runs/{made['id']}/"


def deploy(number):
    asked = [
        {"flavor": "whole", "gpus_per_replica": 1, "min_replicas": 2, "max_replicas": 2},
        {"flavor": "shared", "gpus_per_replica": 1, "min_replicas": 1, "max_replicas": 1},
        {"flavor": "mig-1g", "gpus_per_replica": 1, "min_replicas": 1, "max_replicas": 1},
    ][number % 3]
    made = retried(lambda: PORTAL.call("POST", "endpoints/", body(f"serves-{number}", **asked)))
    return f"endpoints/{made['id']}/"


def price_changes():
    """A quota manager changes a price in the middle: what runs is charged at both."""
    at = (datetime.now(UTC) + timedelta(seconds=5)).replace(microsecond=0)
    changed = {
        "card": "money-a100",
        "micro_usd_per_card_hour": 3_999_999,
        "valid_from": at.isoformat(),
        "reason": "e2e",
    }
    MANAGER.call("POST", "prices/", changed)
    PRICES.append((("money-a100", "on-demand"), at, 3_999_999))


def disturb(step):
    """A node goes and another comes; a pod is deleted by a stranger."""
    if step % 2:
        name = DICE.choice([name for name in FLEET.names() if "spot" in name or "whole" in name])
        FLEET.remove(name)
        FLEET.add(f"{name}-x", "whole", spot="spot" in name)
    else:
        pods = [pod for pod in pods_there() if (pod.get("status") or {}).get("phase") == "Running"]
        if pods:
            pod = DICE.choice(pods)["metadata"]
            CLUSTER.delete(ObjectRef("v1", "Pod", pod["namespace"], pod["name"]), uid=pod["uid"])


def pods_there():
    return CLUSTER.list(kinds.POD, namespace=f"team-{TEAM}").items


def live(paths):
    left = []
    for path in paths:
        found = retried(lambda path=path: PORTAL.call("GET", path))
        if found["phase"] not in FINAL:
            left.append(f"{path} {found['phase']} {found['reason']}")
    return left


def work():
    runs, endpoints = [], [deploy(number) for number in range(ENDPOINTS)]
    pauses = max(1, RUNS // 10)
    for number in range(RUNS):
        runs.append(submit(number))
        if number == RUNS // 2:
            price_changes()
        if number % pauses == pauses - 1:
            disturb(number // pauses)
    check(True, f"{len(runs)} runs and {len(endpoints)} endpoints were asked for")
    left = list(runs)

    def ended():
        left[:] = [each.split()[0] for each in live(left)]
        return not left

    until(ended, lambda: f"{len(left)} runs have not ended: {live(left)[:5]}", 1500)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: retried(lambda: PORTAL.call("DELETE", path)), endpoints))
    until(lambda: not live(endpoints), "endpoints have not ended", 300)
    said = Counter(PORTAL.call("GET", path)["phase"] for path in runs)
    check(True, f"they ended: {dict(said)}")


def nodes_go():
    for name in FLEET.names():
        FLEET.remove(name)


def as_seen(life):
    """With the second in which the portal missed the node, which is that in which it went, or comes soon after."""
    rows = list(NodeInterval.objects.filter(node_uid=life.uid).order_by("started_at"))
    parts = [(row.started_at, row.ended_at) for row in rows]
    joined = all(one[1] == other[0] for one, other in pairwise(parts))
    if not joined or parts[0][0] != life.start or not life.asked <= parts[-1][1] <= life.end + SEEN_WITHIN:
        raise DemoError(f"not so: {life} is known as {parts}")
    return replace(life, end=parts[-1][1])


def the_bill():
    until(
        lambda: not UsageInterval.objects.filter(UsageInterval.unsettled()).exists(),
        "usage is not settled",
        300,
    )
    far = datetime.now(UTC) + timedelta(days=2)
    # A turn counts what the one before has claimed.
    for _ in range(4):
        sweep(now=far)
    nodes = money([as_seen(life) for life in FLEET.lifetimes], PRICES)
    said = {}
    for lane, exact in sorted(nodes.items()):
        card = PricedCard.objects.get(card=lane[0], capacity_type=lane[1])
        paying = LedgerEntry.objects.filter(price__priced=card).exclude(account__startswith="supply:")
        amount = paying.aggregate(total=Sum("amount_micro_usd"))["total"] or 0
        by = {
            name: paying.filter(account__startswith=f"{name}:").aggregate(total=Sum("amount_micro_usd"))[
                "total"
            ]
            or 0
            for name in ("team", "idle", "stranded", "lost", "platform")
        }
        said[lane] = (Fraction(amount) + card.carry - exact, by)
        print(
            f"   {'/'.join(lane)}: nodes {float(exact) / 1e6:.6f} USD, ledger {amount / 1e6:.6f}, {by}",
            flush=True,
        )
    check(
        all(difference == 0 for difference, _ in said.values()),
        f"the difference is 0 in {len(said)} lanes: {said}",
    )
    check(ledger_difference() == 0, "debits and credits add up to 0")
    check(check_all(now=far) == [], "the checker finds no difference")


def main():
    nodes_come()
    work()
    nodes_go()
    the_bill()


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        print(f"FAILED: {error}", flush=True)
        sys.exit(1)
    finally:
        for name in FLEET.names():
            FLEET.remove(name)
