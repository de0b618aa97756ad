"""The pods of every kind under Pod Security `restricted`: by its rules, and on the API server that has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import kinds
from cluster.errors import ClusterRejected
from jobs import kinds as jobs_kinds
from jobs.manifests import build_training_run
from jobs.offers import REFUSED_BY_RESTRICTED
from jobs.specs import TrainingRunSpec
from jobs.status import observe_training_run
from tests.inference import regenerate as endpoints
from tests.jobs import regenerate as runs
from tests.jobs.test_golden_manifests import NOT_RESTRICTED
from tests.jobs.test_runs_on_a_cluster import KINDS, PODS
from tests.manifest_samples import golden
from tests.tables import each_row

GOLDEN = {
    name: manifests
    for made in (runs, endpoints)
    for name, manifests in golden(made.FOLDER).items()
    if name not in NOT_RESTRICTED
}
VOLUMES = {
    "name",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
INIT_CONTAINER = Path(__file__).parents[2] / "deploy" / "training-operator-init-container.yaml"
BY_OPERATORS = sorted(name for name in KINDS if name not in {"job", "gang", "pytorchjob-of-one"})


def pods_in(value: Any) -> Iterator[dict[str, Any]]:
    """The spec of every pod that the manifest describes."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from pods_in(each)
    if isinstance(value, dict) and "containers" in value:
        yield value


def operators_container(*, hardened: bool) -> dict[str, Any]:
    """As the training operator makes it of the template, or of its own, which has no security context."""
    text = INIT_CONTAINER.read_text()
    for name, said in {
        "InitContainerImage": "alpine:3.10",
        "MaxTries": "100",
        "MasterAddr": "a-master-0",
    }.items():
        text = text.replace("{{." + name + "}}", said)
    assert "{{" not in text
    (container,) = yaml.safe_load(text)
    return (
        container
        if hardened
        else {key: value for key, value in container.items() if key != "securityContext"}
    )


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """What the profile wants of a pod and this one lacks: the rules of kubernetes.io/docs/concepts/security/pod-security-standards."""
    own = pod.get("securityContext") or {}
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    yield from (key for volume in pod.get("volumes") or () for key in volume if key not in VOLUMES)
    if own.get("runAsNonRoot") is not True or own.get("runAsUser") == 0:
        yield "runAsNonRoot"
    if (own.get("seccompProfile") or {}).get("type") not in {"RuntimeDefault", "Localhost"}:
        yield "seccompProfile"
    for container in (*pod["containers"], *(pod.get("initContainers") or ())):
        context = container.get("securityContext") or {}
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if (context.get("capabilities") or {}) != {"drop": ["ALL"]}:
            yield "capabilities"
        yield from (name for name in ("privileged", "runAsUser", "runAsNonRoot") if name in context)
        yield from ("hostPort" for port in container.get("ports") or () if port.get("hostPort"))


@each_row("name", GOLDEN)
def test_the_pods_that_the_portal_describes_pass_by_its_rules(name):
    pods = list(pods_in(GOLDEN[name]))
    assert pods
    assert [list(violations(pod)) for pod in pods] == [[]] * len(pods)


def test_the_rules_see_what_is_wrong():
    (pod,) = pods_in(golden(runs.FOLDER)["root_run"])
    assert list(violations(pod)) == ["runAsNonRoot"]
    pod["initContainers"] = [operators_container(hardened=False)]
    assert set(violations(pod)) == {"runAsNonRoot", "allowPrivilegeEscalation", "capabilities"}


def body_of(pod: dict[str, Any], namespace: str, added: list[dict[str, Any]]) -> dict[str, Any]:
    """A pod to create; a TrainJob says the image beside its patch, and restricted does not ask for it."""
    spec = {key: value for key, value in pod.items() if key != "priorityClassName"}
    spec["containers"] = [{"image": "example.org/train:1", **each} for each in pod["containers"]]
    spec["initContainers"] = [*(pod.get("initContainers") or ()), *added]
    metadata = {"name": "try", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("name", [name for name in GOLDEN if not name.startswith("mpijob_v2")])
def test_the_api_server_admits_the_pods_of_every_kind_and_runtime(real_bench, name):
    for pod in pods_in(GOLDEN[name]):
        assert real_bench.client.warnings_of(body_of(pod, real_bench.namespace, [])) == ()


def test_what_the_operator_adds_is_refused_until_it_has_the_template_of_deploy(real_bench):
    (worker, *_) = pods_in(GOLDEN["pytorchjob_whole"])
    mended, plain = (
        body_of(worker, real_bench.namespace, [operators_container(hardened=hardened)])
        for hardened in (True, False)
    )
    assert real_bench.client.warnings_of(mended) == ()
    with pytest.raises(ClusterRejected, match=r'violates PodSecurity.*"init-pytorch" must set'):
        real_bench.client.warnings_of(plain)


@pytest.mark.parametrize("kind", ["job", "gang", *BY_OPERATORS])
def test_the_pods_of_a_run_come_to_be_or_are_refused_as_preflight_says(real_bench, kind):
    """By the controllers themselves. A refused pod leaves no more than an event."""
    resource = jobs_kinds.KINDS[KINDS[kind]["kind"]].objects[0]
    if (resource.api_version, resource.kind) not in real_bench.client.served_kinds():
        pytest.skip(f"this cluster does not serve {resource.address}")
    body = {"name": "a", "image": "python:3.12", "cpu": "100m", "memory": "64Mi", **KINDS[kind]}
    body["env"] = [{"name": "BED_RUN_SECONDS", "value": "60"}]
    where = real_bench.placement("a", "training-run")
    look = real_bench.follow(
        build_training_run(TrainingRunSpec.from_json(body), where), where, observe_training_run
    )
    refused: list[str] = []

    def settled(_: object) -> bool:
        refused[:] = [
            event["message"]
            for event in real_bench.events()
            if where.object_name in event["involvedObject"]["name"]
            and "violates PodSecurity" in event["message"]
        ]
        return bool(refused) or len(real_bench.pods(where.workload_id)) == PODS[kind]

    real_bench.until(look, settled)
    added = {kinds.PYTORCH_JOB: "init-pytorch", kinds.MPI_JOB: "kubectl-delivery"}.get(resource)
    # An elastic PyTorchJob has no master, and only who waits for one gets the container.
    if added is None or kind == "pytorchjob-elastic":
        assert not refused
    elif not refused:
        # The operator has the template of deploy/: its container is there, and is as it should be.
        contexts = [
            container.get("securityContext")
            for pod in real_bench.pods(where.workload_id)
            for container in pod["spec"].get("initContainers") or ()
            if container["name"] == added
        ]
        assert contexts == [operators_container(hardened=True)["securityContext"]] * (PODS[kind] - 1)
    else:
        assert resource.address in REFUSED_BY_RESTRICTED
        assert f'container "{added}" must set' in refused[0], refused
