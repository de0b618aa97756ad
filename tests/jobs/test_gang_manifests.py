"""What keeps the pods of a gang together, by what the cluster has and the request says."""

from __future__ import annotations

import pytest

from cluster import kinds
from foundation.models import GANG_SCHEDULERS
from jobs.manifests import build_training_run
from jobs.manifests.gang import SCHEDULERS
from jobs.specs import TrainingRunSpec
from tests.manifest_samples import placement

FOUR = {"flavor": "a100", "gpus_per_replica": 8, "replicas": 4}


def built(placed=(), **body):
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", **FOUR, **body})
    where = {"resource_name": "nvidia.com/gpu", "priority_class": "mlportal-normal", **dict(placed)}
    return build_training_run(spec, placement("a", "training-run", **where))


def of_kind(manifests, kind):
    return [each for each in manifests.dependants if each["kind"] == kind]


def templates(value):
    """Every pod template of an object, wherever its kind keeps them."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value
        for inner in value.values():
            yield from templates(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from templates(inner)


@pytest.mark.parametrize("kind", ["job", "pytorchjob", "tfjob", "mpijob"])
def test_volcano_gets_a_group_of_all_pods_and_the_pods_name_it(kind):
    manifests = built({"gang_scheduler": "volcano"}, kind=kind)
    (group,) = of_kind(manifests, "PodGroup")
    wanted = 5 if kind == "mpijob" else 4
    assert (group["apiVersion"], group["spec"]["minMember"]) == ("scheduling.volcano.sh/v1beta1", wanted)
    for template in templates(manifests.primary):
        assert template["spec"]["schedulerName"] == "volcano"
        named = template["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        assert named == group["metadata"]["name"]


def test_a_launcher_that_waits_for_its_workers_is_not_waited_for_by_them():
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", **FOUR, "kind": "mpijob"})
    put = placement("a", "training-run", resource_name="nvidia.com/gpu", gang_scheduler="volcano")
    (group,) = of_kind(build_training_run(spec, put, kinds.MPI_JOB_V2.address), "PodGroup")
    assert group["spec"]["minMember"] == 4


def test_coscheduling_knows_its_pods_by_a_label():
    manifests = built({"gang_scheduler": "coscheduling"})
    (group,) = of_kind(manifests, "PodGroup")
    (template,) = templates(manifests.primary)
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert "priorityClassName" not in group["spec"], "it has no such field"


@pytest.mark.parametrize(
    ("placed", "body"),
    [
        ({}, {}),
        ({"gang_scheduler": "volcano"}, {"gang": False}),
        ({"gang_scheduler": "volcano"}, {"replicas": 1}),
        ({"gang_scheduler": "volcano"}, {"kind": "trainjob", "runtime_ref": {"name": "torch"}}),
    ],
)
def test_without_a_gang_or_its_scheduler_there_is_no_group(placed, body):
    manifests = built(placed, **body)
    assert of_kind(manifests, "PodGroup") == []
    assert "schedulerName" not in str(manifests.primary)


def test_a_drain_waits_for_the_end_of_a_run_that_holds_gpus():
    (budget,) = of_kind(built(), "PodDisruptionBudget")
    (template,) = templates(built().primary)
    assert budget["spec"]["minAvailable"] == 4
    assert budget["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_on_spot_and_without_gpus_nothing_stands_in_a_drains_way():
    assert of_kind(built({"capacity_type": "spot"}), "PodDisruptionBudget") == []
    assert of_kind(built(flavor=None, gpus_per_replica=0), "PodDisruptionBudget") == []


@pytest.mark.parametrize(
    ("topology", "key"),
    [("same-node", "kubernetes.io/hostname"), ("same-zone", "topology.kubernetes.io/zone")],
)
def test_pods_that_want_to_be_near_say_so_and_do_not_insist(topology, key):
    (template,) = templates(built(topology=topology).primary)
    affinity = template["spec"]["affinity"]["podAffinity"]
    (wish,) = affinity.pop("preferredDuringSchedulingIgnoredDuringExecution")
    assert affinity == {}
    assert wish["podAffinityTerm"]["topologyKey"] == key
    assert "podAffinity" not in str(built(topology=topology, replicas=1).primary)
    assert "podAffinity" not in str(built(topology="any").primary)


def test_every_scheduler_that_the_settings_may_name_is_known():
    assert kinds.POD_GROUPS.keys() == SCHEDULERS.keys() == set(GANG_SCHEDULERS)


@pytest.mark.parametrize("scheduler", GANG_SCHEDULERS)
@pytest.mark.parametrize("kind", ["job", "pytorchjob"])
def test_the_api_server_knows_every_field_of_a_gang(real_bench, scheduler, kind):
    manifests = built({"gang_scheduler": scheduler}, kind=kind, topology="same-node")
    for manifest in manifests.all():
        assert real_bench.client.warnings_of(real_bench.moved(manifest)) == ()
