"""Nothing is lost, doubled or billed twice while the processes are killed.

`make crash N=1000` for many kills; PORTAL_TEST_SEED repeats a run, PORTAL_TEST_KUBECONFIG names a real cluster.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.crash import oracle
from tests.crash.fleet import Fleet
from tests.crash.load import Load
from tests.crash.oracle import CounterSampler, Seen
from tests.crash.raw_cluster import RawCluster
from tests.crash.storm import Storm, plan

KILLS = int(os.environ.get("PORTAL_TEST_CRASHES", "12"))  # noqa: TID251
# What takes longer hangs: a kill takes two seconds at most, on a busy machine five times as long.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(400 + 10 * KILLS)]
SEED = int(os.environ.get("PORTAL_TEST_SEED", "20261124"))  # noqa: TID251
REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251
SETTLE_SECONDS = 180.0


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    kubeconfig = REAL or request.getfixturevalue("devcluster")
    fleet = Fleet(tmp_path / "data", kubeconfig=kubeconfig, durable=False)
    try:
        fleet.prepare()
        yield fleet
    finally:
        fleet.stop()
        remove_namespace(kubeconfig, fleet.namespace)


def remove_namespace(kubeconfig: str, name: str) -> None:
    cluster = RawCluster(kubeconfig)
    cluster.ask("DELETE", f"/api/v1/namespaces/{name}")
    cluster.close()


def test_nothing_is_lost_or_doubled_while_processes_are_killed(fleet, capsys):
    chance, seen = random.Random(SEED), Seen()
    cluster = RawCluster(fleet.kubeconfig)
    mine = f"mlportal.dev/team={fleet.team}"
    watches = [
        cluster.watch("/apis/batch/v1/jobs", selector=mine, on_event=seen.take),
        cluster.watch("/api/v1/pods", selector=mine, on_event=seen.take),
    ]
    load, sampler = Load(fleet, SEED, unfinished_max=24 if KILLS <= 20 else 40), CounterSampler(fleet)
    storm = Storm(fleet, plan(KILLS, chance), chance, lambda: 2 * len(load.accepted) + 8)
    try:
        sampler.start()
        load.start()
        storm.run()
        load.stop()
        settled = oracle.settle(fleet, SETTLE_SECONDS)
        oracle.until_billed(fleet)
    finally:
        load.stop()
        sampler.stop()
        for watch in watches:
            watch.stop()
        cluster.close()
    with fleet.database() as database:
        wrong = oracle.findings(database, load.accepted, seen)
    wrong += load.problems + sampler.problems + [watch.problem for watch in watches if watch.problem]
    figures = (
        f"seed {SEED}: {storm.report()}\n  {len(load.accepted)} runs accepted, {load.repeats} requests repeated, "
        f"{sum(map(len, seen.jobs.values()))} Jobs and {sum(map(len, seen.pods.values()))} Pods seen, "
        f"{sampler.samples} samples of the counters, all ended {settled:.0f} s after the last kill"
    )
    with capsys.disabled() if KILLS > 50 else nullcontext():
        print(f"\n{figures}")  # noqa: T201 (what `make crash` is asked for)
    assert not wrong, f"{len(wrong)} findings, the first: {wrong[:10]}\n{figures}"
    assert len(load.accepted) >= KILLS // 2, figures
