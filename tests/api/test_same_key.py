"""Whatever is asked for twice with one key is done once: every address that makes something takes such keys."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from tests.api.bench import ENDPOINTS, RUNS, Unchanged
from tests.factories.submitted import endpoint_body, run_body

LIMIT = {"flavor": "a100-40gb", "nominal": 5}
UNTIL = (clock.now() + timedelta(days=7)).isoformat()
BODIES = {
    RUNS: run_body("vision"),
    ENDPOINTS: endpoint_body("vision"),
    "/api/v1/quota-requests/": {
        "team": "vision",
        "flavor": "a100-40gb",
        "units": 4,
        "until": UNTIL,
        "reason": "x",
    },
}
OF_MANAGERS = {
    "/api/v1/teams/vision/quotas/": {**LIMIT, "reason": "x"},
    "/api/v1/quota-changes/": {"changes": [{"team": "vision", **LIMIT}], "reason": "x"},
    "/api/v1/prices/": {"card": "a100-40gb", "micro_usd_per_card_hour": 7, "reason": "x"},
    "/api/v1/cohorts/": {"name": "research"},
}


@pytest.mark.parametrize("url", [*BODIES, *OF_MANAGERS])
def test_the_same_key_and_body_are_answered_as_before_and_make_nothing_more(bench, manager, url):
    client, body = (bench.client, BODIES[url]) if url in BODIES else (manager, OF_MANAGERS[url])
    first = client.post(url, body, headers={"Idempotency-Key": "k"})
    assert first.status_code in {200, 201}, first.content
    with Unchanged():
        again = client.post(url, body, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers.get("Location") == first.headers.get("Location")
    assert again["Idempotency-Replayed"] == "true"
