"""`manage.py demo`: a portal of its own in `.demo`, made again each time, and its steps run against it."""

from __future__ import annotations

import secrets
import shlex
import shutil
import sys

from portal.runtime import up
from portal.settings import env
from teams.tokens import new_token

FOLDER = env.BASE_DIR / ".demo"
SEED = env.BASE_DIR / "demo" / "portal.yaml"
TEMPLATES = env.BASE_DIR / "deploy" / "run-templates.yaml"
PEOPLE = ("root", "qm", "ana", "bo")


def main(*, once: bool) -> int:
    """Start everything, load the seed, run the steps; 0 only if all of it happened."""
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    manage = shlex.join([sys.executable, str(env.BASE_DIR / "manage.py")])
    files = shlex.join([str(SEED), str(TEMPLATES)])
    steps = f"{manage} bootstrap {files} && exec {manage} demo_steps"
    env.set_variables(_credentials() | {"PORTAL_DATA_DIR": str(FOLDER)})
    return up.main(["--then", shlex.join(["sh", "-c", steps]), *(["--once"] if once else [])])


def _credentials() -> dict[str, str]:
    """Passwords and a token for the seeded people, made up each time; the steps print the logins."""
    passwords = {f"DEMO_{person.upper()}_PASSWORD": secrets.token_urlsafe(9) for person in PEOPLE}
    return passwords | {"DEMO_ANA_TOKEN": new_token()}
