"""Manifests of endpoints on API servers, and what their status then says."""

from __future__ import annotations

import pytest

from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from inference.status import observe_endpoint
from tests.inference.regenerate import built
from tests.manifest_clusters import template_as_pod
from tests.serving_samples import runtime_bodies
from workloads.pods.observation import Stage
from workloads.states import Reason


@pytest.mark.parametrize("name", runtime_bodies())
def test_what_serves_is_guaranteed_what_it_asks_for(real_bench, name):
    """Request and limit are one in every container, so that no batch work beside it takes its memory or CPU."""
    pod = template_as_pod(built()[name])
    made = real_bench.client.create(
        real_bench.moved({**pod, "metadata": {**pod["metadata"], "name": name.replace("_", "-")}})
    )
    assert made["status"]["qosClass"] == "Guaranteed"


def start(bench, *, replicas=2, **body):
    spec = EndpointSpec.from_json({"name": "a", "image": "b:1", "cpu": "100m", "memory": "64Mi", **body})
    where = bench.placement("a", "endpoint")
    return spec, where, bench.follow(build_endpoint(spec, where, replicas=replicas), where, observe_endpoint)


def test_an_endpoint_becomes_ready(bench):
    _, _, look = start(bench)
    seen = bench.until(look, lambda seen: seen.stage is Stage.READY)
    assert (seen.reason, seen.ready_replicas, seen.desired_replicas) == (Reason.READY, 2, 2)
    assert seen.pods_alive == 2


def test_an_endpoint_whose_image_is_not_there_says_so(bench):
    _, _, look = start(bench, replicas=1, image="example.com/does-not-exist:1")
    seen = bench.until(look, lambda seen: seen.reason is Reason.IMAGE_PULL_FAILED)
    assert (seen.stage, seen.blocked) == (Stage.PULLING, True)


def test_a_new_revision_is_applied_in_place_and_becomes_ready(bench):
    spec, where, look = start(bench, source={"files": {"a.py": "1"}})
    bench.until(look, lambda seen: seen.stage is Stage.READY)
    changed = EndpointSpec.from_json(
        {
            **spec.to_json(),
            "image": "b:2",
            "source": {"files": {"a.py": "2"}},
            "rollout": {"strategy": "replace"},
        }
    )
    manifests = build_endpoint(changed, where, replicas=2)
    for manifest in manifests.all():
        bench.client.apply(manifest)
    seen = bench.until(look, lambda seen: seen.stage is Stage.READY)
    images = {pod["spec"]["containers"][0]["image"] for pod in bench.pods(where.workload_id)}
    assert images == {"b:2"}
    assert seen.ready_replicas == 2


def test_replicas_go_to_none_and_come_back(bench):
    spec, where, look = start(bench, replicas=1)
    bench.until(look, lambda seen: seen.stage is Stage.READY)
    bench.client.apply(build_endpoint(spec, where, replicas=0).primary)
    seen = bench.until(look, lambda seen: not seen.pods and seen.stage is Stage.READY)
    assert seen.desired_replicas == 0
    bench.client.apply(build_endpoint(spec, where, replicas=1).primary)
    # The Deployment's status lags behind its pods, so the old number may still stand there.
    seen = bench.until(look, lambda seen: seen.stage is Stage.READY and seen.pods_alive == 1)
    assert (seen.ready_replicas, seen.desired_replicas) == (1, 1)
