"""The client on real HTTP APIs: devcluster always, the API server of PORTAL_TEST_KUBECONFIG if there is
one.
"""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import suppress

import pytest

from cluster import kinds
from cluster.errors import AlreadyExists, ClusterConflict, ClusterRejected, ObjectNotFound
from cluster.kinds import ref_of
from cluster.labels import WORKLOAD_ID


def config_map(namespace, name="data", workload="w-1", **data):
    labels = {WORKLOAD_ID: workload} if workload else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "data": data,
    }


def secret(namespace, workload="w-1"):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": "token", "labels": {WORKLOAD_ID: workload}},
        "stringData": {"token": "s3cret"},
    }


def job(namespace, **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": "run"},
        "spec": {"suspend": True, "template": {"spec": pod}} | spec,
    }


def test_an_applied_object_is_read_back_and_applied_again(client, namespace):
    made = client.apply(config_map(namespace, a="1"))
    again = client.apply(config_map(namespace, a="2"))
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    assert client.get(ref_of(made))["data"] == {"a": "2"}


def test_a_field_of_another_manager_is_not_taken_without_force(client, namespace):
    client.create(config_map(namespace, a="1"))
    client._request(
        "PATCH",
        kinds.CONFIG_MAP.path(namespace=namespace, name="data"),
        query={"fieldManager": "other", "force": "true"},
        body=config_map(namespace, a="theirs"),
        content_type="application/apply-patch+yaml",
    )
    with pytest.raises(ClusterConflict, match="other"):
        client.apply(config_map(namespace, a="ours"), force=False)
    assert client.apply(config_map(namespace, a="ours"))["data"] == {"a": "ours"}


def test_a_second_create_says_that_it_exists(client, namespace):
    client.create(config_map(namespace))
    with pytest.raises(AlreadyExists):
        client.create(config_map(namespace))


def test_our_own_object_is_adopted_and_nobody_elses(client, namespace):
    made = client.create_or_adopt(config_map(namespace), workload_id="w-1")
    assert (
        client.create_or_adopt(config_map(namespace), workload_id="w-1")["metadata"]["uid"]
        == made["metadata"]["uid"]
    )
    with pytest.raises(
        ClusterConflict, match=rf"ConfigMap {namespace}/data already exists and belongs to workload w-1"
    ):
        client.create_or_adopt(config_map(namespace, workload="w-2"), workload_id="w-2")
    client.create(config_map(namespace, name="foreign", workload=""))
    with pytest.raises(ClusterConflict, match="was not made by the portal"):
        client.create_or_adopt(config_map(namespace, name="foreign"), workload_id="w-1")


def test_a_secret_is_adopted_without_reading_its_value(client, namespace):
    made = client.create_or_adopt(secret(namespace), workload_id="w-1")
    found = client.create_or_adopt(secret(namespace), workload_id="w-1")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(ClusterConflict, match="belongs to workload w-1"):
        client.create_or_adopt(secret(namespace, workload="w-2"), workload_id="w-2")


@pytest.mark.cluster
def test_the_real_server_never_sends_a_secrets_value(real_client):
    name = f"secret-{uuid.uuid4().hex[:8]}"
    manifest = {**secret("default"), "metadata": {"namespace": "default", "name": name}}
    for answer in (real_client.apply(manifest), real_client.patch_merge(ref_of(manifest), {})):
        assert "data" not in answer
        assert answer["metadata"]["name"] == name
    real_client.delete(ref_of(manifest), uid=answer["metadata"]["uid"])


def test_delete_removes_the_object_with_that_uid_alone(client, namespace):
    made = client.create(config_map(namespace))
    ref = ref_of(made)
    client.delete(ref, uid="00000000-0000-0000-0000-000000000000")
    assert client.get(ref)["metadata"]["uid"] == made["metadata"]["uid"]
    client.delete(ref, uid=made["metadata"]["uid"])
    with pytest.raises(ObjectNotFound):
        client.get(ref)
    client.delete(ref, uid=made["metadata"]["uid"])


def test_a_deleted_job_may_wait_for_its_pods(client, namespace):
    made = client.create(job(namespace))
    client.delete(ref_of(made), uid=made["metadata"]["uid"], propagation="Foreground", grace_seconds=0)
    with suppress(ObjectNotFound):
        assert client.get(ref_of(made))["metadata"]["deletionTimestamp"]


def test_an_invalid_object_is_rejected_with_the_fields_that_are_wrong(client, namespace):
    with pytest.raises(ClusterRejected) as caught:
        client.create(job(namespace, parallelism=-1))
    assert caught.value.status == 422
    assert "spec.parallelism" in dict(caught.value.causes)


def test_a_misspelt_field_is_refused_and_not_dropped(client, namespace):
    with pytest.raises(ClusterRejected, match="paralelism"):
        client.create(job(namespace, paralelism=1))


def test_a_merge_patch_changes_what_it_names(client, namespace):
    made = client.create(config_map(namespace, a="1", b="2"))
    assert client.patch_merge(ref_of(made), {"data": {"a": None, "c": "3"}})["data"] == {"b": "2", "c": "3"}


def test_lists_are_read_in_pages_and_say_where_to_watch_from(client, namespace, monkeypatch):
    monkeypatch.setattr("cluster.client.PAGE_SIZE", 3)
    for number in range(8):
        client.create(config_map(namespace, name=f"map-{number}", workload=f"w-{number % 2}"))
    found = client.list(kinds.CONFIG_MAP, namespace=namespace, label_selector=WORKLOAD_ID)
    assert sorted(item["metadata"]["name"] for item in found.items) == [
        f"map-{number}" for number in range(8)
    ]
    assert {(item["apiVersion"], item["kind"]) for item in found.items} == {("v1", "ConfigMap")}
    assert found.resource_version
    some = client.list(kinds.CONFIG_MAP, namespace=namespace, label_selector=f"{WORKLOAD_ID}=w-1")
    assert len(some.items) == 4
    one = client.list(kinds.CONFIG_MAP, namespace=namespace, field_selector="metadata.name=map-3")
    assert len(one.items) == 1
    then = client.list(kinds.CONFIG_MAP, namespace=namespace, resource_version=found.resource_version)
    assert {f"map-{number}" for number in range(8)} <= {item["metadata"]["name"] for item in then.items}


def test_an_unknown_object_is_not_found(client, namespace):
    with pytest.raises(ObjectNotFound):
        client.get(kinds.ObjectRef("batch/v1", "Job", namespace, "none"))
    with pytest.raises(ObjectNotFound):
        client.read_log(namespace, "none")


def test_the_cluster_says_what_it_serves(client):
    assert client.version()["gitVersion"].startswith("v1.")
    served = client.served_kinds()
    assert {("v1", "Pod"), ("batch/v1", "Job"), ("apps/v1", "Deployment")} <= served
    assert not any("/" in kind for _, kind in served)


def test_one_client_serves_many_threads(client, namespace):
    failures = []

    def work(number: int) -> None:
        try:
            client.create(config_map(namespace, name=f"thread-{number}"))
            client.list(kinds.CONFIG_MAP, namespace=namespace)
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_client_works_on_after_a_fork(client):
    before = client.connection()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            client.version()
            os.write(write, b"same" if client.connection() is before else b"own")
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 10) == b"own"
    os.close(read)
    os.waitpid(pid, 0)
    client.version()
    assert client.connection() is before
