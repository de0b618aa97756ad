from __future__ import annotations

import pytest

from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from tests.manifest_samples import WORKLOAD_ID, placement


def endpoint(replicas=1, **body):
    spec = EndpointSpec.from_json({"name": "a", "image": "b", **body})
    return build_endpoint(spec, placement("a", "endpoint"), replicas=replicas)


def container_of(manifests):
    return manifests.primary["spec"]["template"]["spec"]["containers"][0]


def by_kind(manifests, kind):
    return next(manifest for manifest in manifests.all() if manifest["kind"] == kind)


def test_replicas_are_those_that_the_portal_says():
    assert endpoint(replicas=0, min_replicas=3).primary["spec"]["replicas"] == 0


def test_deployment_service_and_budget_share_a_name_and_select_by_the_workload_alone():
    manifests = endpoint()
    wanted = {"mlportal.dev/workload-id": WORKLOAD_ID}
    names = {manifest["metadata"]["name"] for manifest in manifests.all()}
    assert len(names) == 1
    assert manifests.primary["spec"]["selector"]["matchLabels"] == wanted
    assert by_kind(manifests, "Service")["spec"]["selector"] == wanted
    assert by_kind(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == wanted


@pytest.mark.parametrize(("strategy", "surge", "unavailable"), [("surge", 1, 0), ("replace", 0, 1)])
def test_the_strategy_says_whether_a_rollout_takes_more_gpus(strategy, surge, unavailable):
    rolling = endpoint(rollout={"strategy": strategy}).primary["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": surge, "maxUnavailable": unavailable}


@pytest.mark.parametrize("budget", [10, 11, 600, 7200])
def test_loading_may_take_its_budget_and_a_rollout_longer(budget):
    manifests = endpoint(probes={"load_budget_seconds": budget})
    startup = container_of(manifests)["startupProbe"]
    assert (
        budget <= startup["periodSeconds"] * startup["failureThreshold"] < budget + startup["periodSeconds"]
    )
    assert manifests.primary["spec"]["progressDeadlineSeconds"] > budget


def test_the_startup_probe_asks_what_the_readiness_probe_asks():
    container = container_of(endpoint(probes={"readiness": {"path": "/ready"}}))
    assert container["startupProbe"]["httpGet"] == container["readinessProbe"]["httpGet"]
    assert "livenessProbe" not in container
    assert "tcpSocket" in container_of(endpoint())["readinessProbe"]


def test_a_pod_may_finish_its_longest_request():
    pod = endpoint(request_timeout_seconds=300).primary["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 300


def test_other_files_are_another_config_map_and_so_a_rollout():
    first = endpoint(source={"files": {"a.py": "1"}})
    second = endpoint(source={"files": {"a.py": "2"}})
    assert by_kind(first, "ConfigMap")["metadata"]["name"] != by_kind(second, "ConfigMap")["metadata"]["name"]
    assert first.primary["spec"]["template"] != second.primary["spec"]["template"]
    assert first == endpoint(source={"files": {"a.py": "1"}})


def test_an_endpoint_is_told_nothing_of_the_portal():
    assert [each["name"] for each in container_of(endpoint())["env"]] == ["PYTHONUNBUFFERED"]


def test_what_python_prints_is_in_the_log_at_once_unless_the_person_says_otherwise():
    own = {"name": "PYTHONUNBUFFERED", "value": ""}
    assert container_of(endpoint(env=[own]))["env"] == [own]
