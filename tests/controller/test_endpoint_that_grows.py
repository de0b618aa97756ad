"""What stands beside an endpoint that grows: its headroom and its scaler, on a cluster."""

from __future__ import annotations

import pytest

from cluster import kinds
from controller.reconcile.observe import look_at
from foundation import clock
from inference.adapter import EndpointAdapter
from inference.autoscaling.sampling import follow_size
from inference.autoscaling.scalers import PAUSED
from inference.models import Endpoint
from inference.queries import routes_to
from quotas.models import Claim, ClaimPurpose, Quota
from tests.controller.endpoints import (
    BY_CPU,
    beside,
    change,
    history,
    images,
    offer,
    pods,
    ready,
    scale,
    states,
    used,
)
from tests.factories.catalogue import make_quota

pytestmark = pytest.mark.django_db(transaction=True)


def deploy_unmeasured(bench):
    """One replica of at most four, which nothing measures."""
    return ready(bench, **BY_CPU)


def test_headroom_that_is_kept_from_now_on_is_lent_no_more(bench):
    endpoint = deploy_unmeasured(bench)
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 3)
    change(bench, endpoint, headroom="reserved")
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 0)
    assert Claim.objects.get(purpose=ClaimPurpose.WORKLOAD).headroom == 0


@pytest.mark.matrix
def test_a_scaler_is_steered_while_a_revision_waits_for_room(bench):
    offer(kinds.SCALED_OBJECT)
    window = {"start": "0 8 * * *", "end": "0 18 * * *", "replicas": 1}
    scaling = {"trigger": "cron", "schedule": [window]}
    endpoint = ready(bench, gpus_per_replica=4, max_replicas=2, scaling=scaling)
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    bench.turn(endpoint.workload)
    assert history(endpoint, 2) == ["RolloutWaits"]
    Endpoint.objects.update(scaler_paused=True)
    bench.turn(endpoint.workload)
    assert PAUSED in beside(bench, endpoint, kinds.SCALED_OBJECT)["metadata"]["annotations"]


@pytest.mark.matrix
def test_what_runs_at_its_most_from_now_on_lends_nothing(bench):
    endpoint = deploy_unmeasured(bench)
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 3)
    scale(bench, endpoint, 4, 4)
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "live")
    bench.turn(endpoint.workload)
    assert (used(), Quota.objects.get().headroom) == (4, 0)


def wait_for_room(bench, endpoint, nominal):
    """Another image, for whose pod there is no room."""
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    bench.turn(endpoint.workload)
    assert history(endpoint, 2) == ["RolloutWaits"]
    make_quota(bench.team, bench.flavor, nominal)


def scaled_by_keda(bench, **fields):
    """Pods of two units that KEDA scales, with a schedule that asks for one."""
    offer(kinds.SCALED_OBJECT)
    window = {"start": "0 0 1 1 *", "end": "59 23 31 12 *", "replicas": 1}
    return ready(bench, gpus_per_replica=2, scaling={"trigger": "cron", "schedule": [window]}, **fields)


def most(bench, endpoint):
    """What the scaler in the cluster may come to."""
    return beside(bench, endpoint, kinds.SCALED_OBJECT)["spec"]["maxReplicaCount"]


def test_a_claim_covers_what_the_scaler_in_the_cluster_may_still_make(bench):
    endpoint = scaled_by_keda(bench, max_replicas=4)
    scale(bench, endpoint, 1, 2)
    workload = endpoint.workload
    workload.refresh_from_db()
    now = clock.now()
    look = look_at(workload, EndpointAdapter(), workload.attempts.get(ended_at=None), bench.client, now)
    follow_size(workload, look.observation, now)
    assert (most(bench, endpoint), used()) == (4, 8)
    bench.until(workload, lambda row: (most(bench, endpoint), used()) == (2, 4))


@pytest.mark.matrix
def test_fewer_replicas_come_while_a_revision_waits_and_only_then_is_the_claim_less(bench):
    endpoint = scaled_by_keda(bench, max_replicas=4)
    wait_for_room(bench, endpoint, 4)
    scale(bench, endpoint, 1, 2)

    def shrunk(row):
        assert used() >= 2 * most(bench, endpoint)
        return used() == 4

    bench.until(endpoint.workload, shrunk)
    assert most(bench, endpoint) == 2
    assert states(endpoint) == ["live", "superseded", "pending"]
    assert (len(pods(bench, endpoint)), images(bench, endpoint)) == (1, {"example.org/serve:1"})


def test_more_replicas_come_while_a_revision_waits(bench):
    endpoint = scaled_by_keda(bench, max_replicas=4)
    scale(bench, endpoint, 1, 2)
    bench.until(endpoint.workload, lambda row: used() == 4)
    make_quota(bench.team, bench.flavor, 4)
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    bench.turn(endpoint.workload)
    assert states(endpoint)[-1] == "pending"
    make_quota(bench.team, bench.flavor, 8)
    scale(bench, endpoint, 1, 4)
    bench.until(endpoint.workload, lambda row: most(bench, endpoint) == 4)
    assert (used(), states(endpoint)[-1]) == (8, "pending")


@pytest.mark.matrix
def test_a_fixed_number_changes_while_a_revision_waits_and_so_does_its_rate(bench):
    endpoint = ready(bench, gpus_per_replica=2, min_replicas=4, max_replicas=4)
    wait_for_room(bench, endpoint, 4)
    scale(bench, endpoint, 2, 2)
    bench.until(endpoint.workload, lambda row: used() == 4, 30)
    assert states(endpoint) == ["live", "superseded", "pending"]
    assert (len(pods(bench, endpoint)), images(bench, endpoint)) == (2, {"example.org/serve:1"})

    change(bench, endpoint, rate_limit={"requests_per_second": 5})
    bench.turn(endpoint.workload)
    assert states(endpoint)[-1] == "pending"
    (route,) = routes_to([endpoint.workload]).values()
    assert route.rate.requests_per_second == 5


@pytest.mark.matrix
def test_a_claim_shrinks_only_as_pods_go_also_where_the_bounds_are_moved_twice(bench):
    endpoint = ready(bench, min_replicas=6, max_replicas=6)
    scale(bench, endpoint, 2, 2)
    scale(bench, endpoint, 4, 4)
    assert used() == 6
    bench.until(endpoint.workload, lambda row: used() == 4, 30)
