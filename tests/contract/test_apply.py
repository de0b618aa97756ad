from __future__ import annotations

import pytest

from .kube import APPLY, JSON_PATCH, MERGE, deployment, fields, refusal, unique


def applied(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def apply(kube, shared_ns):
    def apply(body, manager="portal", **more):
        return kube.core.patch_namespaced_config_map(
            body["metadata"]["name"], shared_ns, body, field_manager=manager, _content_type=APPLY, **more
        )

    return apply


def test_apply_creates_then_keeps_the_version_of_the_same_and_then_changes(apply):
    name = unique("applied")
    first = apply(applied(name, a="1"))
    assert apply(applied(name, a="1")).metadata.resource_version == first.metadata.resource_version
    second = apply(applied(name, a="2"))
    assert first.metadata.uid == second.metadata.uid
    assert second.data == {"a": "2"}


def test_apply_answers_201_then_200(kube, shared_ns):
    name = unique("applied")
    call = kube.core.patch_namespaced_config_map_with_http_info
    codes = [
        call(name, shared_ns, applied(name, a="1"), field_manager="portal", _content_type=APPLY)[1]
        for _ in range(2)
    ]
    assert codes == [201, 200]


def test_apply_records_who_owns_which_field(apply):
    name = unique("applied")
    (entry,) = apply(applied(name, a="1")).metadata.managed_fields
    assert (entry.manager, entry.operation, entry.api_version) == ("portal", "Apply", "v1")
    assert entry.fields_type == "FieldsV1"
    assert "f:a" in entry.fields_v1["f:data"]
    assert entry.time


def test_a_field_no_longer_applied_is_removed(apply):
    name = unique("applied")
    apply(applied(name, a="1", b="2"))
    assert apply(applied(name, a="1")).data == {"a": "1"}


def test_a_field_of_another_manager_stays(apply):
    name = unique("applied")
    apply(applied(name, a="1"))
    apply(applied(name, b="2"), manager="another")
    seen = apply(applied(name, a="3"))
    assert seen.data == {"a": "3", "b": "2"}
    assert {entry.manager for entry in seen.metadata.managed_fields} == {"portal", "another"}


def test_a_field_that_two_apply_alike_is_shared(apply):
    name = unique("applied")
    apply(applied(name, a="1"))
    apply(applied(name, a="1"), manager="another")
    assert apply(applied(name, b="2")).data == {"a": "1", "b": "2"}


def test_changing_a_field_of_another_manager_is_a_conflict_until_force_takes_it_over(apply):
    name = unique("applied")
    apply(applied(name, a="1"))
    status = refusal(apply, applied(name, a="2"), manager="another")
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "portal": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "portal"', "field": ".data.a"}
    ]
    assert apply(applied(name, a="2"), manager="another", force=True).data == {"a": "2"}
    assert 'conflict with "another"' in refusal(apply, applied(name, a="3"))["message"]


def test_two_conflicts_are_both_named(apply):
    name = unique("applied")
    apply(applied(name, a="1", b="1"))
    status = refusal(apply, applied(name, a="2", b="2"), manager="another")
    assert status["message"].startswith('Apply failed with 2 conflicts: conflicts with "portal":\n')
    assert fields(status) == {".data.a", ".data.b"}


def test_an_update_by_another_client_is_a_conflict_too(kube, shared_ns, apply):
    name = unique("applied")
    apply(applied(name, a="1"))
    kube.core.patch_namespaced_config_map(
        name, shared_ns, {"data": {"a": "2"}}, field_manager="hand", _content_type=MERGE
    )
    status = refusal(apply, applied(name, a="3"))
    assert status["message"].startswith('Apply failed with 1 conflict: conflict with "hand" using v1')
    assert status["message"].endswith(": .data.a")


def test_apply_without_a_manager_is_refused(kube, shared_ns):
    name = unique("applied")
    call = kube.core.patch_namespaced_config_map
    status = refusal(call, name, shared_ns, applied(name, a="1"), _content_type=APPLY)
    assert status["code"] == 422
    assert "fieldManager: Required value: is required for apply patch" in status["message"]


def test_force_is_for_apply_alone(kube, shared_ns, apply):
    name = unique("applied")
    apply(applied(name, a="1"))
    call = kube.core.patch_namespaced_config_map
    status = refusal(call, name, shared_ns, [], force=True, _content_type=JSON_PATCH)
    assert status["code"] == 422
    assert "force: Forbidden: may not be specified for non-apply patch" in status["message"]


def test_a_dry_run_of_apply_finds_the_conflict_and_stores_nothing(apply, kube, shared_ns):
    name = unique("applied")
    apply(applied(name, a="1"))
    assert refusal(apply, applied(name, a="2"), manager="another", dry_run="All")["code"] == 409
    apply(applied(name, a="9"), dry_run="All")
    assert kube.core.read_namespaced_config_map(name, shared_ns).data == {"a": "1"}


def test_apply_refuses_an_unknown_field(apply):
    body = {**applied(unique("applied"), a="1"), "dat": {}}
    status = refusal(apply, body)
    assert status["code"] == 500
    assert ".dat: field not declared in schema" in status["message"]


def test_replicas_left_out_stay_with_their_scaler(kube, shared_ns):
    name = unique("scaled")
    body = deployment(name)
    del body["spec"]["replicas"]

    def apply():
        return kube.apps.patch_namespaced_deployment(
            name, shared_ns, body, field_manager="portal", _content_type=APPLY
        )

    assert apply().spec.replicas == 1
    scale = {"spec": {"replicas": 2}}
    kube.apps.patch_namespaced_deployment(name, shared_ns, scale, field_manager="scaler", _content_type=MERGE)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.test/trainer:2"
    assert apply().spec.replicas == 2
    body["spec"]["replicas"] = 3
    status = refusal(apply)
    assert 'conflict with "scaler"' in status["message"]
    assert fields(status) == {".spec.replicas"}


def test_a_list_item_of_another_manager_stays(kube, shared_ns):
    name = unique("listed")

    def apply(manager, **env):
        body = deployment(name, env, replicas=0)
        return kube.apps.patch_namespaced_deployment(
            name, shared_ns, body, field_manager=manager, _content_type=APPLY
        )

    apply("portal", A="1", B="2")
    apply("another", C="3")
    seen = apply("portal", A="1")
    env = seen.spec.template.spec.containers[0].env
    assert {item.name: item.value for item in env} == {"A": "1", "C": "3"}
