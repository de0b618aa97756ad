"""Spot first: it waits for spot, and for on-demand from then on where no spot comes in time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster import kinds
from controller.reconcile.reconciler import reconcile
from foundation import clock
from foundation.errors import Invalid
from foundation.models import PlatformSettings
from quotas.models import Claim, Decision, Quota
from tests.factories.catalogue import make_quota
from workloads.models import Workload, WorkloadEvent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]
WAIT = 600


@pytest.fixture
def spot(bench):
    """Nodes of spot that may come, and quota of them that somebody else uses."""
    nodes = {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}}
    bench.flavor.capacity["spot"] = {**nodes, "provisionable": {"block": 8, "units": 8}}
    bench.flavor.save()
    PlatformSettings.objects.update_or_create(pk=1, defaults={"spot_fallback_seconds": WAIT})
    quota = make_quota(bench.team, bench.flavor, 2, capacity_type="spot")
    Quota.objects.filter(pk=quota.pk).update(used=2)
    return quota


def turn(bench, run, *, later=0):
    at = clock.now() + timedelta(seconds=later)
    Workload.objects.filter(pk=run.pk).update(next_reconcile_at=at)
    reconcile(public_id=run.public_id, client=bench.client, now=at)
    run.refresh_from_db()
    return run


def test_it_waits_for_spot_and_after_that_it_is_decided_anew_and_starts_on_demand(bench, spot):
    run = turn(bench, bench.submit(capacity="spot-first"))
    queued_at = run.queued_at
    assert (run.phase, run.capacity_type) == ("Queued", "spot")
    assert run.next_reconcile_at <= queued_at + timedelta(seconds=WAIT + 1)
    run = turn(bench, run, later=WAIT - 5)
    assert (run.phase, run.capacity_type) == ("Queued", "spot")
    run = turn(bench, run, later=WAIT + 1)
    assert run.phase != "Queued", run.message
    assert (run.capacity_type, run.fallback_capacity) == ("on-demand", "")
    assert run.queued_at == queued_at, "it keeps its place in time"
    claim = Claim.objects.get(workload=run)
    assert claim.quota.capacity_type == "on-demand"
    said = WorkloadEvent.objects.filter(workload=run, actor="spot-fallback").get()
    assert said.message == "No spot capacity in time: it waits for on-demand from now on."
    assert Decision.objects.filter(workload=run).count() >= 2
    run = bench.until(run, lambda each: each.pods.exists())
    (pod,) = bench.own(run, kinds.POD)
    assert pod["metadata"]["annotations"]["mlportal.dev/capacity-type"] == "on-demand"


@pytest.mark.parametrize("units", [None, 1], ids=["it has no quota of it", "it never could come"])
def test_without_enough_quota_for_on_demand_it_goes_on_waiting_for_spot(bench, spot, units):
    run = turn(bench, bench.submit(capacity="spot-first"))
    if units is None:
        Quota.objects.filter(capacity_type="on-demand").delete()
    else:
        make_quota(bench.team, bench.flavor, units)
    run = turn(bench, run, later=WAIT + 1)
    assert (run.phase, run.capacity_type, run.fallback_capacity) == ("Queued", "spot", "on-demand")


def test_where_spot_can_never_come_it_is_on_demand_from_the_start(bench):
    run = turn(bench, bench.submit(capacity="spot-first"))
    assert (run.capacity_type, run.fallback_capacity) == ("on-demand", "")


def test_where_neither_can_come_it_is_refused(bench):
    Quota.objects.all().delete()
    with pytest.raises(Invalid):
        bench.submit(capacity="spot-first")


def test_what_waits_for_spot_alone_goes_on_waiting(bench, spot):
    run = turn(bench, bench.submit(capacity="spot"))
    run = turn(bench, run, later=WAIT + 1)
    assert (run.phase, run.capacity_type) == ("Queued", "spot")
