"""Claims that a request names: told at once what is not there, and what its pods cannot have together."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from foundation import clock
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.submitted import endpoint_body, run_body
from workloads.models import ClaimRecord, WatchCursor

PREVIEW = f"{RUNS}preview/"


def claim(name, *modes, namespace="team-vision", phase="Bound"):
    return ClaimRecord.objects.create(
        uid=str(uuid4()),
        namespace=namespace,
        name=name,
        access_modes=list(modes) or ["ReadWriteMany"],
        phase=phase,
        observed_at=clock.now(),
    )


@pytest.fixture
def watched(bench):
    """Somebody watches claims, and the team has one."""
    WatchCursor.objects.create(kind="PersistentVolumeClaim", seen_at=clock.now())
    claim("data")


def mounting(name, **mount):
    return {"volumes": [{"claim": name, "path": "/data", **mount}]}


@pytest.mark.parametrize("path", [RUNS, PREVIEW])
def test_a_claim_that_does_not_exist_is_told_with_those_that_do_and_the_fix(bench, watched, path):
    claim("elsewhere", namespace="team-other")
    for name in ("missing", "elsewhere"):
        with Unchanged():
            said = problem(
                bench.client.post(path, run_body("vision", **mounting(name))), 422, "volumes.0.claim"
            )
        assert said["errors"][0]["code"] == "unknown_claim"
        assert "there is: data." in said["detail"]
        assert "/volumes/" in said["detail"]
    assert bench.client.post(path, run_body("vision", **mounting("data"))).status_code in {200, 201}


def test_checkpoints_and_models_name_their_own_fields(bench, watched):
    body = run_body("vision", checkpoint={"path": "/ckpt", "claim": "missing"})
    problem(bench.client.post(RUNS, body), 422, "checkpoint.claim", code="unknown_claim")
    inside = {**mounting("data"), "checkpoint": {"path": "/data/ckpt"}}
    assert bench.client.post(PREVIEW, run_body("vision", **inside)).status_code == 200
    body = endpoint_body("vision", model={"claim": "missing"})
    problem(bench.client.post(ENDPOINTS, body), 422, "model.claim", code="unknown_claim")
    made = bench.endpoint()
    change = mounting("missing")
    problem(bench.client.patch(f"{ENDPOINTS}{made['id']}/", change), 422, "volumes.0.claim")


@pytest.mark.parametrize(
    ("modes", "pods", "read_only", "code"),
    [
        (["ReadWriteMany"], 4, False, None),
        (["ReadWriteOnce"], 1, False, None),
        (["ReadWriteOncePod"], 1, False, None),
        (["ReadWriteOnce"], 2, False, "not_shareable"),
        (["ReadWriteOnce"], 2, True, "not_shareable"),
        (["ReadWriteOncePod"], 2, True, "not_shareable"),
        (["ReadOnlyMany"], 4, True, None),
        (["ReadOnlyMany"], 4, False, "read_only_claim"),
        (["ReadOnlyMany"], 1, False, "read_only_claim"),
        (["ReadWriteOnce", "ReadOnlyMany"], 4, True, None),
        (["ReadWriteOnce", "ReadOnlyMany"], 4, False, "not_shareable"),
        (["ReadWriteOnce", "ReadWriteMany"], 4, False, None),
    ],
)
def test_the_access_mode_is_held_against_the_number_of_pods(bench, watched, modes, pods, read_only, code):
    claim("ckpt", *modes)
    body = run_body("vision", replicas=pods, **mounting("ckpt", read_only=read_only))
    answer = bench.client.post(PREVIEW, body)
    if code is None:
        assert answer.status_code == 200, answer.content
    else:
        problem(answer, 422, "volumes.0.claim", code=code)
    endpoint = endpoint_body(
        "vision", min_replicas=pods, max_replicas=pods, **mounting("ckpt", read_only=read_only)
    )
    assert bench.client.post(f"{ENDPOINTS}preview/", endpoint).status_code == answer.status_code


@pytest.mark.parametrize("phase", ["Terminating", "Lost"])
def test_a_claim_that_goes_is_not_mounted(bench, watched, phase):
    claim("old", phase=phase)
    problem(bench.client.post(PREVIEW, run_body("vision", **mounting("old"))), 422, code="claim_unusable")
    # Made anew under its name while the old one still goes.
    claim("old")
    assert bench.client.post(PREVIEW, run_body("vision", **mounting("old"))).status_code == 200


def test_nothing_is_said_of_claims_that_nobody_watches(bench, watched):
    WatchCursor.objects.update(seen_at=clock.now() - timedelta(minutes=11))
    bench.run(**mounting("missing"))
    WatchCursor.objects.all().delete()
    bench.run(**mounting("missing"))
