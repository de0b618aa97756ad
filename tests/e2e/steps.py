"""What a client sees of a portal on a real control plane, by REST alone. Run by test_real_control_plane.py.

Prints a line a step; exits 1 with the first thing that is not so.
"""

from __future__ import annotations

import os
import sys
import time

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from cluster.labels import selector
from demo.client import DemoError, Portal

TEAM = os.environ["E2E_TEAM"]
NAMESPACE = f"team-{TEAM}"
CLUSTER = connect(os.environ["PORTAL_KUBECONFIG"])
PORTAL = Portal(
    url=os.environ["PORTAL_PUBLIC_URL"], live_url=os.environ["PORTAL_LIVE_URL"], token=os.environ["E2E_TOKEN"]
)


def body(name, *, env=None, **fields):
    return {
        "team": TEAM,
        "name": name,
        "image": "example.org/image:1",
        "command": ["python", "main.py"],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "flavor": "a100-40gb",
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        **fields,
    }


def reach(path, done, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not done(found := PORTAL.call("GET", path)):
        if time.monotonic() > deadline:
            raise DemoError(f"{path} is {found['phase']} ({found['reason']}): {found['message']}")
        time.sleep(0.2)
    return found


def submit(name, **fields):
    return f"training-runs/{PORTAL.call('POST', 'training-runs/', body(name, **fields))['id']}/"


def check(claim, what):
    if not claim:
        raise DemoError(f"not so: {what}")
    print(f"ok: {what}", flush=True)


def a_run_succeeds_with_its_cost():
    path = submit("ends-well", gpus_per_replica=8, env={"BED_RUN_SECONDS": "3"})
    run = reach(path, lambda found: found["phase"] == "Succeeded")
    (pod,) = PORTAL.call("GET", f"{path}pods/")["results"]
    check(pod["node_name"].startswith("a100-"), f"its pod ran on the GPU node {pod['node_name']}")
    cost = reach(f"{path}cost/", lambda found: found["lines"] and found["lines"][0]["settled"])
    micro = cost["so_far"]["amount_micro_usd"]
    check(micro > 0 and micro % 8_000_000 == 0, f"8 cards at 1 USD a second cost {cost['so_far']['usd']} USD")
    check(run["attempts"][0]["exit_code"] in (0, None), "one attempt, which ended well")


def an_oom_kill_is_named():
    path = submit("out-of-memory", env={"BED_RUN_SECONDS": "1", "BED_OOM": "true"})
    run = reach(path, lambda found: found["finished_at"])
    check((run["phase"], run["reason"]) == ("Failed", "OOMKilled"), f"OOM ends Failed: {run['message']}")


def what_no_node_can_hold_is_refused():
    try:
        submit("too-large", gpus_per_replica=16)
    except DemoError as error:
        check(
            "422" in str(error) and "with 8 a100-40gb" in str(error),
            "16 GPUs in one pod are refused with what exists",
        )
    else:
        raise DemoError("16 GPUs in one pod were accepted")


def a_cordoned_node_has_no_room_until_it_is_let_go():
    node = ObjectRef("v1", "Node", "", "h100-0")
    CLUSTER.patch_merge(node, {"spec": {"unschedulable": True}})
    try:
        path = submit("cordoned", flavor="h100-80gb")
        run = reach(path, lambda found: found["reason"] == "TopologyPlacementFailed")
        check(run["phase"] == "Queued", f"it waits without holding quota: {run['message']}")
    finally:
        CLUSTER.patch_merge(node, {"spec": {"unschedulable": None}})
    reach(path, lambda found: found["phase"] == "Running")
    PORTAL.call("POST", f"{path}cancel/")
    reach(path, lambda found: found["phase"] == "Cancelled")
    check(True, "after uncordon it ran, and was cancelled")


def an_endpoint_becomes_ready_and_leaves_nothing():
    made = PORTAL.call("POST", "endpoints/", body("serves", min_replicas=2, max_replicas=2))
    path = f"endpoints/{made['id']}/"
    reach(path, lambda found: found["reason"] == "Ready")
    own = selector(workload_id=made["id"])
    kept = (kinds.DEPLOYMENT, kinds.SERVICE, kinds.DISRUPTION_BUDGET, kinds.POD)
    counts = [len(CLUSTER.list(kind, namespace=NAMESPACE, label_selector=own).items) for kind in kept]
    check(counts == [1, 1, 1, 2], "the endpoint is Ready: one Deployment, Service and budget, two pods")
    PORTAL.call("DELETE", path)
    reach(path, lambda found: found["phase"] == "Cancelled")
    deadline = time.monotonic() + 60
    while any(CLUSTER.list(kind, namespace=NAMESPACE, label_selector=own).items for kind in kept):
        if time.monotonic() > deadline:
            raise DemoError("objects are left after delete")
        time.sleep(0.2)
    check(True, "all its objects are gone after delete")


def nothing_is_held_at_the_end():
    rows = PORTAL.call("GET", f"teams/{TEAM}/quotas/")["results"]
    check([row["used"] for row in rows] == [0, 0], "no quota is held any more")


def main():
    # The watcher has to have seen the nodes before anything can be judged.
    deadline = time.monotonic() + 60
    while not PORTAL.call("GET", "cluster/nodes/?name=h100-0")["results"]:
        if time.monotonic() > deadline:
            raise DemoError("the watcher has seen no node")
        time.sleep(0.2)
    a_run_succeeds_with_its_cost()
    an_oom_kill_is_named()
    what_no_node_can_hold_is_refused()
    a_cordoned_node_has_no_room_until_it_is_let_go()
    an_endpoint_becomes_ready_and_leaves_nothing()
    nothing_is_held_at_the_end()


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        print(f"FAILED: {error}", flush=True)
        sys.exit(1)
