from __future__ import annotations

import pytest
from kubernetes import client

from .kube import refusal


def test_version_names_a_kubernetes_release(kube):
    version = client.VersionApi(kube.api).get_code()
    assert version.major == "1"
    assert version.git_version.startswith("v1.")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_answers_ok_as_text(kube, path):
    response = kube.api.call_api(
        *kube.api.param_serialize("GET", path, header_params={}, auth_settings=["BearerToken"])
    )
    assert (response.status, response.read()) == (200, b"ok")


def test_groups_are_discovered(kube):
    assert "v1" in client.CoreApi(kube.api).get_api_versions().versions
    groups = {group.name: group for group in client.ApisApi(kube.api).get_api_versions().groups}
    wanted = {"apps", "batch", "policy", "networking.k8s.io", "scheduling.k8s.io"}
    assert wanted <= set(groups)
    assert groups["batch"].preferred_version.group_version == "batch/v1"


@pytest.mark.parametrize(
    ("api", "kind", "resource", "namespaced"),
    [
        ("core", "Pod", "pods", True),
        ("core", "Node", "nodes", False),
        ("core", "ResourceQuota", "resourcequotas", True),
        ("batch", "Job", "jobs", True),
        ("apps", "Deployment", "deployments", True),
        ("policy", "PodDisruptionBudget", "poddisruptionbudgets", True),
    ],
)
def test_resources_say_their_kind_scope_and_verbs(kube, api, kind, resource, namespaced):
    found = {item.name: item for item in getattr(kube, api).get_api_resources().resources}
    assert (found[resource].kind, found[resource].namespaced) == (kind, namespaced)
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert verbs <= set(found[resource].verbs)


def test_subresources_are_discovered(kube):
    names = {item.name for item in kube.core.get_api_resources().resources}
    assert {"pods/log", "pods/status", "pods/eviction", "nodes/status", "resourcequotas/status"} <= names
    assert "deployments/scale" in {item.name for item in kube.apps.get_api_resources().resources}


@pytest.mark.parametrize("token", ["", "not-the-token"], ids=["no-token", "wrong-token"])
def test_a_stranger_is_refused_with_a_status(kube, token):
    stranger = kube.without_credentials(token or "nobody")
    status = refusal(client.CoreV1Api(stranger).list_namespace)
    stranger.rest_client.close()
    assert (status["code"], status["reason"], status["message"]) == (401, "Unauthorized", "Unauthorized")


def test_a_name_that_no_object_has_is_not_found(kube, shared_ns):
    status = refusal(kube.core.read_namespaced_config_map, "absent", shared_ns)
    assert (status["code"], status["reason"]) == (404, "NotFound")
    assert status["message"] == 'configmaps "absent" not found'
    assert status["details"] == {"name": "absent", "kind": "configmaps"}


def test_not_found_in_a_group_names_the_group(kube, shared_ns):
    status = refusal(kube.batch.read_namespaced_job, "absent", shared_ns)
    assert status["message"] == 'jobs.batch "absent" not found'
    assert status["details"] == {"name": "absent", "group": "batch", "kind": "jobs"}
