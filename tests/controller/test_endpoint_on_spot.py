"""An endpoint that wants spot first serves on on-demand where no spot comes in time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from controller.reconcile import reconcile
from foundation import clock
from foundation.models import PlatformSettings
from inference.services import preview_endpoint
from quotas.models import Claim, Quota
from tests.controller.test_reconcile_endpoint import deploy, own, spec
from tests.factories.catalogue import make_quota
from workloads.models import Workload
from workloads.observations import record_node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]
WAIT = 600


def test_it_waits_for_spot_and_then_serves_on_demand(bench):
    nodes = {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}}
    bench.flavor.capacity["spot"] = {**nodes, "provisionable": {"block": 8, "units": 8}}
    bench.flavor.save()
    PlatformSettings.objects.update_or_create(pk=1, defaults={"spot_fallback_seconds": WAIT})
    quota = make_quota(bench.team, bench.flavor, 3, capacity_type="spot")
    Quota.objects.filter(pk=quota.pk).update(used=3)

    workload = bench.turn(deploy(bench, capacity="spot-first").workload)
    assert (workload.phase, workload.capacity_type) == ("Queued", "spot")
    later = clock.now() + timedelta(seconds=WAIT + 1)
    Workload.objects.filter(pk=workload.pk).update(next_reconcile_at=later)
    reconcile(public_id=workload.public_id, client=bench.client, now=later)
    workload.refresh_from_db()
    assert (workload.capacity_type, workload.fallback_capacity) == ("on-demand", "")
    bench.until(workload, lambda row: row.reason == "Ready")
    assert Claim.objects.get(workload=workload, state="active").quota.capacity_type == "on-demand"
    for pod in own(bench, workload, kinds.POD):
        assert pod["metadata"]["annotations"]["mlportal.dev/capacity-type"] == "on-demand"


MARK = "test.mlportal.dev/spot"


@pytest.fixture
def spot_node(bench):
    """The node that counts as spot, and a way to take that from it."""
    name = next(
        item["metadata"]["name"]
        for item in bench.client.list(kinds.NODE).items
        if item["metadata"]["labels"].get("nvidia.com/gpu.product") == "NVIDIA-A100-SXM4-40GB"
    )

    def mark(value):
        ref = ObjectRef("v1", "Node", "", name)
        record_node(bench.client.patch_merge(ref, {"metadata": {"labels": {MARK: value}}}), now=clock.now())

    mark("yes")
    bench.flavor.capacity["spot"] = {"node_selector": {MARK: ["yes"]}}
    bench.flavor.save()
    make_quota(bench.team, bench.flavor, 4, capacity_type="spot")
    yield mark
    mark(None)


def pass_time(bench, workload, seconds):
    """One look at it that much later than now."""
    at = clock.now() + timedelta(seconds=seconds)
    Workload.objects.filter(pk=workload.pk).update(next_reconcile_at=at)
    reconcile(public_id=workload.public_id, client=bench.client, now=at)
    workload.refresh_from_db()


def test_one_whose_spot_nodes_are_taken_back_serves_on_demand_in_the_end(bench, spot_node):
    PlatformSettings.objects.update_or_create(
        pk=1, defaults={"spot_fallback_seconds": WAIT, "schedule_deadline_seconds": WAIT}
    )
    workload = deploy(bench, capacity="spot-first").workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert (workload.capacity_type, workload.fallback_capacity) == ("spot", "on-demand")

    spot_node(None)
    for pod in own(bench, workload, kinds.POD):
        ref = ObjectRef("v1", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        bench.client.delete(ref, uid=pod["metadata"]["uid"])
    bench.until(workload, lambda row: row.reason == "Unschedulable")
    assert workload.phase == "Admitted"
    pass_time(bench, workload, WAIT + 1)
    bench.until(workload, lambda row: row.phase == "Queued")
    assert Claim.objects.get(workload=workload).state == "released"
    pass_time(bench, workload, 2 * WAIT + 2)
    assert (workload.capacity_type, workload.fallback_capacity) == ("on-demand", "")
    bench.until(workload, lambda row: row.reason == "Ready")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"capacity": "spot", "min_replicas": 1, "max_replicas": 1}, True),
        ({"capacity": "spot-first", "min_replicas": 1, "max_replicas": 1}, True),
        ({"capacity": "spot"}, False),
        ({"min_replicas": 1, "max_replicas": 1}, False),
    ],
)
def test_one_replica_on_spot_is_warned_of(bench, changes, said):
    make_quota(bench.team, bench.flavor, 3, capacity_type="spot")
    asked = spec(bench, **changes)
    card = preview_endpoint(spec=asked, team=bench.team, user=bench.member, now=clock.now())
    assert ("one_replica_on_spot" in {hint.code for hint in card.hints}) is said


@pytest.mark.parametrize(
    ("sharing", "options", "said"),
    [
        ("time-slicing", {}, True),
        ("time-slicing", {"gpu_memory_utilization": 0.4}, False),
        ("mig", {}, False),
        ("none", {}, False),
    ],
)
def test_vllm_on_a_share_of_a_card_is_told_that_it_takes_all_of_it(bench, sharing, options, said):
    bench.flavor.sharing = sharing
    bench.flavor.save()
    asked = spec(bench, command=[], runtime="vllm", model={"claim": "m"}, runtime_options=options)
    card = preview_endpoint(spec=asked, team=bench.team, user=bench.member, now=clock.now())
    assert ("takes_the_whole_card" in {hint.code for hint in card.hints}) is said
