"""A revision is rolled out while the real KEDA changes how many pods there are."""

from __future__ import annotations

import pytest

from cluster.labels import REVISION
from inference.errors import RolloutBlocked
from inference.models import Endpoint
from quotas.models import Claim, ClaimState
from tests.controller.endpoints import BAD_IMAGE, change, history, impatient, pods, states
from tests.controller.test_scaling_for_real import (
    MINUTES,
    bench,
    deploy,
    pytestmark,
    replicas,
    source,
    utilisation,
)
from tests.factories.catalogue import make_quota

__all__ = ["bench", "pytestmark", "source"]

SCALING = {"trigger": "gpu-utilization", "threshold": 70, "scale_down_stabilization_seconds": 0}


def claimed(workload):
    held = Claim.objects.filter(workload=workload).exclude(state=ClaimState.RELEASED)
    return sum(held.values_list("units", flat=True))


def revisions_of(bench, endpoint):
    return {pod["metadata"]["labels"][REVISION] for pod in pods(bench, endpoint)}


@pytest.fixture
def endpoint(bench, source):
    """One ready replica of at most three, whose utilisation is half of what it may be."""
    workload = deploy(bench, min_replicas=1, max_replicas=3, scaling=SCALING)
    bench.until(workload, lambda row: row.attempt_number == 1)
    source.planted |= utilisation(bench, workload, 0.4)
    endpoint = Endpoint.objects.get(workload=workload)
    bench.until(workload, lambda row: states(endpoint) == ["live"], MINUTES)
    return endpoint


def test_it_ends_with_as_many_new_pods_as_the_scaler_wants_and_never_holds_more_than_it_claims(
    bench, source, endpoint
):
    workload = endpoint.workload
    source.planted |= utilisation(bench, workload, 0.95)
    change(bench, endpoint, image="example.org/serve:2")

    def done(row):
        assert len(pods(bench, endpoint)) <= claimed(row)
        settled = states(endpoint)[-1] == "live" and replicas(bench, workload) == (3, 3)
        return settled and claimed(row) == 3 and row.reason == "Ready"

    bench.until(workload, done, MINUTES)
    assert revisions_of(bench, endpoint) == {"2"}
    assert history(endpoint, 2)[:2] == ["RolloutStarted", "SurgeClaimed"]
    assert history(endpoint, 2)[-1] == "RevisionLive"

    # All that may be claimed is in use: one pod more than the maximum has no quota.
    make_quota(bench.team, bench.slices, 3)
    with pytest.raises(RolloutBlocked, match="3 of 3 are in use"):
        change(bench, endpoint, image="example.org/serve:3")
    assert states(endpoint) == ["superseded", "live"]


def test_what_fails_while_the_scaler_adds_pods_goes_back_and_all_of_them_are_old(bench, source, endpoint):
    workload = endpoint.workload
    impatient(image_pull_deadline=40)
    change(bench, endpoint, image=BAD_IMAGE)
    source.planted |= utilisation(bench, workload, 0.95)

    def done(row):
        assert len(pods(bench, endpoint)) <= claimed(row)
        back = states(endpoint) == ["superseded", "failed", "live"]
        return back and replicas(bench, workload) == (3, 3) and claimed(row) == 3

    bench.until(workload, done, MINUTES)
    assert revisions_of(bench, endpoint) == {"1"}
    assert endpoint.revisions.get(number=3).spec["max_replicas"] == 3
