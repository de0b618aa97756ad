"""F11, counted: many pods live and end behind a watch that is cut every few events, and every end is known."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from controller.watch import watcher as module
from costs.models import UsageInterval
from tests.controller import fault_proxy as faults
from tests.controller.clusters import OwnCluster
from tests.controller.fault_proxy import FaultProxy
from tests.controller.watch_bed import Pods, following
from tests.effort import drawn
from tests.factories.catalogue import make_flavor
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload
from tests.waiting import until
from workloads.models import PodRecord

pytestmark = pytest.mark.django_db(transaction=True)

SEED = 20261124
TRANSITIONS_EACH = 4
"""Made, on a node, running, ended."""
TOGETHER = 1_000
"""Pods that are there at once: of more, the cluster's scheduler would slow down what is measured here."""


@pytest.fixture
def cluster(tmp_path):
    made = OwnCluster(tmp_path)
    yield made
    made.stop()


def torn(dice: random.Random):
    """A watch that breaks after one to nine events, now and then inside one."""

    def spoil(lines):
        return faults.cut_after(dice.randint(1, 9), inside=dice.random() < 0.3)(lines)

    return spoil


def _live_and_end(bed: Pods, numbers: range) -> tuple[list[str], dict[str, str]]:
    """Make these pods, wait until the rows say that they have ended, and ask the cluster what it says of them."""
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(
                lambda number: bed.make(
                    f"pod-{number}", BED_RUN_SECONDS="0.01", BED_EXIT_CODE=str(number % 2)
                ),
                numbers,
            )
        )
    ended = PodRecord.objects.filter(uid__in=made, phase__in=["Succeeded", "Failed"])
    # Most of that is the making of pods, by a cluster that has few processors on a busy machine.
    until(lambda: ended.count() == len(made), 60 + len(made) / 2, lambda: f"{ended.count()} of {len(made)}")
    present = bed.client.list(kinds.POD, namespace=bed.namespace).items
    return made, {pod["metadata"]["uid"]: pod["status"]["phase"] for pod in present}


def _go(bed: Pods, numbers: range, made: list[str]) -> None:
    """Delete the pods, behind the same cut watch."""

    def delete(each: tuple[int, str]) -> None:
        ref = ObjectRef("v1", "Pod", bed.namespace, f"pod-{each[0]}")
        bed.client.delete(ref, uid=each[1], grace_seconds=0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(delete, zip(numbers, made, strict=True)))
    there = PodRecord.objects.filter(uid__in=made, gone_at__isnull=True)
    until(lambda: not there.exists(), 60 + len(made) / 2, lambda: f"{there.count()} of {len(made)} are there")


@pytest.mark.matrix
def test_no_final_state_is_missed_however_often_the_watch_is_cut(cluster, tmp_path, monkeypatch):
    """Invariant: rows and usage say of every pod what the API server says of it, each once."""
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.02)
    transitions = drawn(usual=240, soak=100_000)
    count = transitions // TRANSITIONS_EACH
    (tmp_path / "proxy").mkdir()
    proxy = FaultProxy(tmp_path / "proxy", str(cluster.kubeconfig))
    fault = proxy.meet(faults.watches("pods"), spoil=torn(random.Random(SEED)))
    # Who makes the pods waits for a cluster that is slow with so many; who watches does not.
    direct = connect(str(cluster.kubeconfig), timeout=(10, 300))
    team = make_team(f"t-{uuid4().hex[:8]}")
    run = make_workload(team=team, flavor=make_flavor(), units=1)
    told: dict[str, str] = {}
    try:
        namespace = team.namespace_name
        direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        with following(proxy):
            bed = Pods(direct, namespace, run)
            for first in range(0, count, TOGETHER):
                together = range(first, min(first + TOGETHER, count))
                made, shown = _live_and_end(bed, together)
                told |= shown
                assert set(shown) == set(made)
                _go(bed, together, made)
            wait = 60 + TOGETHER / 10
            ended = UsageInterval.objects.filter(ended_at__isnull=False)
            until(lambda: ended.count() == count, wait, lambda: f"{ended.count()} of {count}")
    finally:
        proxy.close()
        direct.close()
    rows = dict(PodRecord.objects.values_list("uid", "phase"))
    assert rows == told
    assert Counter(rows.values()) == {"Succeeded": count // 2, "Failed": count // 2}
    assert set(Counter(UsageInterval.objects.values_list("pod_uid", flat=True)).values()) == {1}
    assert fault.met >= transitions // 50, "it was cut all the time"
