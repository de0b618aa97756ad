from __future__ import annotations

import re

import pytest

from .kube import config_map, deployment, pod, refusal, unique


def test_a_new_object_gets_its_server_side_metadata(kube, shared_ns):
    name = unique("made")
    made = kube.raw(kube.core.create_namespaced_config_map, shared_ns, config_map(name, {"a": "1"}))
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"a": "1"})
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == (name, shared_ns)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert kube.raw(kube.core.read_namespaced_config_map, name, shared_ns) == made


def test_create_answers_201(kube, shared_ns):
    _, status, headers = kube.core.create_namespaced_config_map_with_http_info(
        shared_ns, config_map(unique("made"))
    )
    assert status == 201
    assert headers["Content-Type"].startswith("application/json")


def test_a_second_create_is_already_exists(kube, shared_ns):
    name = unique("twice")
    kube.core.create_namespaced_config_map(shared_ns, config_map(name))
    status = refusal(kube.core.create_namespaced_config_map, shared_ns, config_map(name))
    assert (status["code"], status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == f'configmaps "{name}" already exists'


def test_create_in_an_absent_namespace_is_not_found(kube):
    status = refusal(kube.core.create_namespaced_config_map, "contract-absent", config_map("a"))
    assert (status["code"], status["reason"]) == (404, "NotFound")
    assert status["message"] == 'namespaces "contract-absent" not found'


def test_create_in_another_namespace_than_the_objects_is_bad_request(kube, shared_ns):
    body = config_map("a", namespace="default")
    status = refusal(kube.core.create_namespaced_config_map, shared_ns, body)
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert "does not match the namespace" in status["message"]


def test_generate_name_adds_five_characters(kube, shared_ns):
    body = {"metadata": {"generateName": "series-"}, "data": {}}
    first, second = (kube.core.create_namespaced_config_map(shared_ns, body) for _ in range(2))
    assert re.fullmatch(r"series-[a-z0-9]{5}", first.metadata.name)
    assert first.metadata.name != second.metadata.name


def test_put_replaces_and_moves_the_resource_version(kube, shared_ns):
    name = unique("put")
    made = kube.core.create_namespaced_config_map(shared_ns, config_map(name, {"a": "1", "b": "2"}))
    put = kube.core.replace_namespaced_config_map(name, shared_ns, config_map(name, {"a": "3"}))
    assert put.data == {"a": "3"}
    assert put.metadata.uid == made.metadata.uid
    assert put.metadata.resource_version != made.metadata.resource_version


def test_put_with_a_stale_resource_version_is_a_conflict(kube, shared_ns):
    name = unique("put")
    stale = kube.core.create_namespaced_config_map(shared_ns, config_map(name, {"a": "1"}))
    kube.core.replace_namespaced_config_map(name, shared_ns, config_map(name, {"a": "2"}))
    stale.data = {"a": "lost update"}
    status = refusal(kube.core.replace_namespaced_config_map, name, shared_ns, stale)
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == (
        f'Operation cannot be fulfilled on configmaps "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_put_that_changes_nothing_keeps_the_resource_version(kube, shared_ns):
    name = unique("put")
    made = kube.core.create_namespaced_config_map(shared_ns, config_map(name, {"a": "1"}))
    put = kube.core.replace_namespaced_config_map(name, shared_ns, made)
    assert put.metadata.resource_version == made.metadata.resource_version


def test_put_under_another_name_is_bad_request(kube, shared_ns):
    name = unique("put")
    kube.core.create_namespaced_config_map(shared_ns, config_map(name))
    status = refusal(kube.core.replace_namespaced_config_map, name, shared_ns, config_map("other"))
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert "does not match the name on the URL" in status["message"]


def test_put_cannot_change_the_uid(kube, shared_ns):
    name = unique("put")
    kube.core.create_namespaced_config_map(shared_ns, config_map(name))
    body = config_map(name, uid="00000000-0000-4000-8000-000000000000")
    status = refusal(kube.core.replace_namespaced_config_map, name, shared_ns, body)
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in status["message"]


def test_dry_run_answers_and_stores_nothing(kube, shared_ns):
    name = unique("dry")
    made = kube.core.create_namespaced_config_map(shared_ns, config_map(name, {"a": "1"}), dry_run="All")
    assert made.data == {"a": "1"}
    assert made.metadata.uid
    assert refusal(kube.core.read_namespaced_config_map, name, shared_ns)["code"] == 404


def test_dry_run_of_a_delete_keeps_the_object(kube, shared_ns):
    name = unique("dry")
    kube.core.create_namespaced_config_map(shared_ns, config_map(name))
    kube.core.delete_namespaced_config_map(name, shared_ns, dry_run="All")
    assert kube.core.read_namespaced_config_map(name, shared_ns).metadata.deletion_timestamp is None


def test_dry_run_of_an_invalid_object_is_refused(kube, shared_ns):
    body = config_map("Not A Name")
    status = refusal(kube.core.create_namespaced_config_map, shared_ns, body, dry_run="All")
    assert (status["code"], status["reason"]) == (422, "Invalid")


def test_strict_validation_refuses_an_unknown_field(kube, shared_ns):
    body = pod(unique("strict"))
    body["spec"]["nodeSelectr"] = {"a": "b"}
    path, strict = f"/api/v1/namespaces/{shared_ns}/pods", {"fieldValidation": "Strict"}
    status = refusal(kube.request, "POST", path, body, query=strict)
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.nodeSelectr"' in status["message"]


def test_lax_validation_drops_an_unknown_field(kube, shared_ns):
    body = config_map(unique("lax"), {"a": "1"})
    body["dat"] = {"b": "2"}
    path, lax = f"/api/v1/namespaces/{shared_ns}/configmaps", {"fieldValidation": "Ignore"}
    made = kube.request("POST", path, body, query=lax)
    assert "dat" not in made
    assert made["data"] == {"a": "1"}


def test_status_in_a_create_is_ignored(kube, shared_ns):
    body = deployment(unique("status"), replicas=0)
    body["status"] = {"replicas": 7, "observedGeneration": 99}
    made = kube.apps.create_namespaced_deployment(shared_ns, body)
    assert not made.status.replicas
    assert not made.status.observed_generation


def test_generation_moves_with_the_spec_alone(kube, shared_ns):
    name = unique("generation")
    made = kube.apps.create_namespaced_deployment(shared_ns, deployment(name, replicas=0))
    assert made.metadata.generation == 1
    labelled = kube.apps.patch_namespaced_deployment(name, shared_ns, {"metadata": {"labels": {"a": "b"}}})
    assert labelled.metadata.generation == 1
    changed = kube.apps.patch_namespaced_deployment(name, shared_ns, {"spec": {"minReadySeconds": 1}})
    assert changed.metadata.generation == 2


def test_a_namespace_gets_its_name_as_a_label_and_a_service_account(kube, shared_ns):
    seen = kube.core.read_namespace(shared_ns)
    assert seen.metadata.labels["kubernetes.io/metadata.name"] == shared_ns
    assert seen.status.phase == "Active"
    assert kube.core.read_namespaced_service_account("default", shared_ns).metadata.name == "default"


STORED = {
    "configmaps": ("/api/v1", "ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "AAE="}}),
    "secrets": ("/api/v1", "Secret", {"type": "Opaque", "data": {"token": "c2VjcmV0"}}),
    "persistentvolumeclaims": (
        "/api/v1",
        "PersistentVolumeClaim",
        {
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "shared",
                "resources": {"requests": {"storage": "10Gi"}},
            }
        },
    ),
    "serviceaccounts": ("/api/v1", "ServiceAccount", {"automountServiceAccountToken": False}),
    "poddisruptionbudgets": (
        "/apis/policy/v1",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    ),
    "networkpolicies": (
        "/apis/networking.k8s.io/v1",
        "NetworkPolicy",
        {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]}},
    ),
    "limitranges": (
        "/api/v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}},
    ),
}


@pytest.mark.parametrize("resource", STORED)
def test_a_stored_kind_comes_back_as_it_was_sent(kube, ns, resource):
    root, kind, content = STORED[resource]
    path = f"{root}/namespaces/{ns}/{resource}"
    group = root.removeprefix("/apis/").removeprefix("/api/")
    sent = {"apiVersion": group, "kind": kind, "metadata": {"name": "kept", "labels": {"a": "b"}}, **content}
    kube.request("POST", path, sent)
    seen = kube.request("GET", f"{path}/kept")
    assert (seen["kind"], seen["apiVersion"], seen["metadata"]["labels"]) == (kind, group, {"a": "b"})
    for key, value in content.items():
        assert _holds(seen[key], value)
    listed = kube.request("GET", path, query={"labelSelector": "a=b"})
    assert (listed["kind"], listed["apiVersion"]) == (f"{kind}List", group)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["kept"]


def _holds(seen, sent) -> bool:
    """Whether what was sent is there; the server adds defaults beside it."""
    if isinstance(sent, dict):
        return all(key in seen and _holds(seen[key], value) for key, value in sent.items())
    if isinstance(sent, list):
        return len(seen) == len(sent) and all(map(_holds, seen, sent))
    return seen == sent
