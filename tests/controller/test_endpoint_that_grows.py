"""What stands beside an endpoint that grows: its headroom and its scaler, on a cluster."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from foundation import clock
from inference.models import Endpoint
from inference.scaler_verbs import scale_endpoint
from inference.scalers import PAUSED
from quotas.models import Claim, ClaimPurpose, Quota
from teams.actors import Actor
from tests.controller.test_rollouts import change, deploy, history, states
from workloads.models import WatchCursor

pytestmark = pytest.mark.django_db(transaction=True)


def deploy_unmeasured(bench):
    """One replica of at most four, which nothing measures."""
    return deploy(bench, min_replicas=1, max_replicas=4, scaling={"trigger": "cpu"})


def test_headroom_that_is_kept_from_now_on_is_lent_no_more(bench):
    endpoint = deploy_unmeasured(bench)
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 3)
    change(bench, endpoint, headroom="reserved")
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 0)
    assert Claim.objects.get(purpose=ClaimPurpose.WORKLOAD).headroom == 0


def test_a_scaler_that_somebody_deletes_is_made_again(bench):
    endpoint = deploy_unmeasured(bench)
    name = endpoint.workload.attempts.get().object_name
    kind = kinds.AUTOSCALER
    ref = ObjectRef(kind.api_version, kind.kind, bench.team.namespace_name, name)
    first = bench.client.get(ref)["metadata"]["uid"]
    bench.client.delete(ref, uid=first)
    bench.turn(endpoint.workload)
    assert bench.client.get(ref)["metadata"]["uid"] != first


def test_a_scaler_is_steered_while_a_revision_waits_for_room(bench):
    WatchCursor.objects.create(
        kind=kinds.SCALED_OBJECT.address, resource_version="1", listed_at=clock.now(), seen_at=clock.now()
    )
    window = {"start": "0 8 * * *", "end": "0 18 * * *", "replicas": 1}
    scaling = {"trigger": "cron", "schedule": [window]}
    endpoint = deploy(bench, gpus_per_replica=4, max_replicas=2, scaling=scaling)
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    bench.turn(endpoint.workload)
    assert history(endpoint, 2) == ["RolloutWaits"]
    Endpoint.objects.update(scaler_paused=True)
    bench.turn(endpoint.workload)
    name = endpoint.workload.attempts.get().object_name
    ref = ObjectRef(kinds.SCALED_OBJECT.api_version, "ScaledObject", bench.team.namespace_name, name)
    assert PAUSED in bench.client.get(ref)["metadata"]["annotations"]


def scale(bench, endpoint, least, most):
    actor = Actor.of_user(bench.member)
    endpoint.refresh_from_db()
    endpoint.workload.refresh_from_db()
    scale_endpoint(endpoint=endpoint, min_replicas=least, max_replicas=most, actor=actor, now=clock.now())


def test_what_runs_at_its_most_from_now_on_lends_nothing(bench):
    endpoint = deploy_unmeasured(bench)
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 3)
    scale(bench, endpoint, 4, 4)
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "live", 20)
    bench.turn(endpoint.workload)
    assert (Quota.objects.get().used, Quota.objects.get().headroom) == (4, 0)


def test_a_claim_shrinks_only_as_pods_go_also_where_the_bounds_are_moved_twice(bench):
    endpoint = deploy(bench, min_replicas=6, max_replicas=6)
    scale(bench, endpoint, 2, 2)
    scale(bench, endpoint, 4, 4)
    assert Quota.objects.get().used == 6
    bench.until(endpoint.workload, lambda row: Quota.objects.get().used == 4, 30)
