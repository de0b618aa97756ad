"""The whole portal, all its processes, against the control plane that PORTAL_TEST_KUBECONFIG names."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from teams.tokens import new_token
from tests.e2e.whole_portal import run_steps


@pytest.mark.cluster
@pytest.mark.skipif("PORTAL_TEST_KUBECONFIG" not in os.environ, reason="no PORTAL_TEST_KUBECONFIG")
def test_runs_and_endpoints_behave_on_a_real_control_plane(tmp_path):
    team = f"e2e-{uuid4().hex[:8]}"
    said = run_steps(
        tmp_path, "tests.e2e.steps", seed="portal.yaml", team=team, timeout=600, E2E_TOKEN=new_token()
    )
    assert "ok: no quota is held any more" in said
    print("\n".join(line for line in said.splitlines() if line.startswith("ok:")))
