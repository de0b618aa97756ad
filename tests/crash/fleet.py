"""A whole portal in real processes: its own PostgreSQL and Valkey, and web, live, worker, beat and watcher.

Tests kill these processes, benchmarks measure them. All of them end with the thread that made the fleet.
"""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

from portal.folders import Folders
from portal.runtime import children, postgres, valkey
from portal.runtime.children import Child, ChildCommand
from teams.tokens import new_token
from tests import migrating
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("web", "live", "worker", "beat", "watcher")
_COMMANDS = {"web": "serve", "live": "live", "worker": "work", "beat": "beat", "watcher": "watch"}
_TOKEN_VARIABLE = "FLEET_TOKEN"
_SEED = """
# Benchmarks and kills ask as fast as they can, by one token.
settings: {{grace_seconds: 2, reads_per_minute: 1000000, writes_per_minute: 1000000, expensive_per_minute: 1000000}}
teams: [{{slug: {team}, name: Fleet}}]
users: [{{username: ana}}]
memberships: [{{team: {team}, user: ana, role: member}}]
tokens: [{{user: ana, name: fleet, token_env: FLEET_TOKEN, scopes: [read, submit, manage]}}]
flavors:
- name: a100-40gb
  card: a100-40gb
  memory_gib: 40
  node_selector: {{nvidia.com/gpu.product: [NVIDIA-A100-SXM4-40GB]}}
  tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]
  capacity: {{on-demand: {{}}}}
quotas: [{{team: {team}, flavor: a100-40gb, nominal: {units}}}]
# One USD a second for one card, so that a bill is the pod's seconds.
prices: [{{card: a100-40gb, micro_usd_per_card_hour: 3600000000, from: 2026-01-01T00:00:00Z}}]
"""


class Fleet:
    """Made and used by the main thread: the kernel ends children with the thread that started them."""

    def __init__(
        self, folder: Path, *, kubeconfig: str, durable: bool, units: int = 6, **further: str
    ) -> None:
        """`further` are variables of the processes' environment."""
        self._further = further
        self.folders = Folders(folder)
        self.units = units
        self.durable = durable
        self.kubeconfig = kubeconfig
        self.team = f"fleet-{secrets.token_hex(4)}"
        self.token = new_token()
        self._sockets = {
            kind: socket.create_server(("127.0.0.1", 0), backlog=1024) for kind in ("web", "live")
        }
        self.ports = {kind: int(sock.getsockname()[1]) for kind, sock in self._sockets.items()}
        self.children: dict[str, Child] = {}

    @property
    def namespace(self) -> str:
        return f"team-{self.team}"

    @property
    def variables(self) -> dict[str, str]:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
        return inherited | {
            "PORTAL_DATA_DIR": str(self.folders.data),
            "PORTAL_KUBECONFIG": self.kubeconfig,
            "PORTAL_SECRET_KEY": "fleet-" + "0" * 40,
            "PORTAL_PUBLIC_URL": f"http://localhost:{self.ports['web']}",
            "PORTAL_LIVE_URL": f"http://127.0.0.1:{self.ports['live']}",
            "PORTAL_INTERNAL_URL": f"http://127.0.0.1:{self.ports['web']}",
            "PORTAL_BIND": f"fd://{self._sockets['web'].fileno()}",
            "PORTAL_LIVE_BIND": f"fd://{self._sockets['live'].fileno()}",
            _TOKEN_VARIABLE: self.token,
            **self._further,
        }

    # -- databases --------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """The databases answer, the tables and the seed are there; none of the portal's processes runs yet."""
        self.folders.data.mkdir(parents=True, exist_ok=True)
        postgres.prepare(self.folders, durable=self.durable)
        valkey.prepare(self.folders)
        self._start("valkey", valkey.command(self.folders))
        self.start_database()
        self._until(lambda: valkey.is_ready(self.folders), "Valkey answers")
        seed = self.folders.data / "seed.yaml"
        seed.write_text(_SEED.format(team=self.team, units=self.units))
        self._migrate()
        self.manage("bootstrap", str(seed))

    def _migrate(self) -> None:
        """Makes all tables, from what an earlier portal of the tests has left of them where there is one."""
        address = {"PGHOST": str(self.folders.postgres_sockets), "PGUSER": "portal", "PGDATABASE": "portal"}
        kept = migrating.kept_tables()
        if kept.exists():
            migrating.make_tables(kept, address)
            return
        self.manage("migrate", "--no-input", "--skip-checks", "--verbosity=0")
        migrating.keep_tables(kept, address)

    def start_database(self) -> None:
        self._start("postgres", postgres.command(self.folders, durable=self.durable))
        self._until(lambda: postgres.is_ready(self.folders), "PostgreSQL answers")

    def stop_database(self) -> None:
        """As an operator does it for a restart: connections are cut."""
        child = self.children.pop("postgres")
        child.signal(signal.SIGINT)
        child.process.wait(60)
        child.close()

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[sock.fileno() for sock in self._sockets.values()],
        )
        assert done.returncode == 0, f"manage.py {arguments[0]}: {done.stdout}{done.stderr}"
        return done.stdout

    def database(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folders.postgres_sockets), user="portal", dbname="portal", autocommit=True
        )

    def standings(self) -> dict[str, int]:
        """How many runs are at which phase and reason."""
        query = "SELECT phase || ' (' || reason || ')', count(*) FROM workloads_workload GROUP BY 1 ORDER BY 2 DESC"
        with self.database() as database:
            return dict(database.execute(query).fetchall())

    def wipe_broker(self) -> None:
        with redis.Redis(unix_socket_path=str(self.folders.valkey_socket)) as client:
            client.flushall()

    # -- processes --------------------------------------------------------------------------------------------------

    def spawn(self, kind: str, *, crash_point: str = "") -> Child:
        """A process of that kind; with `crash_point` it ends itself there as if by kill -9."""
        given = {"PORTAL_TEST_CRASH_POINT": crash_point} if crash_point else {}
        held = self._sockets.get(kind)
        command = ChildCommand(
            arguments=(sys.executable, str(ROOT / "manage.py"), _COMMANDS[kind]),
            environment=self.variables | given,
            # The settings of every process name both sockets; only its own server listens on one.
            pass_fds=(held.fileno(),) if held else (),
            stop_seconds=25,
        )
        return self._start(kind, command)

    def kill(self, kind: str) -> None:
        """kill -9; its children die with it."""
        child = self.children.pop(kind)
        child.signal(signal.SIGKILL)
        child.process.wait()
        child.close()

    def has_died(self, kind: str) -> bool:
        """Whether the process ended itself."""
        child = self.children[kind]
        if child.poll() is not None:
            assert child.poll() == -signal.SIGKILL, f"{kind} ended with {child.poll()}: {child.tail}"
            return True
        return False

    def until_web_answers(self) -> None:
        self._until(self._web_answers, "web answers")

    def _web_answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["web"], timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Host": "localhost"})
            return connection.getresponse().status in {200, 503}
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        for child in reversed(list(self.children.values())):
            child.stop()
        self.children.clear()
        for held in self._sockets.values():
            held.close()

    def log(self, kind: str) -> str:
        path = self.folders.logs / f"{kind}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, name: str, command: ChildCommand) -> Child:
        child = children.start(
            name=name, command=command, log=self.folders.logs / f"{name}.log", echo=lambda *_: None
        )
        self.children[name] = child
        return child

    def _until(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        def met() -> bool:
            if condition():
                return True
            ended = {name: child.tail for name, child in self.children.items() if child.poll() is not None}
            assert not ended, f"ended while starting: {ended}"
            return False

        until(met, seconds, what)


@contextmanager
def running_fleet(
    folder: Path,
    *,
    kubeconfig: str,
    durable: bool = False,
    kinds: tuple[str, ...] = KINDS,
    units: int = 6,
    **further: str,
) -> Iterator[Fleet]:
    """All of it started; ended and checked to have ended afterwards."""
    fleet = Fleet(folder, kubeconfig=kubeconfig, durable=durable, units=units, **further)
    try:
        fleet.prepare()
        for kind in kinds:
            fleet.spawn(kind)
        if "web" in kinds:
            fleet.until_web_answers()
        yield fleet
    finally:
        fleet.stop()


class RestClient:
    """A client of the REST API that asks again, with the same Idempotency-Key, until it gets an answer."""

    def __init__(self, fleet: Fleet, *, patience_seconds: float = 60) -> None:
        self.port = fleet.ports["web"]
        self.token = fleet.token
        self.patience_seconds = patience_seconds
        self.repeats = 0
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def once(
        self, method: str, path: str, body: bytes | None = None, *, key: str = ""
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One try. Raises OSError or http.client.HTTPException when there is no answer."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        headers |= {"Host": f"localhost:{self.port}"} | ({"Idempotency-Key": key} if key else {})
        try:
            self._connection.request(method, f"/api/v1/{path}", body, headers)
            answer = self._connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except BaseException:
            self.close()
            raise

    def insist(
        self, method: str, path: str, body: bytes | None = None, *, key: str = ""
    ) -> tuple[int, bytes]:
        """Until there is an answer that says something about the request itself."""
        deadline = time.monotonic() + self.patience_seconds
        while True:
            try:
                status, _, text = self.once(method, path, body, key=key)
                in_flight = status == 409 and b'"in_flight"' in text
                if status < 500 and not in_flight:
                    return status, text
                said = f"{status} {text[:200]!r}"
            except (OSError, http.client.HTTPException) as error:
                said = repr(error)
            assert time.monotonic() < deadline, f"{method} {path}: no answer within patience, last: {said}"
            self.repeats += 1
            time.sleep(0.1)
