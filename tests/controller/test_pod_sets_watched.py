"""Sets of pods that come at a real controller's pace, watched and looked at all the while.

PORTAL_TEST_POD_SETS=20 for many sets; PORTAL_TEST_KUBECONFIG names the real cluster that it needs.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from datetime import datetime

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from cluster.labels import selector, workload_labels
from controller.reconcile.adapters import adapter_for
from controller.reconcile.observe import look_at
from controller.watch import watcher as module
from controller.watch.pods import PodSink
from controller.watch.watcher import OWN
from costs.models import LedgerEntry, UsageInterval
from costs.reports.queries import ledger_difference
from foundation import clock
from logs.collector import LogCollector
from tests.controller.conftest import REAL
from tests.controller.followers import Follower
from tests.factories.submitted import make_attempt, move
from workloads.models import PodRecord
from workloads.states import Phase

SETS = int(os.environ.get("PORTAL_TEST_POD_SETS", "2"))  # noqa: TID251
PODS = 64
A_SECOND = 20
SET_SECONDS = 180.0
USD = 1_000_000

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG"),
    pytest.mark.timeout(120 + 120 * SETS),
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["real"], indirect=True),
]


@contextmanager
def watched(monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 5)
    client, stop = connect(REAL), threading.Event()
    sink = PodSink(LogCollector(lambda: client))
    follower = Follower(kind=kinds.POD, sink=sink, client=lambda: client, stop=stop, scope=OWN)
    follower.start()
    try:
        yield
    finally:
        stop.set()
        follower.join(60)
        client.close()


def manifest(run, name):
    labels = workload_labels(
        workload_id=str(run.public_id), attempt=1, team=run.team.slug, kind="training-run"
    )
    container = {
        "name": "main",
        "image": "x",
        "env": [{"name": "BED_RUN_SECONDS", "value": "2"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    metadata = {"name": name, "namespace": run.team.namespace_name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def make_set(run, number, failures):
    """64 pods, 20 a second."""
    client, begun, pace = connect(REAL), time.monotonic(), threading.Event()
    try:
        for index in range(PODS):
            pace.wait(max(0.0, begun + index / A_SECOND - time.monotonic()))
            client.create(manifest(run, f"set-{number}-{index}"))
    except Exception as error:
        failures.append(error)
        raise
    finally:
        client.close()


def seconds_of(pod):
    """From its place on a node to its end, as the API server tells them."""
    conditions = {each["type"]: each for each in pod["status"]["conditions"]}
    ended = [each["state"]["terminated"]["finishedAt"] for each in pod["status"]["containerStatuses"]]
    times = [
        datetime.fromisoformat(conditions["PodScheduled"]["lastTransitionTime"]),
        max(map(datetime.fromisoformat, ended)),
    ]
    return int((times[1] - times[0]).total_seconds())


def test_no_pod_of_a_set_is_taken_for_gone_and_each_of_their_seconds_is_billed_once(
    bench, monkeypatch, capsys
):
    run = bench.submit(gpus_per_replica=1)
    attempt, _ = make_attempt(run)
    move(run, Phase.RUNNING)
    namespace = run.team.namespace_name
    bench.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    listed = {"namespace": namespace, "label_selector": selector(workload_id=str(run.public_id))}
    wrong, looks, pod_seconds, failures = [], 0, 0, []
    with watched(monkeypatch):
        for number in range(SETS):
            maker = threading.Thread(target=make_set, args=(run, number, failures))
            maker.start()
            deadline = time.monotonic() + SET_SECONDS
            ended = []
            while len(ended) < PODS:
                look_at(run, adapter_for(run.kind), attempt, bench.client, clock.now())
                looks += 1
                present = bench.client.list(kinds.POD, **listed).items
                uids = [pod["metadata"]["uid"] for pod in present]
                wrong += PodRecord.objects.filter(uid__in=uids, gone_at__isnull=False).values_list("name")
                ended = [pod for pod in present if pod["status"]["phase"] == "Succeeded"]
                assert not failures
                assert time.monotonic() < deadline, f"{len(ended)} of {PODS} have ended"
            maker.join()
            pod_seconds += sum(map(seconds_of, ended))
            look_at(run, adapter_for(run.kind), attempt, bench.client, clock.now())
            for pod in ended:
                ref = ObjectRef("v1", "Pod", namespace, pod["metadata"]["name"])
                bench.client.delete(ref, uid=pod["metadata"]["uid"], grace_seconds=0)
    entries = LedgerEntry.objects.filter(workload=run, account__startswith="team:")
    billed = sum(entry.amount_micro_usd for entry in entries)
    corrections = entries.filter(reverses__isnull=False).count()
    with capsys.disabled():
        print(  # noqa: T201 (what the figures are wanted for)
            f"\n{SETS} sets of {PODS} pods, {looks} looks: {len(set(wrong))} marked gone, "
            f"{billed / USD:.0f} pod seconds billed, {pod_seconds} used, {corrections} corrections"
        )
    assert set(wrong) == set()
    assert billed == pod_seconds * USD
    assert UsageInterval.objects.filter(ended_at__isnull=False).count() == SETS * PODS
    assert ledger_difference() == 0
