from __future__ import annotations

import json

import pytest
from hypothesis import given

from jobs.manifests import active_deadline_seconds, build_training_run
from jobs.specs import TrainingRunSpec
from tests.manifest_samples import LOST_NODE, RUN_PLACEMENTS, placement
from tests.manifest_strategies import run_bodies
from workloads.podspec import pod_template
from workloads.podspec.pod_template import owned_by


def run(**body):
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", **body})
    return build_training_run(spec, placement("a", "training-run"))


def pod_of(manifests):
    return manifests.primary["spec"]["template"]["spec"]


def test_one_attempt_is_one_pod_that_kubernetes_never_retries():
    job = run().primary["spec"]
    assert (job["backoffLimit"], job["completions"], job["parallelism"]) == (0, 1, 1)
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert {"podFailurePolicy", "ttlSecondsAfterFinished", "suspend"}.isdisjoint(job)


def test_the_deadline_of_the_job_is_behind_that_of_the_portal():
    assert active_deadline_seconds(7200, 60) > 7200 + 60 + 1800
    assert active_deadline_seconds(None, 60) is None
    assert "activeDeadlineSeconds" not in run().primary["spec"]


def test_a_user_string_stays_one_item():
    words = ["sh", "-c", "a; b && $(c) `d` \"e\" 'f'\n- g: {}"]
    container = pod_of(run(command=words, args=["--x=$Y"], env=[{"name": "A", "value": "yes: no"}]))[
        "containers"
    ][0]
    assert container["command"] == words
    assert container["args"] == ["--x=$Y"]
    assert {"name": "A", "value": "yes: no"} in container["env"]


def test_user_0_leaves_out_what_forbids_it_and_nothing_else():
    pod = pod_of(run(run_as_user=0))
    assert pod["securityContext"] == {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False


def test_a_pod_outlives_a_lost_node_by_a_minute_only():
    assert [item["tolerationSeconds"] for item in pod_of(run())["tolerations"]] == [60, 60]
    assert pod_of(run())["tolerations"] == LOST_NODE


def test_gpus_need_a_resource_name():
    with pytest.raises(ValueError, match="names no resource"):
        run(flavor="a100-40gb", gpus_per_replica=1)


def test_a_checkpoint_claim_that_is_mounted_around_it_is_not_mounted_again():
    volumes = [{"claim": "ckpt", "path": "/mnt"}]
    pod = pod_of(run(volumes=volumes, checkpoint={"path": "/mnt/a", "claim": "ckpt"}))
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/mnt"]
    assert {"name": "PORTAL_CHECKPOINT_DIR", "value": "/mnt/a"} in pod["containers"][0]["env"]


def test_labels_of_the_portal_win_over_the_users():
    spec = TrainingRunSpec(name="a", image="b", labels={"mlportal.dev/team": "other", "x": "y"})
    labels = pod_template.all_labels(spec, placement("a", "training-run"))
    assert (labels["mlportal.dev/team"], labels["x"]) == ("vision", "y")


def test_a_dependant_is_owned_by_the_object_that_the_server_answered():
    manifests = run(source={"files": {"a.py": "1"}})
    answer = {**manifests.primary, "metadata": {**manifests.primary["metadata"], "uid": "u-1"}}
    owned = owned_by(manifests.dependants[0], answer)
    assert owned["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": manifests.primary["metadata"]["name"], "uid": "u-1"}
    ]
    assert "ownerReferences" not in manifests.dependants[0]["metadata"]


@given(body=run_bodies)
def test_manifests_are_plain_json_and_do_not_share_parts_with_the_spec(body):
    spec = TrainingRunSpec.from_json(body)
    first = build_training_run(spec, RUN_PLACEMENTS["everything_8_gpus"])
    text = json.dumps(first.all(), sort_keys=True)
    assert json.loads(text) == first.all()
    for manifest in first.all():
        manifest["metadata"]["labels"].clear()
    second = build_training_run(spec, RUN_PLACEMENTS["everything_8_gpus"])
    assert json.dumps(second.all(), sort_keys=True) == text


def test_several_pods_are_numbered_and_may_talk_to_each_other_alone():
    manifests = run(replicas=3)
    job, (service, policy) = manifests.primary["spec"], manifests.dependants
    name = manifests.primary["metadata"]["name"]
    assert (job["completionMode"], job["completions"], job["parallelism"], job["backoffLimit"]) == (
        "Indexed",
        3,
        3,
        0,
    )
    assert service["metadata"]["name"] == job["template"]["spec"]["subdomain"] == name
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    labels = job["template"]["metadata"]["labels"]
    (rule,) = policy["spec"]["ingress"]
    for chosen in (policy["spec"]["podSelector"], rule["from"][0]["podSelector"]):
        assert chosen["matchLabels"].items() <= labels.items()
        assert "mlportal.dev/workload-id" in chosen["matchLabels"]
    env = {each["name"]: each for each in pod_of(manifests)["containers"][0]["env"]}
    assert env["MASTER_ADDR"]["value"] == f"{name}-0.{name}"
    assert "completionMode" not in run().primary["spec"]
    assert run().dependants == ()


def environment(spec, **placed):
    body = TrainingRunSpec.from_json({"name": "a", "image": "b", **spec})
    where = placement("a", "training-run", resource_name="nvidia.com/gpu", **placed)
    pod = build_training_run(body, where).primary["spec"]["template"]["spec"]
    return [(each["name"], each.get("value")) for each in pod["containers"][0]["env"]]


def test_mlflow_finds_its_server_and_the_tags_of_the_run():
    found = dict(environment({}, mlflow_uri="https://mlflow.example.com"))
    assert found["MLFLOW_TRACKING_URI"] == "https://mlflow.example.com"
    assert found["MLFLOW_EXPERIMENT_NAME"] == "vision"
    assert json.loads(found["MLFLOW_RUN_CONTEXT"]) == {
        "mlflow.runName": "a-2",
        "mlportal.team": "vision",
        "mlportal.run_id": found["PORTAL_RUN_ID"],
        "mlportal.attempt": "2",
    }
    assert not [name for name, _ in environment({}) if name.startswith("MLFLOW")]


def test_what_python_prints_is_in_the_log_at_once():
    assert ("PYTHONUNBUFFERED", "1") in environment({})
    own = [{"name": "PYTHONUNBUFFERED", "value": ""}]
    assert [value for name, value in environment({"env": own}) if name == "PYTHONUNBUFFERED"] == [""]


def test_nccl_says_what_it_could_not_do_where_several_pods_have_gpus():
    gpus = {"flavor": "x", "gpus_per_replica": 8}
    assert ("NCCL_DEBUG", "WARN") in environment({**gpus, "replicas": 2})
    for alone in (gpus, {"replicas": 2}):
        assert "NCCL_DEBUG" not in dict(environment(alone))


def test_what_the_user_says_wins_over_what_is_only_a_default():
    own = [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "MLFLOW_TRACKING_URI", "value": "http://mine"}]
    found = environment(
        {"flavor": "x", "gpus_per_replica": 1, "replicas": 2, "env": own}, mlflow_uri="https://theirs"
    )
    assert [value for name, value in found if name == "NCCL_DEBUG"] == ["INFO"]
    assert [value for name, value in found if name == "MLFLOW_TRACKING_URI"] == ["http://mine"]
