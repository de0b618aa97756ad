from __future__ import annotations

import pytest

from .kube import JSON_PATCH, MERGE, STRATEGIC, config_map, deployment, fields, refusal, unique


@pytest.fixture
def kept(kube, shared_ns):
    name = unique("patched")
    kube.core.create_namespaced_config_map(shared_ns, config_map(name, {"a": "1", "b": "2"}))
    return name


@pytest.fixture
def patch(kube, shared_ns, kept):
    def patch(body, content_type, **more):
        return kube.core.patch_namespaced_config_map(
            kept, shared_ns, body, _content_type=content_type, **more
        )

    return patch


def test_a_merge_patch_adds_changes_and_removes(patch):
    assert patch({"data": {"a": "3", "b": None, "c": "4"}}, MERGE).data == {"a": "3", "c": "4"}


def test_a_merge_patch_replaces_a_list_whole(kube, shared_ns):
    name = unique("patched")
    kube.apps.create_namespaced_deployment(shared_ns, deployment(name, {"A": "1", "B": "2"}, replicas=0))
    container = {"name": "main", "image": "other", "env": [{"name": "C", "value": "3"}]}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    seen = kube.apps.patch_namespaced_deployment(name, shared_ns, body, _content_type=MERGE)
    assert [item.name for item in seen.spec.template.spec.containers[0].env] == ["C"]


def test_a_strategic_patch_merges_lists_by_their_key_and_deletes_by_directive(kube, shared_ns):
    name = unique("patched")
    kube.apps.create_namespaced_deployment(shared_ns, deployment(name, {"A": "1", "B": "2"}, replicas=0))

    def patched(*env):
        body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}}}
        seen = kube.apps.patch_namespaced_deployment(name, shared_ns, body, _content_type=STRATEGIC)
        (container,) = seen.spec.template.spec.containers
        assert container.image == "registry.example.test/trainer:1"
        return {item.name: item.value for item in container.env}

    merged = patched({"name": "B", "value": "9"}, {"name": "C", "value": "3"})
    assert merged == {"A": "1", "B": "9", "C": "3"}
    assert patched({"$patch": "delete", "name": "A"}) == {"B": "9", "C": "3"}


def test_a_json_patch_applies_its_operations_in_order(patch):
    body = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "5"},
        {"op": "move", "from": "/data/a", "path": "/data/moved"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "z"}},
        {"op": "add", "path": "/metadata/labels/x.test~1z", "value": "w"},
    ]
    seen = patch(body, JSON_PATCH)
    assert seen.data == {"moved": "5"}
    assert seen.metadata.labels == {"a": "z", "x.test/z": "w"}


def test_a_json_patch_whose_test_fails_changes_nothing(kube, shared_ns, kept, patch):
    body = [
        {"op": "replace", "path": "/data/b", "value": "5"},
        {"op": "test", "path": "/data/a", "value": "other"},
    ]
    status = refusal(patch, body, JSON_PATCH)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert kube.core.read_namespaced_config_map(kept, shared_ns).data == {"a": "1", "b": "2"}


def test_a_json_patch_of_an_absent_path_is_refused(patch):
    status = refusal(patch, [{"op": "remove", "path": "/data/absent"}], JSON_PATCH)
    assert (status["code"], status["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_patch_with_a_stale_resource_version_is_a_conflict(kube, shared_ns, kept, patch, content_type):
    stale = kube.core.read_namespaced_config_map(kept, shared_ns).metadata.resource_version
    patch({"data": {"a": "2"}}, content_type)
    body = {"metadata": {"resourceVersion": stale}, "data": {"a": "lost update"}}
    status = refusal(patch, body, content_type)
    assert (status["code"], status["reason"]) == (409, "Conflict")


def test_a_patch_that_changes_nothing_keeps_the_resource_version(kube, shared_ns, kept, patch):
    before = kube.core.read_namespaced_config_map(kept, shared_ns).metadata.resource_version
    assert patch({"data": {"a": "1"}}, MERGE).metadata.resource_version == before


def test_a_patch_of_an_unknown_type_is_unsupported(kube, shared_ns, kept):
    path = f"/api/v1/namespaces/{shared_ns}/configmaps/{kept}"
    status = refusal(kube.request, "PATCH", path, {"data": {}}, content_type="application/json")
    assert (status["code"], status["reason"]) == (415, "UnsupportedMediaType")


def test_a_patch_of_an_absent_object_is_not_found(kube, shared_ns):
    call = kube.core.patch_namespaced_config_map
    status = refusal(call, "absent", shared_ns, {"data": {}}, _content_type=MERGE)
    assert (status["code"], status["reason"]) == (404, "NotFound")


def test_a_patch_is_validated(kube, shared_ns):
    name = unique("patched")
    kube.apps.create_namespaced_deployment(shared_ns, deployment(name, replicas=0))
    body = {"spec": {"replicas": -1}}
    status = refusal(kube.apps.patch_namespaced_deployment, name, shared_ns, body, _content_type=MERGE)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert fields(status) == {"spec.replicas"}


def test_a_dry_run_patch_answers_and_stores_nothing(kube, shared_ns, kept, patch):
    assert patch({"data": {"a": "9"}}, MERGE, dry_run="All").data["a"] == "9"
    assert kube.core.read_namespaced_config_map(kept, shared_ns).data["a"] == "1"


def test_the_status_subresource_takes_status_alone(kube, shared_ns):
    name = unique("status")
    kube.core.create_namespaced_resource_quota(
        shared_ns, {"metadata": {"name": name}, "spec": {"hard": {"count/services": "5"}}}
    )
    body = {"spec": {"hard": {"count/services": "9"}}, "status": {"hard": {"count/services": "5"}}}
    seen = kube.core.patch_namespaced_resource_quota_status(name, shared_ns, body, _content_type=MERGE)
    assert seen.spec.hard == {"count/services": "5"}
    assert seen.status.hard == {"count/services": "5"}
