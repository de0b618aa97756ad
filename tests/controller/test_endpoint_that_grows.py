"""What stands beside an endpoint that grows: its headroom and its scaler, on a cluster."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from quotas.models import Claim, ClaimPurpose, Quota
from tests.controller.test_rollouts import change, deploy

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
