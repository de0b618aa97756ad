"""The whole portal, all its processes, against the control plane that PORTAL_TEST_KUBECONFIG names."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from teams.tokens import new_token

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent


@pytest.mark.cluster
@pytest.mark.skipif("PORTAL_TEST_KUBECONFIG" not in os.environ, reason="no PORTAL_TEST_KUBECONFIG")
def test_runs_and_endpoints_behave_on_a_real_control_plane(tmp_path):
    team = f"e2e-{uuid4().hex[:8]}"
    seed = tmp_path / "portal.yaml"
    seed.write_text((HERE / "portal.yaml").read_text().replace("TEAM", team))
    manage = shlex.join([sys.executable, str(ROOT / "manage.py")])
    steps = f"{manage} bootstrap {shlex.quote(str(seed))} && {shlex.quote(sys.executable)} -m tests.e2e.steps"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    environment = kept | {
        "PORTAL_KUBECONFIG": os.environ["PORTAL_TEST_KUBECONFIG"],
        "PORTAL_DATA_DIR": str(tmp_path / "data"),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "E2E_TEAM": team,
        "E2E_TOKEN": new_token(),
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
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-8000:]}\n{ended.stderr[-4000:]}"
    assert "ok: no quota is held any more" in ended.stdout
    print("\n".join(line for line in ended.stdout.splitlines() if line.startswith("ok:")))
