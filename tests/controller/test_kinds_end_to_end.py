"""Runs of every kind on a real control plane, from the submission to the end: good ends, and each way to fail.

Accepted, scheduled and tracked by the real API server, scheduler, controllers and training operator; KWOK plays the
kubelet, so that no image runs. docs/reference/training-kinds.md shows these tables.
"""

from __future__ import annotations

from itertools import product

import pytest

from foundation.models import PlatformSettings
from jobs.kinds import KINDS
from quotas.models import Claim, Quota
from tests.controller.conftest import REAL
from tests.controller.kinds_bed import KindsBed
from tests.controller.kinds_tables import FAULTS, SHAPES, SMALL
from tests.effort import SOAK
from tests.waiting import until
from workloads.models import PodRecord

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.cluster,
    pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG"),
    pytest.mark.parametrize("client", ["real"], indirect=True),
]


by_kind = pytest.mark.parametrize("kind", SHAPES)


@pytest.fixture
def bed(bench, client, monkeypatch):
    monkeypatch.setattr("workloads.placement.UNREACHABLE_SECONDS", 1)
    bed = KindsBed(bench)
    yield bed
    bed.collect()


# --- good ends


@by_kind
def test_a_run_of_each_kind_succeeds_pays_for_its_gpu_pods_and_leaves_nothing(bed, kind):
    shape = SHAPES[kind]
    run = bed.submit(kind=kind, env={"BED_RUN_SECONDS": 2}, **shape.body)
    assert (run.pod_count, run.units) == (shape.gpu_pods, shape.gpu_pods * shape.gpus)
    bed.bench.turn(run)
    assert Quota.objects.get(capacity_type="on-demand").used == run.units
    bed.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Succeeded", "Completed")
    assert (run.attempts.count(), run.retries_used, run.interruptions) == (1, 0, 0)
    pods = list(run.pods.all())
    assert sorted(pod.units for pod in pods) == sorted(
        [shape.gpus] * shape.gpu_pods + [0] * (shape.pods - shape.gpu_pods)
    )
    assert all(pod.node_name.startswith("a100-") for pod in pods if pod.units)
    held = sum(unit_seconds(pod) for pod in pods if pod.units)
    entries = run.ledger.filter(account__startswith="team:").values_list("amount_micro_usd", flat=True)
    assert sum(entries) == held * 1_000_000 > 0
    assert Quota.objects.get(capacity_type="on-demand").used == 0
    assert Claim.objects.get().state == "released"
    assert_nothing_is_left(bed)


def unit_seconds(pod: PodRecord) -> int:
    """A worker that still runs when the chief has ended is deleted: it held its GPUs until then."""
    return pod.units * int((pod.ended_at.replace(microsecond=0) - pod.scheduled_at).total_seconds())


def assert_nothing_is_left(bed: KindsBed) -> None:
    """After the objects of what has ended are collected: of the operator's for it neither."""
    bed.collect()
    kept = {
        "ConfigMap/kube-root-ca.crt",
        "ServiceAccount/default",
        "ServiceAccount/mlportal-workload",
        "NetworkPolicy/mlportal-default-deny",
        "NetworkPolicy/mlportal-egress",
        "NetworkPolicy/mlportal-endpoint-ingress",
        "NetworkPolicy/mlportal-endpoint-metrics",
        "NetworkPolicy/mlportal-endpoint-metrics-http",
    }
    until(lambda: bed.objects() == kept, said=lambda: f"left: {sorted(bed.objects() ^ kept)}", seconds=60)


# --- each way to fail


# Each way to fail with every other kind, in turn; with all of them where `PORTAL_TEST_EFFORT` is `soak`.
MET = [
    (name, kind)
    for (number, name), (turn, kind) in product(enumerate(FAULTS), enumerate(SHAPES))
    if SOAK or (number + turn) % 2 == 0
]


@pytest.mark.parametrize(("name", "kind"), MET)
def test_each_way_to_fail_ends_in_its_phase_with_its_counts(bed, name, kind):
    fault = FAULTS[name]
    PlatformSettings.objects.update(**{"schedule_deadline_seconds": 600, **fault.settings})
    run = bed.submit(kind=kind, env=fault.env, **SMALL[kind], **fault.body)
    fault.happens(bed, run)
    bed.to_the_end(run, seconds=120)
    assert (run.phase, run.reason) == (fault.phase, fault.reason), run.message
    assert (run.attempts.count(), run.retries_used, run.interruptions) == (
        fault.attempts,
        fault.retries,
        fault.interruptions,
    )
    reasons = [attempt.reason for attempt in run.attempts.all()]
    assert reasons[0] in (fault.first or (fault.reason,)), reasons
    assert Claim.objects.exclude(state="released").count() == 0
    assert {quota.used for quota in Quota.objects.all()} == {0}


def test_the_tables_know_every_kind_that_this_control_plane_serves(bed):
    served = bed.client.served_kinds()
    offered = {
        kind.name
        for kind in KINDS.values()
        if any((each.api_version, each.kind) in served for each in kind.objects)
    }
    # Its controller is not part of this control plane, only its definition.
    assert offered - {"trainjob"} == set(SHAPES) == set(SMALL)
