from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import MERGE, config_map, deployment, gone, job, pod, refusal, unique


def owned(name, owner, **reference):
    """A ConfigMap owned by another."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", **reference}
    return config_map(
        name, ownerReferences=[{**reference, "name": owner.metadata.name, "uid": owner.metadata.uid}]
    )


@pytest.fixture
def maps(kube, ns):
    """Short words for ConfigMaps in the case's namespace."""

    class Maps:
        def create(self, body):
            return kube.core.create_namespaced_config_map(ns, body)

        def read(self, name):
            return kube.core.read_namespaced_config_map(name, ns)

        def delete(self, name, **options):
            return kube.core.delete_namespaced_config_map(name, ns, body=options)

        def patch(self, name, body):
            return kube.core.patch_namespaced_config_map(name, ns, body, _content_type=MERGE)

        def names(self):
            return {item.metadata.name for item in kube.core.list_namespaced_config_map(ns).items} - {
                "kube-root-ca.crt"
            }

    return Maps()


def test_delete_answers_success_with_the_uid(kube, maps, ns):
    made = maps.create(config_map("a"))
    status = kube.raw(kube.core.delete_namespaced_config_map, "a", ns)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": made.metadata.uid}
    assert refusal(maps.delete, "a")["reason"] == "NotFound"


def test_delete_of_another_uid_is_a_conflict_and_of_the_right_one_deletes(maps):
    made = maps.create(config_map("a"))
    status = refusal(maps.delete, "a", preconditions={"uid": "00000000-0000-4000-8000-000000000000"})
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert "the UID in the precondition" in status["message"]
    assert maps.names() == {"a"}
    maps.delete("a", preconditions={"uid": made.metadata.uid})
    assert maps.names() == set()


def test_delete_of_a_stale_resource_version_is_a_conflict(maps):
    made = maps.create(config_map("a"))
    maps.patch("a", {"data": {"b": "c"}})
    status = refusal(maps.delete, "a", preconditions={"resourceVersion": made.metadata.resource_version})
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert "the ResourceVersion in the precondition" in status["message"]


def test_delete_of_a_collection_obeys_its_selector(kube, ns, maps):
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        maps.create(config_map(name, labels={"color": color}))
    kube.core.delete_collection_namespaced_config_map(ns, label_selector="color=red")
    assert maps.names() == {"c"}


def test_a_finalizer_holds_a_deleted_object_that_takes_no_second_delete_and_no_new_finalizer(maps):
    maps.create(config_map("a", finalizers=["contract.test/hold"]))
    maps.delete("a")
    held = maps.read("a")
    assert held.metadata.deletion_timestamp
    assert held.metadata.deletion_grace_period_seconds == 0
    maps.delete("a")
    assert maps.read("a").metadata.deletion_timestamp == held.metadata.deletion_timestamp
    late = {"metadata": {"finalizers": ["contract.test/hold", "contract.test/late"]}}
    status = refusal(maps.patch, "a", late)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    maps.patch("a", {"data": {"still": "changeable"}})
    maps.patch("a", {"metadata": {"finalizers": None}})
    assert maps.names() == set()


def test_background_deletion_takes_the_dependants(maps):
    owner = maps.create(config_map("owner"))
    maps.create(owned("child", owner))
    grandchild_owner = maps.read("child")
    maps.create(owned("grandchild", grandchild_owner))
    maps.create(config_map("stranger"))
    maps.delete("owner", propagationPolicy="Background")
    until_equal(maps.names, {"stranger"})


def test_foreground_deletion_waits_for_blocking_dependants(maps):
    owner = maps.create(config_map("owner"))
    child = owned("child", owner, blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["contract.test/hold"]
    maps.create(child)
    maps.delete("owner", propagationPolicy="Foreground")
    assert maps.read("owner").metadata.finalizers == ["foregroundDeletion"]
    until(lambda: maps.read("child").metadata.deletion_timestamp)
    assert maps.names() == {"owner", "child"}
    maps.patch("child", {"metadata": {"finalizers": None}})
    until_equal(maps.names, set())


def test_orphaned_dependants_lose_their_owner_and_stay(maps):
    owner = maps.create(config_map("owner"))
    maps.create(owned("child", owner))
    maps.delete("owner", propagationPolicy="Orphan")
    until_equal(maps.names, {"child"})
    until(lambda: not maps.read("child").metadata.owner_references)


def test_a_dependant_with_a_living_second_owner_stays(maps):
    first, second = maps.create(config_map("first")), maps.create(config_map("second"))
    child = owned("child", first)
    child["metadata"]["ownerReferences"] += owned("child", second)["metadata"]["ownerReferences"]
    maps.create(child)
    maps.delete("first", propagationPolicy="Background")
    until(lambda: len(maps.read("child").metadata.owner_references) == 1)
    assert maps.read("child").metadata.owner_references[0].name == "second"


def test_a_dependant_of_an_owner_that_never_was_goes(maps):
    owner = maps.create(config_map("owner"))
    maps.delete("owner")
    maps.create(owned("child", owner))
    until_equal(maps.names, set())


def test_a_deleted_job_takes_its_pods(kube, ns):
    kube.batch.create_namespaced_job(ns, job("run"))
    until(lambda: len(kube.core.list_namespaced_pod(ns).items) == 1)
    kube.batch.delete_namespaced_job("run", ns, body={"propagationPolicy": "Foreground"})
    until(gone(kube.batch.read_namespaced_job, "run", ns))
    assert kube.core.list_namespaced_pod(ns).items == []


def test_a_deleted_deployment_takes_its_replica_sets_and_pods(kube, ns):
    kube.apps.create_namespaced_deployment(ns, deployment("served", replicas=2))
    until(lambda: len(kube.core.list_namespaced_pod(ns).items) == 2)
    kube.apps.delete_namespaced_deployment("served", ns, propagation_policy="Background")
    until(lambda: not kube.apps.list_namespaced_replica_set(ns).items)
    until(lambda: not kube.core.list_namespaced_pod(ns).items)


@pytest.mark.parametrize("policy", [{"propagation_policy": "Orphan"}, {}], ids=["orphan", "unsaid"])
def test_an_orphaned_pod_stays_when_its_job_goes(kube, ns, policy):
    """Jobs alone orphan when the request does not say: whoever deletes one has to."""
    kube.batch.create_namespaced_job(ns, job("run"))
    until(lambda: len(kube.core.list_namespaced_pod(ns).items) == 1)
    kube.batch.delete_namespaced_job("run", ns, **policy)
    until(gone(kube.batch.read_namespaced_job, "run", ns))

    def owners():
        return [item.metadata.owner_references for item in kube.core.list_namespaced_pod(ns).items]

    until_equal(owners, [None])


def test_a_deleted_namespace_takes_everything_in_it(kube):
    name = unique("contract")
    kube.core.create_namespace({"metadata": {"name": name}})
    until(lambda: not gone(kube.core.read_namespaced_service_account, "default", name)())
    kube.core.create_namespaced_pod(name, pod("p"))
    held = config_map("held", finalizers=["contract.test/hold"])
    kube.core.create_namespaced_config_map(name, held)
    kube.core.delete_namespace(name)
    assert kube.core.read_namespace(name).status.phase == "Terminating"
    status = refusal(kube.core.create_namespaced_config_map, name, config_map("late"))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert (
        f"unable to create new content in namespace {name} because it is being terminated"
        in status["message"]
    )
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["NamespaceTerminating"]
    until(gone(kube.core.read_namespaced_pod, "p", name))
    free = {"metadata": {"finalizers": None}}
    kube.core.patch_namespaced_config_map("held", name, free, _content_type=MERGE)
    until(gone(kube.core.read_namespace, name), seconds=60)
