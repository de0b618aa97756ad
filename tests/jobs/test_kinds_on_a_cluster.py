"""Runs of the kinds that an operator carries out, followed to their ends on an API server with that operator."""

from __future__ import annotations

import pytest

from cluster import kinds
from controller.observation import Stage
from jobs import kinds as jobs_kinds
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from jobs.status import observe_training_run
from workloads.states import Reason

ROLES = [{"name": "Chief"}, {"name": "PS", "replicas": 2}]
KINDS = {
    "pytorchjob": {"kind": "pytorchjob", "replicas": 4},
    "pytorchjob-of-one": {"kind": "pytorchjob"},
    "pytorchjob-elastic": {"kind": "pytorchjob", "elastic": {"min_replicas": 2, "max_replicas": 3}},
    "tfjob": {"kind": "tfjob", "replicas": 2, "roles": ROLES},
    "mpijob": {"kind": "mpijob", "replicas": 2},
}
PODS = {"pytorchjob": 4, "pytorchjob-of-one": 1, "pytorchjob-elastic": 3, "tfjob": 5, "mpijob": 3}
NAMED = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def bench(baseline_bench):
    """Under Pod Security `baseline`: the operator's own init container is refused under `restricted`."""
    return baseline_bench


def start(bench, kind, env, **body):
    wanted = jobs_kinds.KINDS[KINDS[kind]["kind"]].objects[0]
    if (wanted.api_version, wanted.kind) not in bench.client.served_kinds():
        pytest.skip(f"this cluster does not serve {wanted.address}")
    spec = TrainingRunSpec.from_json(
        {
            "name": "a",
            "image": "python:3.12",
            "cpu": "100m",
            "memory": "64Mi",
            **KINDS[kind],
            "env": [{"name": name, "value": value} for name, value in env.items()],
            **body,
        }
    )
    where = bench.placement("a", "training-run")
    where = where.__class__(**{**vars(where), "object_name": f"a-{where.workload_id[:8]}"})
    manifests = build_training_run(spec, where)
    bench.make(manifests)

    def look():
        return observe_training_run(bench.primary(manifests), bench.pods(where.workload_id), bench.events())

    return manifests, where, look


@NAMED
def test_a_run_is_followed_to_its_good_end(bench, kind):
    _, _, look = start(bench, kind, {"BED_RUN_SECONDS": "2"})
    started = bench.until(look, lambda seen: seen.stage is Stage.RUNNING or seen.final)
    assert started.desired_replicas <= len(started.pods) == PODS[kind]
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason) == (Stage.SUCCEEDED, Reason.COMPLETED), seen
    bench.until(look, lambda seen: seen.pods_alive == 0)


@NAMED
def test_an_exit_code_reaches_the_observation(bench, kind):
    _, _, look = start(bench, kind, {"BED_RUN_SECONDS": "1", "BED_EXIT_CODE": "3"})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.exit_code) == (Stage.FAILED, Reason.APPLICATION_ERROR, 3), seen
    assert (seen.interruption, seen.retryable) == (False, True)


@NAMED
def test_running_out_of_memory_names_the_limit(bench, kind):
    _, _, look = start(bench, kind, {"BED_RUN_SECONDS": "1", "BED_OOM": "true"})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.reason, seen.retryable, seen.exit_code) == (Reason.OOM_KILLED, False, 137), seen


# The operator makes an MPIJob's pod anew; the portal sees from its own rows that one has gone.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mpijob"])
def test_a_deleted_pod_ends_the_attempt_without_blame(bench, kind):
    _, where, look = start(bench, kind, {"BED_STOP_SECONDS": "3"})
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    *_, pod = bench.pods(where.workload_id)
    ref = kinds.ref_of({"apiVersion": "v1", "kind": "Pod", **pod})
    bench.client.delete(ref, uid=pod["metadata"]["uid"], grace_seconds=30)
    seen = bench.until(look, lambda seen: seen.final or seen.interruption)
    assert (seen.interruption, seen.cause or seen.reason) == (True, Reason.DELETED_EXTERNALLY), seen


@NAMED
def test_pods_that_fit_nowhere_are_explained_by_the_scheduler(bench, kind):
    _, _, look = start(bench, kind, {}, cpu="4000")
    seen = bench.until(look, lambda seen: seen.reason is Reason.UNSCHEDULABLE)
    assert (seen.stage, seen.scheduled_at) == (Stage.SCHEDULING, None)
    assert "Insufficient cpu" in seen.message
