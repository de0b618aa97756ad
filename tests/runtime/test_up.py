"""`manage.py up` for real: the databases, the cluster and the five processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import psycopg
import pytest

from portal.folders import Folders
from tests.waiting import SECONDS, until

from .processes import MARK, ports_of, processes_of

ROOT = Path(__file__).parents[2]
START_SECONDS = 90
MINE = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251


class Up:
    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.output = folder.with_name(f"{folder.name}-{self.mark}.out")
        environment = {**MINE, MARK: self.mark, "PORTAL_DATA_DIR": str(folder), **variables}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "up"],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        return self.output.read_text()

    def until_started(self) -> str:
        """Waits; returns the URL of the portal."""
        until(
            lambda: "the portal is at" in self.text or self.process.poll() is not None,
            seconds=START_SECONDS,
            said="up has started",
        )
        assert "the portal is at" in self.text, self.text
        return re.search(r"the portal is at (http://\S+)", self.text)[1]

    def left(self) -> dict[int, str]:
        return processes_of(self.folder, self.mark)

    def pids_of(self, command: str) -> list[int]:
        """The processes with those words, the parent first."""
        return sorted(pid for pid, line in self.left().items() if command in line)


@pytest.fixture
def up(tmp_path):
    made: list[Up] = []

    def start(folder: Path = tmp_path / "data", **variables: str) -> Up:
        made.append(Up(folder, **variables))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()
        until(lambda each=each: not each.left(), said="everything has ended")


def fetch(url: str) -> int:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310
        return response.status


def status_of(url: str) -> int:
    try:
        return fetch(url)
    except urllib.error.HTTPError as refused:
        return refused.code


def health_of(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(str(path))
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return connection.recv(65_536).partition(b"\r\n")[0]


def users(folder: Path) -> list[str]:
    sockets = str(Folders(folder).postgres_sockets)
    with psycopg.connect(host=sockets, user="portal", dbname="portal") as connection:
        return [name for (name,) in connection.execute("SELECT username FROM teams_user")]


@pytest.mark.processes
def test_up_survives_crashes_leaves_nothing_when_killed_and_finds_its_data_again(up, tmp_path):
    folder = tmp_path / "data"
    first = up()
    url = first.until_started()
    assert "sign in as admin, once: " + url in first.text
    assert "GPUs are pretended" in first.text
    assert fetch(f"{url}/healthz") == 200
    assert users(folder) == ["admin"]
    assert "/sign-in/link/" not in "".join(path.read_text() for path in (folder / "logs").iterdir())

    # Whoever else works on this machine learns nothing by asking all ports there are.
    ports = ports_of(first.left())
    assert len(ports) >= 3
    for path in ("metrics", "api/v1/query?query=up", "api/v1/pods", "api/v1/training-runs/"):
        answers = {port: status_of(f"http://localhost:{port}/{path}") for port in ports}
        assert set(answers.values()) <= {400, 401, 403, 404}, (path, answers)

    # One folder, one `up`.
    refused = up()
    assert refused.process.wait(timeout=30) == 2
    assert f"the portal already runs in {folder} (process {first.process.pid})" in refused.text

    # After a crash of the web process nobody is turned away: its socket stays open until the next one serves it.
    crashed = first.pids_of("manage.py serve")
    os.kill(crashed[0], signal.SIGKILL)
    until(lambda: not {*crashed} & {*first.left()}, said="web is gone")
    assert fetch(f"{url}/healthz") == 200
    assert "web ended (signal SIGKILL), starting it again" in first.text

    # The supervisor is killed: nobody is left to end its children, and still none remains.
    assert len(first.left()) >= 10
    first.process.kill()
    first.process.wait()
    until(lambda: not first.left(), said=f"no process is left of {first.left()}")

    second = up()
    second.until_started()
    assert users(folder) == ["admin"]
    assert "sign in as" not in second.text
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(timeout=60) == 0
    assert second.text.rstrip().endswith("everything has ended")
    assert second.left() == {}


def test_taken_port_gives_way_to_the_next_one_unless_it_was_asked_for():
    from portal.runtime import up as module
    from portal.settings.env import Bind

    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = Bind(host="127.0.0.1", port=taken.getsockname()[1])
        with module._listener(bind, fixed=False) as listener:
            assert listener.getsockname()[1] > bind.port
        with pytest.raises(module.RefusedError, match=rf"port {bind.port} of 127\.0\.0\.1 is taken"):
            module._listener(bind, fixed=True)


def test_exposed_address_is_refused_while_the_cluster_is_embedded(up):
    refused = up(PORTAL_BIND="0.0.0.0:0")
    assert refused.process.wait(timeout=30) == 2
    assert "PORTAL_BIND is 0.0.0.0:0, which other machines can reach" in refused.text


def test_unknown_variable_is_one_sentence_and_no_trace(up):
    refused = up(PORTAL_DATABASE="x")
    assert refused.process.wait(timeout=30) == 1
    assert refused.text == (
        "manage.py: PORTAL_DATABASE is not a variable of the portal; the nearest one is PORTAL_DATABASE_URL\n"
    )


@pytest.mark.processes
def test_the_embedded_prometheus_reads_every_process_which_tells_its_health_beside(up):
    started = up()
    started.until_started()
    address, path = re.search(
        r"its metrics are at (http://\S+), with the token in (\S+)", started.text
    ).groups()
    token = Path(path).read_text()

    def seen(expression):
        query = urllib.parse.quote(expression)
        request = urllib.request.Request(  # noqa: S310
            f"{address}/api/v1/query?query={query}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)["data"]["result"]

    until(lambda: seen('count(up{job="portal"} == 1) == 5'), seconds=30, said="all five have been scraped")
    (web, *_) = started.pids_of("manage.py serve")
    assert f"PORTAL_PROMETHEUS_URL={address}".encode() in Path(f"/proc/{web}/environ").read_bytes().split(
        b"\0"
    )
    sockets = [Path(each["metric"]["instance"].removeprefix("unix://")) for each in seen('up{job="portal"}')]
    assert {each.stat().st_mode & 0o777 for each in sockets} == {0o600}
    assert [health_of(each) for each in sockets] == [b"HTTP/1.0 200 OK"] * 5
    # One of them is the gateway, whose requests endpoints scale on; three give signs of life.
    assert len(seen("mlportal_gateway_up")) == 1
    alive = {each["metric"]["process"] for each in seen("portal_sign_of_life_age_seconds < 60")}
    assert alive == {"worker", "beat", "watcher"}
    until(lambda: seen('portal_tasks_total{state="SUCCESS"} > 0'), seconds=30, said="a task has been counted")
