"""The whole portal on the control plane that PORTAL_TEST_KUBECONFIG names: what is charged, idle and stranded is what its
nodes cost, to the micro-USD.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from teams.tokens import new_token
from tests.e2e.whole_portal import run_steps
from tests.effort import drawn

SECONDS = drawn(usual=600, soak=3_000)


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.skipif("PORTAL_TEST_KUBECONFIG" not in os.environ, reason="no PORTAL_TEST_KUBECONFIG")
def test_what_is_charged_idle_and_stranded_is_what_the_nodes_cost(tmp_path):
    said = run_steps(
        tmp_path,
        "tests.e2e.money_steps",
        seed="money.yaml",
        team=f"m-{uuid4().hex[:8]}",
        timeout=SECONDS,
        E2E_TOKEN=new_token(),
        E2E_MANAGER_TOKEN=new_token(),
        E2E_RUNS=str(drawn(usual=20, soak=300)),
        E2E_ENDPOINTS=str(drawn(usual=3, soak=10)),
        E2E_SEED="20261124",
    )
    assert "ok: the difference is 0" in said
    print("\n".join(line for line in said.splitlines() if line.startswith(("ok:", "   "))))
