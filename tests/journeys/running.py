"""A whole portal for the journeys: `manage.py up` with a bootstrap file, in a folder and on ports of its own."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from tests.runtime.processes import MARK, processes_of
from tests.waiting import until

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "tests" / "journeys" / "portal.yaml", ROOT / "deploy" / "run-templates.yaml")
PEOPLE = ("ana", "lea", "qm", "bot")
START_SECONDS = 240
STOP_SECONDS = 60
MINE = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
LOADED = "bootstrap is loaded"


class RunningPortal:
    """`url` is what it prints; `passwords` are those of the people in portal.yaml. `variables` are of its environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.passwords = {person: secrets.token_urlsafe(9) for person in PEOPLE}
        self._output = folder.with_name(f"{folder.name}.out")
        given = {f"JOURNEY_{person.upper()}_PASSWORD": text for person, text in self.passwords.items()}
        self._environment = {**MINE, **given, **variables, MARK: self.mark, "PORTAL_DATA_DIR": str(folder)}
        binds = {"PORTAL_BIND": "127.0.0.1:0", "PORTAL_LIVE_BIND": "127.0.0.1:0"}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*self._manage("up"), "--then", f"sh -c '{self._bootstrap()}'"],
                env={**self._environment, **binds},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()

    def until_started(self) -> None:
        ends = (LOADED, "then ended")
        until(
            lambda: any(end in self.text for end in ends) or self._process.poll() is not None,
            seconds=START_SECONDS,
            said="the portal has started and loaded its file",
        )
        assert LOADED in self.text, self.text
        self.url = re.search(r"the portal is at (http://\S+)", self.text)[1]
        self._links = [re.search(r"sign in as admin, once: (\S+)", self.text)[1]]

    def printed_link(self) -> str:
        """The link of the first start; once that is used up, another one, by the command that prints it."""
        if self._links:
            return self._links.pop()
        shown = subprocess.run(
            self._manage("sign_in_link", "admin"),
            env={**self._environment, "PORTAL_PUBLIC_URL": self.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return re.search(r"once: (\S+)", shown.stdout)[1]

    def stop(self) -> None:
        """Ends it, and waits until none of its processes is left."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        until(lambda: not processes_of(self.folder, self.mark), said="everything has ended")

    def _manage(self, *arguments: str) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), *arguments]

    def _bootstrap(self) -> str:
        command = " ".join([*self._manage("bootstrap"), *map(str, FILES)])
        return f"{command} && echo {LOADED}"
