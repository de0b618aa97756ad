"""Kinds of runs that this cluster serves and the settings name; all others are refused with the list of these."""

from __future__ import annotations

import pytest

from cluster import kinds
from foundation.models import PlatformSettings
from jobs.models import TrainingRun
from tests.api.bench import RUNS, Unchanged
from tests.factories.submitted import run_body
from tests.factories.teams import api_client, make_user
from workloads.models import NodeRecord, WatchCursor


def serves(*served):
    WatchCursor.objects.bulk_create(WatchCursor(kind=kind.address) for kind in served)


def names(*offered):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"optional_kinds": list(offered)})


def refusal(bench, path=RUNS, **body):
    with Unchanged():
        answer = bench.client.post(path, run_body("vision", flavor="a100-40gb", **body))
    assert answer.status_code == 422, answer.json()
    (error,) = answer.json()["errors"]
    return error


@pytest.mark.parametrize("path", [RUNS, f"{RUNS}preview/"])
def test_a_kind_that_the_cluster_does_not_serve_is_refused_with_those_it_does(bench, path):
    serves(kinds.PYTORCH_JOB)
    names("pytorchjob", "tfjob")
    error = refusal(bench, path, kind="tfjob")
    assert (error["field"], error["code"]) == ("kind", "kind_not_offered")
    assert error["message"] == (
        "A tfjob cannot be run here: the cluster does not serve it. Possible are: job, pytorchjob."
    )


def test_a_kind_that_the_settings_do_not_name_is_refused_though_it_is_served(bench):
    serves(kinds.PYTORCH_JOB, kinds.TF_JOB)
    names("pytorchjob")
    assert "the setting optional_kinds does not name it" in refusal(bench, kind="tfjob")["message"]


def test_mxjob_is_refused_with_what_became_of_it(bench):
    error = refusal(bench, kind="mxjob")
    assert (error["field"], error["code"]) == ("kind", "retired")
    assert "retired upstream" in error["message"]


@pytest.mark.parametrize(
    ("served", "wanted"),
    [(kinds.MPI_JOB, "kubeflow.org/v1/MPIJob"), (kinds.MPI_JOB_V2, "kubeflow.org/v2beta1/MPIJob")],
)
def test_an_mpijob_becomes_what_the_cluster_serves(bench, served, wanted):
    serves(served)
    names("mpijob", "mpijob-v1")
    run = bench.run(kind="mpijob", flavor="a100-40gb", replicas=2)
    assert TrainingRun.objects.get(workload__public_id=run["id"]).primary.address == wanted
    assert run["quantity"] == 2, "a launcher takes no GPU"


def test_the_launcher_that_gets_a_token_of_the_cluster_is_offered_only_by_its_own_name(bench):
    serves(kinds.MPI_JOB)
    names("mpijob")
    why = refusal(bench, kind="mpijob")["message"]
    assert "gets a token of the cluster" in why
    assert "does not name mpijob-v1" in why
    serves(kinds.MPI_JOB_V2)
    assert bench.run(kind="mpijob", flavor="a100-40gb", replicas=2)["spec"]["kind"] == "mpijob"


def test_roles_with_gpus_are_claimed_and_those_without_are_not(bench):
    serves(kinds.TF_JOB)
    names("tfjob")
    roles = [{"name": "Chief", "gpus_per_replica": 2}, {"name": "PS", "replicas": 3}]
    run = bench.run(kind="tfjob", flavor="a100-40gb", gpus_per_replica=2, replicas=2, roles=roles)
    assert run["quantity"] == 6


def test_a_role_without_gpus_gets_no_share_of_them(bench):
    serves(kinds.TF_JOB)
    names("tfjob")
    NodeRecord.objects.update(others={"cpu": "96", "memory": "1000Gi"})
    roles = [{"name": "Chief", "gpus_per_replica": 8}, {"name": "PS", "memory": "8Gi"}, {"name": "Evaluator"}]
    run = bench.run(kind="tfjob", flavor="a100-40gb", gpus_per_replica=8, roles=roles)
    sizes = {role["name"]: (role["cpu"], role["memory"]) for role in run["spec"]["roles"]}
    assert run["spec"]["cpu"] == "86400m"
    assert sizes == {"Chief": (None, None), "PS": ("1", "8Gi"), "Evaluator": ("1", "2Gi")}
    said = bench.run(name="b", kind="tfjob", flavor="a100-40gb", gpus_per_replica=8, cpu="4", roles=roles)
    assert [role["cpu"] for role in said["spec"]["roles"]] == [None, None, None]


@pytest.mark.django_db
def test_the_settings_name_kinds_that_there_are():
    admin = api_client(make_user("boss", platform_admin=True))
    path = "/api/v1/settings/"
    answer = admin.patch(path, {"optional_kinds": ["pytorchjob", "tfjob"]})
    assert answer.json()["optional_kinds"] == ["pytorchjob", "tfjob"]
    wrong = admin.patch(path, {"optional_kinds": ["mxjob"]})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "optional_kinds.0")
