"""A model server on a real control plane that has PodMonitors: what it measures is found, and nothing of it stays."""

from __future__ import annotations

from functools import partial

import pytest

from cluster import kinds
from foundation.models import PlatformSettings
from tests.controller.conftest import REAL
from tests.controller.endpoints import deploy, offer
from tests.waiting import until_equal

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
    offer(kinds.POD_MONITOR)
    workload = deploy(bench, **SERVER).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    (monitor,) = bench.own(workload, kinds.POD_MONITOR)
    (deployment,) = bench.own(workload, kinds.DEPLOYMENT)
    assert monitor["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
    pod = bench.own(workload, kinds.POD)[0]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert str(ports[endpoint["port"]]) == pod["metadata"]["annotations"]["prometheus.io/port"] == "8082"
    assert pod["spec"]["priorityClassName"] == "mlportal-inference-normal"
    assert pod["status"]["qosClass"] == "Guaranteed"

    bench.cancel(workload)
    bench.until(workload, lambda row: row.phase == "Cancelled")
    assert bench.own(workload, kinds.POD) == []
    # What the Deployment owned is collected by the control plane, in its own time.
    for kind in (kinds.POD_MONITOR, kinds.CONFIG_MAP, kinds.SERVICE):
        until_equal(partial(bench.own, workload, kind), [])


def test_where_the_settings_do_not_name_them_none_is_made(bench):
    offer(kinds.POD_MONITOR)
    PlatformSettings.objects.update_or_create(pk=1, defaults={"optional_kinds": []})
    workload = deploy(bench, **SERVER).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert bench.own(workload, kinds.POD_MONITOR) == []
