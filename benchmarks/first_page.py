"""From `manage.py up` in an empty folder to the first page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from benchmarks.results import Result, Row
from tests.crash.fleet import ROOT

DEADLINE_SECONDS = 180
_READY = re.compile(r"the portal is at (http://\S+)")


def measure(folder: Path) -> Result:
    folder.mkdir(parents=True)
    output = folder.with_name("up.out")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
    variables = inherited | {
        "PORTAL_DATA_DIR": str(folder),
        "PORTAL_BIND": "127.0.0.1:0",
        "PORTAL_LIVE_BIND": "127.0.0.1:0",
    }
    begun = time.monotonic()
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "up"],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        while (match := _READY.search(output.read_text())) is None:
            if process.poll() is not None or time.monotonic() - begun > DEADLINE_SECONDS:
                raise SystemExit(f"up did not start:\n{output.read_text()}")
            time.sleep(0.02)
        with urllib.request.urlopen(f"{match[1]}/sign-in/", timeout=30) as answer:  # noqa: S310 (our own address)
            answer.read()
        seconds = time.monotonic() - begun
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    return Result(
        title="Start",
        question="How long does a newcomer wait for the first page, once the packages are installed?",
        method="`manage.py up` in an empty data folder: PostgreSQL is initialised, tables and static files are made, devcluster and "
        "the five processes start; the clock stops when `/sign-in/` has been read.",
        limits="One start. Installing the packages is not in it.",
        rows=[Row(name="`up` in an empty folder → first page", ours=f"{seconds:.1f} s")],
    )
