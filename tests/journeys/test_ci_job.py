"""docs/how-to/automate-from-ci.md as it stands: its files are written down and run as a CI job against a portal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.journeys.running import ROOT, RunningPortal
from tests.waiting import until

pytestmark = pytest.mark.journey
PAGE = ROOT / "docs" / "how-to" / "automate-from-ci.md"
FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JOB_SECONDS = 180


class Job:
    """A job of a CI system, in a folder with the files of the page."""

    def __init__(self, folder: Path, portal: RunningPortal, name: str, **request: object) -> None:
        self.folder, self.name = folder, name
        for path, text in FILE.findall(PAGE.read_text(encoding="utf-8")):
            (folder / path).write_text(text, encoding="utf-8")
        if request:
            body = json.loads((folder / "request.json").read_text())
            (folder / "request.json").write_text(json.dumps(body | request))
        self.url = portal.url
        self.environment = {
            "PATH": os.environ["PATH"],  # noqa: TID251 (curl and python3, and nothing of this process else)
            "PORTAL_URL": portal.url,
            "PORTAL_TEAM": "robotics",
            "PORTAL_USER": "bot",
            "PORTAL_PASSWORD": portal.passwords["bot"],
            "CI_JOB_ID": name,
        }

    def start(self, script: str = "job.sh") -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-e", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> tuple[int, str, str]:
        """Its exit code, output and errors."""
        process = self.start()
        output, errors = process.communicate(timeout=JOB_SECONDS)
        return process.returncode, output, errors

    def runs(self) -> list[dict]:
        """What it has started."""
        shown = subprocess.run(
            ["sh", "-ec", ". ./token.sh; echo $PORTAL_TOKEN"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        request = urllib.request.Request(  # noqa: S310 (the portal's own address)
            f"{self.url}/api/v1/training-runs/?label=ci-job={self.name}",
            headers={"Authorization": f"Bearer {shown.stdout.strip()}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)["results"]


@pytest.fixture
def job(portal: RunningPortal, tmp_path: Path):
    def made(name: str, **request: object) -> Job:
        return Job(tmp_path, portal, name, **request)

    return made


def test_a_job_trains_shows_the_log_and_the_cost_and_ends_as_its_run(job):
    first = job("4711")
    code, output, errors = first.run()
    assert code == 0, output + errors
    assert [line for line in output.splitlines() if line.startswith("| epoch")] == [
        "| epoch 1 weight 1.5300",
        "| epoch 2 weight 2.2797",
        "| epoch 3 weight 2.6471",
        "| epoch 4 weight 2.8271",
        "| epoch 5 weight 2.9153",
    ]
    assert "preview: admit" in output
    assert re.search(r"Succeeded \(Completed\): .* It cost 0\.\d+ USD\.$", output, re.MULTILINE)
    code, again, errors = first.run()
    assert code == 0, again + errors
    (run,) = first.runs()
    assert (run["name"], run["labels"]) == ("ci-train-4711", {"ci-job": "4711", "ci-result": "succeeded"})
    assert f"run {run['id']}" in output
    assert f"run {run['id']}" in again


def test_a_job_whose_run_fails_fails(job):
    code, output, errors = job(
        "4712", command=["python", "-c", "print('no data'); raise SystemExit(7)"]
    ).run()
    assert code == 1, output + errors
    assert "| no data" in output


def test_a_job_that_is_refused_says_which_field_is_wrong(job):
    code, output, errors = job("4713", cpu="much").run()
    assert code == 2, output + errors
    assert "422" in errors
    assert "cpu: " in errors


def test_a_job_with_a_wrong_password_or_token_does_nothing(job):
    wrong = job("4715")
    wrong.environment["PORTAL_PASSWORD"] = 'not "it"'
    code, output, errors = wrong.run()
    assert code == 2, output + errors
    assert "The name or the password is wrong." in errors
    wrong.environment["PORTAL_TOKEN"] = "mlp_nonsense"
    code, output, errors = wrong.run()
    assert (code, output) == (2, "")
    assert "401 invalid_token" in errors


def test_a_job_that_is_stopped_leaves_nothing_that_runs(job):
    stopped = job("4714", command=["python", "-c", "import time; time.sleep(900)"])
    process = stopped.start()
    until(lambda: any(run["phase"] == "Running" for run in stopped.runs()), seconds=120, said="it runs")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=JOB_SECONDS)
    assert process.returncode == 143, output + errors
    assert "cancelled 1" in output
    until(
        lambda: [run["phase"] for run in stopped.runs()] == ["Cancelled"], seconds=60, said="it is cancelled"
    )
