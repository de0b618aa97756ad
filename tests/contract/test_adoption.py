"""What has lost its owner stays, and the next object whose selector takes it in has it."""

from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import MERGE, deployment, gone

DESIRED = "deployment.kubernetes.io/desired-replicas"
HASH = "pod-template-hash"


@pytest.fixture
def served(kube, ns):
    """One deployment of two pods that are ready."""

    class Served:
        def create(self, **spec):
            made = kube.apps.create_namespaced_deployment(ns, deployment("served", **{"replicas": 2, **spec}))
            until(lambda: kube.apps.read_namespaced_deployment("served", ns).status.ready_replicas == 2)
            return made.metadata.uid

        def leave_behind(self, policy="Orphan"):
            kube.apps.delete_namespaced_deployment("served", ns, propagation_policy=policy)
            until(gone(kube.apps.read_namespaced_deployment, "served", ns))

        def leave_pods_behind(self):
            """Its replica set goes as well."""
            self.leave_behind()
            (found,) = self.sets()
            kube.apps.delete_namespaced_replica_set(found.metadata.name, ns, propagation_policy="Orphan")
            until(lambda: not self.sets())

        def sets(self):
            return kube.apps.list_namespaced_replica_set(ns).items

        def pods(self):
            found = kube.core.list_namespaced_pod(ns, label_selector="app=served").items
            return {each.metadata.uid: each.metadata for each in found}

        def owners(self, found):
            return [owner.uid for each in found for owner in each.owner_references or ()]

        def set_owners(self):
            return self.owners(each.metadata for each in self.sets())

    made = Served()
    made.uid = made.create()
    return made


def test_a_set_that_is_left_behind_has_no_owner_and_goes_on_making_pods(kube, ns, served):
    (kept,), pods = served.sets(), served.pods()
    assert kept.metadata.annotations[DESIRED] == "2"
    served.leave_behind()
    assert served.set_owners() == []
    assert served.owners(served.pods().values()) == [kept.metadata.uid] * 2
    first = next(iter(pods.values()))
    kube.core.delete_namespaced_pod(first.name, ns, grace_period_seconds=0)
    until(lambda: len(served.pods()) == 2 and served.pods().keys() != pods.keys())


def test_a_deployment_that_is_made_again_takes_its_set_over_and_no_pod_is_lost(served):
    (kept,), pods = served.sets(), served.pods()
    served.leave_behind()
    again = served.create()
    (found,) = served.sets()
    assert (found.metadata.uid, served.set_owners()) == (kept.metadata.uid, [again])
    (owner,) = found.metadata.owner_references
    assert (owner.controller, owner.block_owner_deletion, again != served.uid) == (True, True, True)
    assert served.pods().keys() == pods.keys()


def test_a_deployment_of_another_template_takes_the_set_over_and_rolls_it(served):
    (kept,) = served.sets()
    served.leave_behind()
    again = served.create(template={"terminationGracePeriodSeconds": 1})
    until(lambda: {s.metadata.uid: s.spec.replicas for s in served.sets()}.get(kept.metadata.uid) == 0)
    assert served.set_owners() == [again] * 2


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_a_set_that_is_left_behind_takes_its_pods_when_it_goes(kube, ns, served, policy):
    served.leave_behind()
    (kept,) = served.sets()
    kube.apps.delete_namespaced_replica_set(kept.metadata.name, ns, propagation_policy=policy)
    until(lambda: not served.sets() and not served.pods())


def test_pods_that_are_left_behind_are_taken_over_by_the_set_that_is_made_of_the_same_template(served):
    pods = served.pods()
    served.leave_pods_behind()
    assert served.owners(served.pods().values()) == []
    served.create()
    (made,) = served.sets()
    until_equal(lambda: served.owners(served.pods().values()), [made.metadata.uid] * 2)
    assert served.pods().keys() == pods.keys()


def test_a_pod_whose_labels_are_changed_is_let_go_and_replaced(kube, ns, served):
    before = served.pods()
    (uid, first), *_ = before.items()
    body = {"metadata": {"labels": {HASH: "looked-at"}}}
    kube.core.patch_namespaced_pod(first.name, ns, body, _content_type=MERGE)
    until(lambda: not served.pods()[uid].owner_references and len(served.pods()) == 3)


def test_a_set_whose_labels_are_changed_is_let_go_and_replaced(kube, ns, served):
    (kept,) = served.sets()
    body = {"metadata": {"labels": {"app": "looked-at"}}}
    kube.apps.patch_namespaced_replica_set(kept.metadata.name, ns, body, _content_type=MERGE)
    until(lambda: len(served.sets()) == 2)
    found = {each.metadata.uid: each for each in served.sets()}
    until(lambda: not {s.metadata.uid: s for s in served.sets()}[kept.metadata.uid].metadata.owner_references)
    assert [found[uid].metadata.owner_references[0].uid for uid in found if uid != kept.metadata.uid] == [
        served.uid
    ]
