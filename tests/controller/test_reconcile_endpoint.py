from __future__ import annotations

import pytest

from cluster import kinds
from quotas.models import Quota
from tests.controller.endpoints import TWO, change, deploy, images, pods

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_endpoint_becomes_ready_is_updated_and_leaves_nothing_when_deleted(bench):
    endpoint = deploy(bench, **TWO)
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert workload.phase == "Running"
    assert Quota.objects.get().used == 2
    for kind in (kinds.DEPLOYMENT, kinds.SERVICE, kinds.DISRUPTION_BUDGET):
        assert len(bench.own(workload, kind)) == 1, kind

    change(bench, endpoint, image="example.org/serve:2")
    bench.turn(workload)

    def rolled_out(row):
        rolled = images(bench, endpoint) == {"example.org/serve:2"}
        return row.reason == "Ready" and rolled and len(pods(bench, endpoint)) == 2

    bench.until(workload, rolled_out)
    bench.cancel(workload)
    bench.until(workload, lambda row: row.is_final, seconds=90)
    assert workload.phase == "Cancelled"
    assert Quota.objects.get().used == 0
    assert bench.own(workload, kinds.DEPLOYMENT) == bench.own(workload, kinds.POD) == []


def test_a_stopped_endpoint_frees_its_gpus_and_starts_again(bench):
    workload = deploy(bench, **TWO).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    bench.suspend(workload)
    bench.until(workload, lambda row: row.phase == "Suspended", seconds=90)
    assert Quota.objects.get().used == 0
    bench.resume(workload)
    bench.until(workload, lambda row: row.reason == "Ready")
    assert workload.attempts.count() == 2
