"""Where an endpoint's model comes from, and what its runtime is told, as a program asks for it."""

from __future__ import annotations

import pytest

from foundation import clock
from teams.actors import Actor
from teams.secret_names import record_secret
from tests.api.bench import ENDPOINTS, Unchanged, problem
from tests.api.test_claims_of_a_request import claim
from tests.factories.submitted import endpoint_body
from workloads.models import WatchCursor

FROM_STORE = {"runtime": "triton", "command": [], "flavor": "a100-40gb"}
URI = "s3://models/vision"


def model(**fields):
    return {**FROM_STORE, "model": fields}


@pytest.fixture
def keys(bench):
    for name, has in (
        ("s3-read", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]),
        ("half", ["AWS_ACCESS_KEY_ID"]),
    ):
        record_secret(
            team=bench.team,
            name=name,
            keys=has,
            written_here=True,
            actor=Actor.of_user(bench.lead),
            now=clock.now(),
        )


@pytest.mark.parametrize(
    ("body", "field", "code", "said"),
    [
        (model(uri=URI, secret="gone"), "model.secret", "unknown_secret", "s3-read"),
        (model(uri=URI, secret="half"), "model.secret", "unknown_key", "AWS_SECRET_ACCESS_KEY"),
        (model(claim="gone"), "model.claim", "unknown_claim", "models"),
        (model(claim="models", uri=URI), "model.uri", "exclusive", "not both"),
        (model(uri="s3://id:key@models/a"), "model.uri", "credentials_in_url", "model.secret"),
        (
            {**model(uri=URI), "runtime_options": {"batch_size": 8}},
            "runtime_options.batch_size",
            "not_for_runtime",
            "config.pbtxt",
        ),
        (
            {**model(uri=URI), "runtime": "torchserve", "ports": {"grpc": 8081}},
            "ports.grpc",
            "management_port",
            "management API",
        ),
    ],
)
def test_what_will_not_do_is_told_at_once(bench, keys, body, field, code, said):
    WatchCursor.objects.create(kind="PersistentVolumeClaim", seen_at=clock.now())
    claim("models")
    with Unchanged():
        for path in (ENDPOINTS, f"{ENDPOINTS}preview/"):
            found = problem(bench.client.post(path, endpoint_body("vision", **body)), 422, field, code=code)
            assert said in found["errors"][0]["message"]


def test_the_stored_spec_says_what_the_runtime_filled_in(bench, keys):
    made = bench.endpoint(**model(uri=URI, secret="s3-read"))
    spec = made["spec"]
    assert spec["model"] == {
        "claim": None,
        "uri": URI,
        "path": "/models",
        "secret": "s3-read",
        "size_limit": "50Gi",
    }
    assert spec["ports"] == {"http": 8000, "grpc": 8001, "metrics": 8002}
    assert spec["probes"]["readiness"]["path"] == "/v2/health/ready"
    answer = bench.client.patch(
        f"{ENDPOINTS}{made['id']}/", {"image": "nvcr.io/nvidia/tritonserver:25.01-py3"}
    )
    assert answer.status_code == 200
    assert {**answer.json()["spec"], "image": ""} == {**spec, "image": ""}


def test_a_request_of_old_means_what_it_meant(bench):
    spec = bench.endpoint()["spec"]
    assert (spec["runtime"], spec["runtime_options"], spec["model"]) == ("custom", {}, None)
    assert spec["ports"] == {"http": 8080, "grpc": None, "metrics": None}
    assert spec["probes"]["liveness"] is None
