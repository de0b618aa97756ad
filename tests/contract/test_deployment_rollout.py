from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import MERGE, STRATEGIC, condition, deployment, fields, holds, refusal


@pytest.fixture
def served(kube, ns):
    """One deployment, its replica sets and its pods."""

    class Served:
        def create(self, *args, **kwargs):
            return kube.apps.create_namespaced_deployment(ns, deployment("served", *args, **kwargs))

        def read(self):
            return kube.apps.read_namespaced_deployment("served", ns)

        def patch(self, spec):
            body = {"spec": spec}
            return kube.apps.patch_namespaced_deployment("served", ns, body, _content_type=STRATEGIC)

        def image(self, tag, **more):
            container = {"name": "main", "image": f"registry.example.test/trainer:{tag}", **more}
            return self.patch({"template": {"spec": {"containers": [container]}}})

        def sets(self):
            found = kube.apps.list_namespaced_replica_set(ns).items
            return sorted(
                found, key=lambda item: int(item.metadata.annotations["deployment.kubernetes.io/revision"])
            )

        def pods(self):
            return kube.core.list_namespaced_pod(ns, label_selector="app=served").items

        def rolled_out(self):
            def look():
                seen = self.read()
                status, replicas = seen.status, seen.spec.replicas
                done = status.observed_generation == seen.metadata.generation
                counted = (status.replicas, status.updated_replicas, status.available_replicas)
                return done and counted == (replicas,) * 3 and seen

            return until(look)

    return Served()


def said(seen, kind):
    found = condition(seen, kind)
    return found.status, found.reason, found.message


def test_a_rolled_out_deployment_is_available_and_has_progressed_and_its_scaling_is_an_event(
    kube, ns, served
):
    served.create(replicas=2)
    served.rolled_out()
    until(lambda: condition(served.read(), "Progressing").reason == "NewReplicaSetAvailable")
    seen = served.read()
    (made,) = served.sets()
    assert said(seen, "Available") == (
        "True", "MinimumReplicasAvailable", "Deployment has minimum availability.",
    )  # fmt: skip
    assert said(seen, "Progressing") == (
        "True",
        "NewReplicaSetAvailable",
        f'ReplicaSet "{made.metadata.name}" has successfully progressed.',
    )
    assert (seen.status.ready_replicas, seen.status.unavailable_replicas) == (2, None)
    selector = "involvedObject.kind=Deployment,reason=ScalingReplicaSet"
    (event,) = until(lambda: kube.core.list_namespaced_event(ns, field_selector=selector).items)
    assert event.source.component == "deployment-controller"
    assert event.message == f"Scaled up replica set {made.metadata.name} from 0 to 2"


def test_a_new_deployment_gets_its_defaults(served):
    spec = served.create(replicas=0).spec
    assert (spec.progress_deadline_seconds, spec.revision_history_limit) == (600, 10)
    assert spec.strategy.type == "RollingUpdate"
    assert (spec.strategy.rolling_update.max_surge, spec.strategy.rolling_update.max_unavailable) == (
        "25%",
        "25%",
    )
    assert spec.template.spec.restart_policy == "Always"


def test_the_replica_set_is_named_and_owned(served):
    made = served.create()
    served.rolled_out()
    (replica_set,) = served.sets()
    digest = replica_set.metadata.labels["pod-template-hash"]
    assert replica_set.metadata.name == f"served-{digest}"
    assert replica_set.metadata.owner_references[0].uid == made.metadata.uid
    (pod,) = served.pods()
    wanted = {"app": "served", "pod-template-hash": digest}
    assert wanted.items() <= pod.metadata.labels.items()
    assert pod.metadata.name.startswith(f"served-{digest}-")
    assert pod.metadata.owner_references[0].uid == replica_set.metadata.uid
    assert served.read().metadata.annotations["deployment.kubernetes.io/revision"] == "1"


def test_a_changed_template_rolls_to_a_new_replica_set_and_going_back_uses_the_old_one_again(served):
    served.create(replicas=2)
    served.rolled_out()
    (first,) = served.sets()
    served.image(2)
    served.rolled_out()
    until_equal(lambda: [item.spec.replicas for item in served.sets()], [0, 2])
    until(lambda: len(served.pods()) == 2)
    assert {pod.spec.containers[0].image for pod in served.pods()} == {"registry.example.test/trainer:2"}
    assert served.read().metadata.annotations["deployment.kubernetes.io/revision"] == "2"
    served.image(1)
    served.rolled_out()
    assert [item.metadata.uid for item in served.sets()][-1] == first.metadata.uid
    assert served.read().metadata.annotations["deployment.kubernetes.io/revision"] == "3"


def test_without_surge_the_old_pods_go_first(served):
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    served.create(replicas=2, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    served.rolled_out()
    served.image(2, env=[{"name": "BED_START_SECONDS", "value": "60"}])
    until(lambda: len(served.sets()) == 2)
    until_equal(lambda: [item.spec.replicas for item in served.sets()], [1, 1])
    counts = ("replicas", "available_replicas", "updated_replicas")
    until_equal(lambda: [getattr(served.read().status, key) for key in counts], [2, 1, 1])


def test_with_surge_the_old_pods_stay_until_the_new_are_ready(served):
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    served.create(replicas=2, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    served.rolled_out()
    served.image(2, env=[{"name": "BED_START_SECONDS", "value": "60"}])
    until(lambda: len(served.sets()) == 2)
    until_equal(lambda: [item.spec.replicas for item in served.sets()], [2, 1])
    until(lambda: served.read().status.updated_replicas == 1)
    seen = served.read()
    assert (seen.status.replicas, seen.status.available_replicas) == (3, 2)
    assert holds(seen, "Available")
    assert condition(seen, "Progressing").reason in {"NewReplicaSetCreated", "ReplicaSetUpdated"}


def test_recreate_ends_every_old_pod_first(served):
    served.create(replicas=2, strategy={"type": "Recreate"})
    served.rolled_out()
    served.image(2, env=[{"name": "BED_START_SECONDS", "value": "60"}])
    until_equal(lambda: [item.spec.replicas for item in served.sets()], [0, 2])
    images = {pod.spec.containers[0].image for pod in served.pods()}
    assert images == {"registry.example.test/trainer:2"}
    until(lambda: not served.read().status.available_replicas)


def test_a_stuck_rollout_exceeds_its_progress_deadline(served):
    served.create({"BED_START_SECONDS": "600"}, progressDeadlineSeconds=2)

    def late():
        seen = served.read()
        found = condition(seen, "Progressing")
        return found is not None and found.status == "False" and seen

    seen = until(late)
    (made,) = served.sets()
    assert said(seen, "Progressing") == (
        "False",
        "ProgressDeadlineExceeded",
        f'ReplicaSet "{made.metadata.name}" has timed out progressing.',
    )
    assert said(seen, "Available") == (
        "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.",
    )  # fmt: skip
    assert seen.status.unavailable_replicas == 1


def test_the_scale_subresource_reads_and_writes_replicas_of_one_replica_set(kube, ns, served):
    served.create(replicas=1)
    served.rolled_out()
    scale = kube.apps.read_namespaced_deployment_scale("served", ns)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (1, 1, "app=served")
    patched = kube.apps.patch_namespaced_deployment_scale(
        "served", ns, {"spec": {"replicas": 3}}, _content_type=MERGE
    )
    assert patched.spec.replicas == 3
    assert served.rolled_out().spec.replicas == 3
    assert len(served.pods()) == 3
    assert len(served.sets()) == 1
    patched.spec.replicas = 1
    patched.metadata.resource_version = None
    kube.apps.replace_namespaced_deployment_scale("served", ns, patched)
    served.rolled_out()
    until(lambda: len(served.pods()) == 1)


def test_a_scale_below_zero_is_refused(kube, ns, served):
    served.create(replicas=0)
    call = kube.apps.patch_namespaced_deployment_scale
    status = refusal(call, "served", ns, {"spec": {"replicas": -1}}, _content_type=MERGE)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert fields(status) == {"spec.replicas"}


def test_scaled_to_zero_it_is_still_available(served):
    served.create(replicas=1)
    served.rolled_out()
    served.patch({"replicas": 0})
    until(lambda: not served.pods())
    until(lambda: not served.read().status.replicas)
    assert holds(served.read(), "Available")


def test_a_deleted_pod_is_replaced(kube, ns, served):
    served.create()
    served.rolled_out()
    (first,) = served.pods()
    kube.core.delete_namespaced_pod(first.metadata.name, ns)
    until(lambda: [pod for pod in served.pods() if pod.metadata.uid != first.metadata.uid])
    served.rolled_out()


def test_a_paused_deployment_does_not_roll(served):
    served.create()
    served.rolled_out()
    served.patch({"paused": True})
    until(lambda: condition(served.read(), "Progressing").reason == "DeploymentPaused")
    served.image(2)
    until(lambda: served.read().status.observed_generation == 3)
    assert len(served.sets()) == 1
    served.patch({"paused": False})
    until(lambda: len(served.sets()) == 2)


def test_min_ready_seconds_delays_availability(served):
    served.create(minReadySeconds=2)
    until(lambda: served.read().status.ready_replicas == 1)
    assert not served.read().status.available_replicas
    served.rolled_out()
