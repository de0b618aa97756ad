"""An endpoint that wants spot first serves on on-demand where no spot comes in time."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from foundation import clock
from foundation.models import PlatformSettings
from inference.services import preview_endpoint
from quotas.models import Claim
from tests.controller.endpoints import TWO, deploy, pods, spec
from tests.controller.test_spot_first import WAIT, turn
from tests.factories.catalogue import make_quota
from workloads.observations import record_node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


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
        record_node(
            bench.client.patch_merge(ref, {"metadata": {"labels": {MARK: value}}}),
            cluster=bench.client.cluster,
            now=clock.now(),
        )

    mark("yes")
    bench.flavor.capacity["spot"] = {"node_selector": {MARK: ["yes"]}}
    bench.flavor.save()
    make_quota(bench.team, bench.flavor, 4, capacity_type="spot")
    yield mark
    mark(None)


def test_one_whose_spot_nodes_are_taken_back_serves_on_demand_in_the_end(bench, spot_node):
    PlatformSettings.objects.update_or_create(
        pk=1, defaults={"spot_fallback_seconds": WAIT, "schedule_deadline_seconds": WAIT}
    )
    endpoint = deploy(bench, **TWO, capacity="spot-first")
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert (workload.capacity_type, workload.fallback_capacity) == ("spot", "on-demand")

    spot_node(None)
    for pod in bench.own(workload, kinds.POD):
        bench.delete(kinds.POD, pod)
    bench.until(workload, lambda row: row.reason == "Unschedulable")
    assert workload.phase == "Admitted"
    turn(bench, workload, later=WAIT + 1)
    bench.until(workload, lambda row: row.phase == "Queued")
    assert Claim.objects.get(workload=workload).state == "released"
    turn(bench, workload, later=2 * WAIT + 2)
    assert (workload.capacity_type, workload.fallback_capacity) == ("on-demand", "")
    bench.until(workload, lambda row: row.reason == "Ready")
    assert Claim.objects.get(workload=workload, state="active").quota.capacity_type == "on-demand"
    for pod in pods(bench, endpoint):
        assert pod["metadata"]["annotations"]["mlportal.dev/capacity-type"] == "on-demand"


def hinted(bench, code, **changes):
    asked = spec(bench, **{**TWO, **changes})
    card = preview_endpoint(spec=asked, team=bench.team, user=bench.member, now=clock.now())
    return code in {hint.code for hint in card.hints}


def test_one_replica_on_spot_is_warned_of(bench):
    make_quota(bench.team, bench.flavor, 3, capacity_type="spot")
    one = {"min_replicas": 1, "max_replicas": 1}
    told = lambda **changes: hinted(bench, "one_replica_on_spot", **changes)  # noqa: E731
    assert told(capacity="spot", **one)
    assert told(capacity="spot-first", **one)
    assert not told(capacity="spot")
    assert not told(**one)


@pytest.mark.parametrize(("sharing", "said"), [("time-slicing", True), ("mig", False), ("none", False)])
def test_vllm_on_a_share_of_a_card_is_told_that_it_takes_all_of_it(bench, sharing, said):
    bench.flavor.sharing = sharing
    bench.flavor.save()
    served = {"command": [], "runtime": "vllm", "model": {"claim": "m"}}
    assert hinted(bench, "takes_the_whole_card", **served) is said
    share = {"gpu_memory_utilization": 0.4}
    assert not hinted(bench, "takes_the_whole_card", **served, runtime_options=share)
