"""The whole portal on the control plane that PORTAL_TEST_KUBECONFIG names: what is charged, idle and stranded is what its
nodes cost, to the micro-USD.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from teams.tokens import new_token
from tests.effort import drawn

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
SECONDS = drawn(usual=600, landing=600, soak=3_000)


@pytest.mark.cluster
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.skipif("PORTAL_TEST_KUBECONFIG" not in os.environ, reason="no PORTAL_TEST_KUBECONFIG")
def test_what_is_charged_idle_and_stranded_is_what_the_nodes_cost(tmp_path):
    team = f"m-{uuid4().hex[:8]}"
    seed = tmp_path / "portal.yaml"
    seed.write_text((HERE / "money.yaml").read_text().replace("TEAM", team))
    manage = shlex.join([sys.executable, str(ROOT / "manage.py")])
    steps = f"{manage} bootstrap {shlex.quote(str(seed))} && {shlex.quote(sys.executable)} -m tests.e2e.money_steps"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    environment = kept | {
        "PORTAL_KUBECONFIG": os.environ["PORTAL_TEST_KUBECONFIG"],
        "PORTAL_DATA_DIR": str(tmp_path / "data"),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "E2E_TEAM": team,
        "E2E_TOKEN": new_token(),
        "E2E_MANAGER_TOKEN": new_token(),
        "E2E_RUNS": str(drawn(usual=20, landing=20, soak=300)),
        "E2E_ENDPOINTS": str(drawn(usual=3, landing=3, soak=10)),
        "E2E_SEED": "20261124",
        "PYTHONPATH": str(ROOT),
    }
    command = [
        sys.executable,
        str(ROOT / "manage.py"),
        "up",
        "--once",
        "--then",
        shlex.join(["sh", "-c", steps]),
    ]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-8000:]}\n{ended.stderr[-4000:]}"
    assert "ok: the difference is 0" in ended.stdout
    print("\n".join(line for line in ended.stdout.splitlines() if line.startswith(("ok:", "   "))))
