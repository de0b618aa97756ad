"""Four figures of quotas among the metrics: 0 as long as rows and cluster are what they must be."""

from __future__ import annotations

import re

import pytest

from foundation import clock
from foundation.http import metrics
from quotas import services
from quotas.models import Claim, Fence, Quota
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.submitted import make_run, move
from tests.factories.teams import make_member
from workloads.states import Phase

pytestmark = pytest.mark.django_db

NAMES = (
    "portal_claims_without_workload",
    "portal_workloads_without_claim",
    "portal_quota_counters_off",
    "portal_fence_drift",
)


def figures():
    text = metrics.exposition().decode()
    return [float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1]) for name in NAMES]


@pytest.fixture
def running():
    member, flavor = make_member(), make_flavor()
    make_node()
    quota = make_quota(member.team, flavor)
    run = make_run(member.team, member.user, flavor=flavor)
    services.claim(workload=run, quota=quota, units=run.units, now=clock.now())
    services.activate(workload=run, now=clock.now())
    return move(run, Phase.RUNNING)


def fence(team, observed):
    Fence.objects.create(team=team, derived={"nvidia.com/gpu": 8}, observed=observed, checked_at=clock.now())


def test_all_are_zero_while_everything_is_in_order(running):
    fence(running.team, {"nvidia.com/gpu": 8})
    fence(make_member().team, None)
    assert figures() == [0, 0, 0, 0]


def test_a_fence_that_differs_is_counted(running):
    fence(running.team, {"nvidia.com/gpu": 9})
    assert figures() == [0, 0, 0, 1]


def test_a_counter_that_is_not_the_sum_of_its_claims_is_counted(running):
    Quota.objects.update(used=5)
    assert figures() == [0, 0, 1, 0]


def test_a_workload_that_runs_without_a_claim_is_counted(running):
    Claim.objects.update(state="released", released_at=clock.now())
    Quota.objects.update(used=0)
    assert figures() == [0, 1, 0, 0]


def test_a_claim_of_what_has_ended_is_counted(running):
    move_to_end(running)
    assert figures() == [1, 0, 0, 0]


def move_to_end(run):
    from tests.factories.workloads import put_in

    put_in(run, Phase.SUCCEEDED)
