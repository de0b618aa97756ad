"""A model server on a real control plane that has PodMonitors: what it measures is found, and nothing of it stays."""

from __future__ import annotations

import pytest

from cluster import kinds
from controller import services
from foundation import clock
from foundation.models import PlatformSettings
from teams.actors import Actor
from tests.controller.conftest import REAL
from tests.controller.test_reconcile_endpoint import deploy, own
from workloads.models import WatchCursor

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.cluster,
    pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG"),
    pytest.mark.parametrize("client", ["real"], indirect=True),
]
SERVER = {
    "runtime": "torchserve",
    "command": [],
    "runtime_options": {"models": ["a.mar"], "batch_size": 8},
}


def test_a_pod_monitor_is_made_with_it_and_goes_with_it(bench):
    if (kinds.POD_MONITOR.api_version, kinds.POD_MONITOR.kind) not in bench.client.served_kinds():
        pytest.skip("this control plane serves no PodMonitor")
    WatchCursor.objects.create(kind=kinds.POD_MONITOR.address, seen_at=clock.now())
    workload = deploy(bench, **SERVER).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    (monitor,) = own(bench, workload, kinds.POD_MONITOR)
    (deployment,) = own(bench, workload, kinds.DEPLOYMENT)
    assert monitor["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
    pod = own(bench, workload, kinds.POD)[0]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert str(ports[endpoint["port"]]) == pod["metadata"]["annotations"]["prometheus.io/port"] == "8082"
    assert pod["spec"]["priorityClassName"] == "mlportal-inference-normal"
    assert pod["status"]["qosClass"] == "Guaranteed"

    services.cancel(workload=workload, actor=Actor.of_user(bench.member), now=clock.now())
    bench.until(workload, lambda row: row.phase == "Cancelled")
    for kind in (kinds.POD_MONITOR, kinds.CONFIG_MAP, kinds.SERVICE, kinds.POD):
        assert own(bench, workload, kind) == [], kind


def test_where_the_settings_do_not_name_them_none_is_made(bench):
    WatchCursor.objects.create(kind=kinds.POD_MONITOR.address, seen_at=clock.now())
    PlatformSettings.objects.update_or_create(pk=1, defaults={"optional_kinds": []})
    workload = deploy(bench, **SERVER).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert own(bench, workload, kinds.POD_MONITOR) == []
