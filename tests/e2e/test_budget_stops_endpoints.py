"""The whole portal on the control plane that PORTAL_TEST_KUBECONFIG names: what a team's budget does to its endpoints."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from teams.tokens import new_token
from tests.e2e.whole_portal import run_steps


@pytest.mark.cluster
@pytest.mark.skipif("PORTAL_TEST_KUBECONFIG" not in os.environ, reason="no PORTAL_TEST_KUBECONFIG")
def test_an_endpoint_stops_within_its_budget_where_the_policy_says_so_and_goes_on_where_it_does_not(tmp_path):
    said = run_steps(
        tmp_path,
        "tests.e2e.budget_steps",
        seed="budget.yaml",
        team=f"b-{uuid4().hex[:8]}",
        timeout=600,
        E2E_TOKEN=new_token(),
        E2E_MANAGER_TOKEN=new_token(),
    )
    assert "ok: new work waits" in said
    print("\n".join(line for line in said.splitlines() if line.startswith("ok:")))
