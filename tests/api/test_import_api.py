"""Manifests read as requests, by REST."""

from __future__ import annotations

import pytest
import yaml

from jobs.imports.pod import SHM
from tests.api.bench import RUNS, Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.jobs.test_imports import BOMB, job, pytorch_job

URL = f"{RUNS}import/"
A100 = {"spec__template__spec__nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}}


def of_vision(**changes):
    """A Job of team vision that needs nothing of this cluster but one flavor."""
    manifest = job(**{"metadata__namespace": "team-vision", **A100, **changes})
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    del container["env"][1], container["resources"]["limits"]["vpc.amazonaws.com/efa"]
    manifest["spec"]["template"]["spec"]["volumes"] = [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    ]
    container["volumeMounts"] = [{"name": "dshm", "mountPath": SHM}]
    return manifest


@pytest.mark.parametrize("shape", [lambda each: each, yaml.safe_dump])
def test_what_is_answered_can_be_submitted(bench, shape):
    with Unchanged():
        answer = bench.client.post(URL, {"manifest": shape(of_vision())})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert found["problems"] == []
    assert {each["path"] for each in found["dropped"]} >= {"spec.template.spec.restartPolicy"}
    made = bench.client.post(RUNS, found["request"])
    assert made.status_code == 201, made.content
    assert (made.json()["team"], made.json()["flavor"], made.json()["quantity"]) == ("vision", "a100-40gb", 2)


def test_what_has_no_place_is_refused_by_its_path(bench):
    manifest = of_vision(spec__template__spec__hostNetwork=True, spec__successPolicy={"rules": [1]})
    with Unchanged():
        answer = bench.client.post(URL, {"manifest": manifest})
    problem(answer, 422, "spec.template.spec.hostNetwork", "spec.successPolicy", code="no_place")


def test_what_is_left_to_decide_is_said_beside_the_request(bench):
    make_flavor("a100-other")
    manifest = of_vision(metadata__namespace="elsewhere", metadata__name="Not A Name")
    found = bench.client.post(URL, {"manifest": manifest}).json()
    assert {each["field"] for each in found["problems"]} == {"flavor", "name", "team"}
    assert "team" not in found["request"]


def test_a_namespace_of_another_team_is_no_team(bench):
    from tests.factories.teams import make_team

    make_team("hidden")
    found = bench.client.post(URL, {"manifest": of_vision(metadata__namespace="team-hidden")}).json()
    assert "team" not in found["request"]
    assert "hidden" not in str(found["request"])


def test_a_pytorch_job_is_read_too(bench):
    found = bench.client.post(
        URL,
        {
            "manifest": pytorch_job(
                pytorchReplicaSpecs={"Worker": {"replicas": 2, "template": of_vision()["spec"]["template"]}}
            )
        },
    ).json()
    assert (found["request"]["kind"], found["request"]["replicas"]) == ("pytorchjob", 2)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"manifest": BOMB}, 400, "manifest"),
        ({"manifest": "a: ["}, 400, "manifest"),
        ({"manifest": "x" * 200_000}, 400, "manifest"),
        ({"manifest": ""}, 422, "kind"),
        ({"manifest": "# nothing"}, 422, "kind"),
        ({"manifest": 7}, 422, "manifest"),
        ({"manifest": ["a"]}, 422, "manifest"),
        ({"manifest": {}}, 422, "kind"),
        ({"manifest": "kind: Pod"}, 422, "kind"),
        ({}, 422, "manifest"),
        ({"manifest": "kind: Job", "colour": "red"}, 422, "colour"),
    ],
)
def test_what_is_no_manifest_is_refused(bench, body, status, field):
    with Unchanged():
        answer = problem(bench.client.post(URL, body), status)
    assert field in {each["field"] for each in answer["errors"]}


def test_pods_of_an_indexed_job_that_take_turns_become_a_sweep(bench):
    manifest = of_vision(spec__completions=6, spec__parallelism=2, spec__completionMode="Indexed")
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [*container["env"], {"name": "JOB_COMPLETION_INDEX", "value": "0"}]
    answer = bench.client.post(URL, {"manifest": manifest})
    assert answer.status_code == 200, answer.content
    request = answer.json()["request"]
    assert request["matrix"] == {"parameters": {"index": {"from": 0, "to": 5}}, "max_parallel": 2}
    limits = {"time_limit_seconds", "max_retries"} & set(request)
    assert {each["field"] for each in answer.json()["problems"]} == limits
    made = bench.client.post(RUNS, request)
    assert made.status_code == 201, made.content
    assert (made.json()["size"], made.json()["held_back"]) == (6, 4)
    last = bench.client.get(RUNS, {"name": f"{request['name']}-6", "expand": "spec"}).json()["results"][0]
    assert {"name": "JOB_COMPLETION_INDEX", "value": "5"} in last["spec"]["env"]
