"""What an endpoint claims and does not use, on a cluster."""

from __future__ import annotations

import pytest

from quotas.models import Claim, ClaimPurpose, Quota
from tests.controller.test_rollouts import change, deploy

pytestmark = pytest.mark.django_db(transaction=True)


def test_headroom_that_is_kept_from_now_on_is_lent_no_more(bench):
    endpoint = deploy(bench, min_replicas=1, max_replicas=4, scaling={"trigger": "cpu"})
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 3)
    change(bench, endpoint, headroom="reserved")
    bench.until(endpoint.workload, lambda row: Quota.objects.get().headroom == 0)
    assert Claim.objects.get(purpose=ClaimPurpose.WORKLOAD).headroom == 0
