"""A whole portal on the control plane that PORTAL_TEST_KUBECONFIG names, and a program that is its client."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent


def run_steps(folder: Path, module: str, *, seed: str, team: str, timeout: float, **variables: str) -> str:
    """Start it with its data in the folder and the rows of the `seed`, run the module beside it, and end it; what was
    printed. Fails where the module does.
    """
    rows = folder / "portal.yaml"
    rows.write_text((HERE / seed).read_text().replace("TEAM", team))
    manage = shlex.join([sys.executable, str(ROOT / "manage.py")])
    steps = f"{manage} bootstrap {shlex.quote(str(rows))} && {shlex.quote(sys.executable)} -m {module}"
    command = [*shlex.split(manage), "up", "--once", "--then", shlex.join(["sh", "-c", steps])]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(folder, team, variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-8000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def _environment(folder: Path, team: str, variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    return kept | {
        "PORTAL_KUBECONFIG": os.environ["PORTAL_TEST_KUBECONFIG"],
        "PORTAL_DATA_DIR": str(folder / "data"),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "PYTHONPATH": str(ROOT),
        "E2E_TEAM": team,
        **variables,
    }
