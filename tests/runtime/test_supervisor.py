"""The supervisor with small commands in place of the portal's processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from portal.runtime.children import GUARD, LogFile
from tests.waiting import until

from .processes import MARK, processes_of

ROOT = Path(__file__).parents[2]
# Reads services as JSON, supervises them until a signal, prints what the terminal would show.
SUPERVISE = """
import json, os, sys
from pathlib import Path
from portal.runtime.children import ChildCommand
from portal.runtime.supervisor import FailedError, Service, StoppedError, Supervisor

folder, stages = Path(sys.argv[1]), json.loads(sys.argv[2])
# One write: lines of several threads must not run into each other.
say = lambda name, line: os.write(1, f"{name}: {line}\\n".encode())
supervisor = Supervisor(logs=folder / "logs", echo=say, backoff_first_seconds=0.05)
supervisor.listen()
status = 0
try:
    for stage in stages:
        supervisor.start([
            Service(
                name=name,
                command=ChildCommand(arguments=tuple(each["run"]), stop_seconds=each.get("stop_seconds", 5)),
                vital=each.get("vital", False),
                once=each.get("once", False),
                ready=(folder / each["ready"]).exists if "ready" in each else (lambda: True),
                start_seconds=each.get("start_seconds", 10),
            )
            for name, each in stage.items()
        ])
    say("up", "ready")
    supervisor.watch()
except StoppedError:
    say("up", "stopped while starting")
except FailedError as problem:
    say("up", str(problem))
    status = 1
finally:
    supervisor.stop()
    say("up", "ended")
sys.exit(status)
"""


class Supervised:
    def __init__(self, folder: Path, *stages: dict) -> None:
        self.folder, self.mark, self.output = folder, uuid.uuid4().hex, folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISE, str(folder), json.dumps(stages)],
                cwd=ROOT,
                env={**os.environ, MARK: self.mark},  # noqa: TID251
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def until_line(self, text: str) -> None:
        until(lambda: any(text in line for line in self.lines), said=text)

    def left(self) -> dict[int, str]:
        return processes_of(self.folder, self.mark)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        until(lambda: not self.left(), said="the children are gone")


@pytest.fixture
def supervise(tmp_path):
    made: list[Supervised] = []

    def start(*stages: dict) -> Supervised:
        made.append(Supervised(tmp_path, *stages))
        return made[-1]

    yield start
    for each in made:
        each.close()


def shell(script: str, **options: object) -> dict:
    return {"run": ["sh", "-c", script], **options}


SLEEPER = shell("echo awake; exec sleep 1000")


def test_crashed_service_is_started_again_after_growing_waits(supervise):
    supervised = supervise({"web": shell("exit 3")})
    supervised.until_line("(attempt 4)")
    waits = [line.split(" again in ")[1].split(" s")[0] for line in supervised.lines if "again in" in line]
    assert waits[:4] == ["0.05", "0.1", "0.2", "0.4"]
    assert "up: web ended (status 3), starting it again in 0.05 s (attempt 1)" in supervised.lines


def test_crash_of_a_vital_service_ends_everything_and_says_why(supervise):
    supervised = supervise(
        {"postgres": shell("echo the disk is full; sleep 0.2; exit 1", vital=True), "web": SLEEPER}
    )
    assert supervised.process.wait(timeout=30) == 1
    text = "\n".join(supervised.lines)
    assert "postgres ended unexpectedly (status 1); nothing can run without it" in text
    assert "    the disk is full" in text
    assert not supervised.left()


def test_service_that_ends_before_it_is_ready_ends_everything(supervise):
    supervised = supervise({"valkey": shell("echo no; exit 4", ready="never", vital=True)})
    assert supervised.process.wait(timeout=30) == 1
    assert any("valkey ended while starting (status 4)" in line for line in supervised.lines)


def test_service_that_does_not_become_ready_in_time_ends_everything(supervise):
    supervised = supervise({"slow": shell("exec sleep 1000", ready="never", start_seconds=0.2)})
    assert supervised.process.wait(timeout=30) == 1
    assert any("slow did not become ready within 0 s" in line for line in supervised.lines)


def test_next_stage_waits_for_the_one_before(supervise):
    supervised = supervise(
        {"first": shell("sleep 0.2; echo made", once=True)}, {"second": shell("echo later; exec sleep 1000")}
    )
    supervised.until_line("second: later")
    assert supervised.lines.index("first: made") < supervised.lines.index("second: later")


def test_failed_preparation_is_reported_with_its_last_lines(supervise):
    supervised = supervise({"migrate": shell("echo bad migration; exit 5", once=True)})
    assert supervised.process.wait(timeout=30) == 1
    assert any("migrate failed (status 5)" in line for line in supervised.lines)
    assert "    bad migration" in supervised.lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_all_in_reverse_order(supervise, number):
    farewell = "trap 'echo bye; exit 0' TERM; echo awake; while :; do sleep 0.05; done"
    supervised = supervise({"first": shell(farewell)}, {"second": shell(farewell)})
    for name in ("first", "second"):
        supervised.until_line(f"{name}: awake")
    supervised.process.send_signal(number)
    assert supervised.process.wait(timeout=30) == 0
    assert supervised.lines.index("second: bye") < supervised.lines.index("first: bye")
    assert not supervised.left()


def test_service_that_ignores_the_request_to_end_is_killed_after_its_time(supervise):
    deaf = shell("trap '' TERM; echo awake; while :; do sleep 0.05; done", stop_seconds=0.3)
    supervised = supervise({"deaf": deaf})
    supervised.until_line("deaf: awake")
    supervised.process.terminate()
    assert supervised.process.wait(timeout=30) == 0
    assert "deaf: does not end after 0 s, killed" in supervised.lines
    until(lambda: not supervised.left(), said="nothing is left")


def test_second_ctrl_c_does_not_wait(supervise):
    deaf = shell("trap '' TERM INT; echo awake; while :; do sleep 0.05; done", stop_seconds=600)
    supervised = supervise({"deaf": deaf})
    supervised.until_line("deaf: awake")
    supervised.process.send_signal(signal.SIGINT)
    until(lambda: _ignores(supervised), said="the first Ctrl-C was seen")
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.process.wait(timeout=30) == 0


def _ignores(supervised: Supervised) -> bool:
    """The first signal has been handled once it is no longer pending."""
    status = Path(f"/proc/{supervised.process.pid}/status").read_text()
    pending = next(line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd"))
    return int(pending, 16) == 0


def test_signal_while_starting_ends_what_was_started(supervise):
    supervised = supervise({"early": SLEEPER}, {"slow": shell("echo wait; exec sleep 1000", ready="never")})
    supervised.until_line("slow: wait")
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.process.wait(timeout=30) == 0
    assert "up: stopped while starting" in supervised.lines
    assert not supervised.left()


def test_no_child_outlives_a_killed_supervisor(supervise):
    supervised = supervise({"one": SLEEPER, "two": SLEEPER})
    supervised.until_line("up: ready")
    supervised.until_line("one: awake")
    supervised.until_line("two: awake")
    assert len(supervised.left()) == 3
    supervised.process.kill()
    supervised.process.wait()
    until(lambda: not supervised.left(), said="the children are gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_child_under_another_user_does_not_outlive_its_parent_and_passes_closed_folders(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("reachable\n")
    script = "cat secret; id -un; exec sleep 1000"
    parent = subprocess.Popen(
        [
            "sh",
            "-c",
            f'"$0" -IS "$1" --parent $$ --user nobody -- sh -c "{script}" & wait',
            sys.executable,
            str(GUARD),
        ],
        cwd=closed,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert [parent.stdout.readline().strip() for _ in range(2)] == ["reachable", "nobody"]
        parent.kill()
        parent.wait()
    until(lambda: not processes_of(closed, "none"), said="the child is gone")


def test_child_whose_parent_is_gone_already_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-IS", str(GUARD), "--parent", "1", "--", "echo", "started"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


def test_command_that_does_not_exist_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "portal.runtime.guard", "--", "/nowhere/postgres"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 126
    assert done.stderr == "guard: cannot start /nowhere/postgres: No such file or directory\n"


def test_log_file_is_bounded(tmp_path):
    log = LogFile(tmp_path / "logs" / "web.log", bytes_max=100)
    for number in range(50):
        log.write(f"line {number}\n".encode())
    log.close()
    current, previous = tmp_path / "logs" / "web.log", tmp_path / "logs" / "web.log.1"
    assert current.stat().st_size <= 100
    assert previous.stat().st_size <= 100
    assert (previous.read_text() + current.read_text()).endswith("line 48\nline 49\n")
