"""Real servers for the tests: PostgreSQL and Valkey, one of each for all workers, started when first needed.

The process that the developer started (with pytest-xdist: the controller) owns them: they end with it, in
whatever way it ends. Tests that use neither start neither.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import session
from tests.effort import SOAK
from tests.marked_files import pytest_ignore_collect  # noqa: F401
from tests.rest_coverage import recorder
from tests.rest_coverage.recorder import pytest_addoption  # noqa: F401
from tests.seconds import CoreSeconds, Seconds
from tests.standing import own, pytest_collection_modifyitems, pytest_runtest_setup, stands  # noqa: F401
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 90.0
# These suites drive devcluster alone; they need no Django and must not pay for it.
WITHOUT_PORTAL = (ROOT / "tests" / "contract", ROOT / "tests" / "devcluster")

# No test fails because the machine is busy, and what is drawn little is the same each time.
hypothesis.settings.register_profile(
    "portal",
    hypothesis.settings(),
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("portal")

_started: set[str] = set()


def _take_a_cluster() -> None:
    """Of the clusters that PORTAL_TEST_KUBECONFIG lists, a worker has one to itself: tests fill its nodes."""
    named = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251
    # Workers inherit what the controller took; the list is kept beside it.
    listed = os.environ.setdefault("PORTAL_TEST_KUBECONFIGS", named).split(os.pathsep)  # noqa: TID251
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")  # noqa: TID251
    if named:
        os.environ["PORTAL_TEST_KUBECONFIG"] = listed[int(worker.removeprefix("gw")) % len(listed)]  # noqa: TID251


# Before any other file of the suite reads it, which the conftest files of folders do when they are imported.
_take_a_cluster()


def pytest_configure(config: pytest.Config) -> None:
    recorder.register(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds())
        os.environ[session.VARIABLE] = tempfile.mkdtemp(prefix="mlp-test-")  # noqa: TID251
        (_session() / "owner").write_text(str(os.getpid()))
    config.pluginmanager.register(CoreSeconds())
    _point_settings_at(_session())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and thousands of collected tests live to the end: looked through for garbage, they cost a sixth of a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = session.session_folder()
    if hasattr(config, "workerinput") or folder is None:
        return
    keeper = folder / "keeper.pid"
    if keeper.exists():
        _end(int(keeper.read_text()))
    shutil.rmtree(folder, ignore_errors=True)


def _session() -> Path:
    folder = session.session_folder()
    assert folder is not None, "pytest_configure makes it"
    return folder


def _point_settings_at(folder: Path) -> None:
    """What the environment does not name is embedded, here as in `manage.py up`, but in the session's folder."""
    from django.conf import settings

    from portal.folders import Folders
    from portal.settings import stores

    if not settings.configured:
        return
    folders = Folders(folder)
    settings.DATA_DIR, settings.FOLDERS = folder, folders
    settings.LOG_STORAGE = folders.log_store
    settings.STORAGES["logs"]["OPTIONS"]["location"] = folders.log_store
    # Looked up when asked for: otherwise every test client would first list all static files there are.
    settings.STATIC_ROOT = folders.static
    settings.PROMETHEUS_TOKEN = "a-token"
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = True
    # Tests ask from one address, and fuzzers often; what asks how often one may gives rates of its own.
    settings.REST_RATES = {
        f"{kind}_per_minute": 1_000_000 for kind in ("reads", "writes", "expensive", "anonymous", "pages")
    }
    # The expensive hash protects real passwords; the tests' would only cost minutes.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    if settings.ENVIRONMENT.database is None:
        settings.DATABASES["default"].update(stores.database(None, folders))
    if settings.ENVIRONMENT.redis_url is None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")  # noqa: TID251
        url = stores.embedded_redis_url(folders, number=int(worker.removeprefix("gw")) % 16)
        settings.REDIS_URL, settings.CELERY_BROKER_URL = url, stores.broker_url(url)
        settings.CACHES["default"].update(stores.cache(url))


# --- PostgreSQL and Valkey


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def servers() -> Path:
    """PostgreSQL and Valkey answer; the value is the folder that holds their sockets and logs."""
    folder = _session()
    ready, pid_file, log = folder / "ready", folder / "keeper.pid", folder / "keeper.log"
    with _locked(folder / "keeper.lock"):
        if not pid_file.exists():
            pid_file.write_text(str(_start_keeper(folder)))
        with suppress(AssertionError):  # No other test would fare better.
            until(lambda: ready.exists() or not _alive(int(pid_file.read_text())), START_SECONDS)
        if not ready.exists():
            pytest.exit(f"the embedded servers did not start:\n{log.read_text()}", returncode=3)
    _started.add("servers")
    return folder


def _start_keeper(folder: Path) -> int:
    owner = (folder / "owner").read_text()
    log = os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "portal.runtime.keeper", "--owner", owner, str(folder)],
            {**os.environ, "PYTHONPATH": str(ROOT)},  # noqa: TID251
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setpgroup=0,
        )
    finally:
        os.close(log)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _end(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGTERM)
        if not select.select([handle], [], [], 40)[0]:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, servers: Path, django_db_blocker: Any
) -> None:
    """pytest-django asks for this before it makes a worker's database: the server must answer by then."""
    from django.conf import settings

    from tests.emptying import instead_of_flush
    from tests.kept_connections import keep_connections
    from tests.migrating import copied

    instead_of_flush()
    keep_connections()
    if settings.ENVIRONMENT.database is None:
        with _locked(servers / "template.lock"), django_db_blocker.unblock():
            copied(servers / "template")


@cache
def _valkey(url: str) -> Any:
    """One connection for all tests: a new one costs as much as everything else that a small test costs."""
    import redis

    return redis.Redis.from_url(url)


@pytest.fixture(autouse=True)
def _nothing_left_in_valkey() -> Iterator[None]:
    yield
    if "servers" in _started:
        from django.conf import settings

        from foundation.http import clients, rates

        rates._refused.clear()
        rates._pause.until = 0.0
        clients._known.clear()
        _valkey(settings.REDIS_URL).flushdb()


@pytest.fixture
def still() -> Iterator[None]:
    """The clock stands: what a test takes from today's date it takes from one day, also around midnight."""
    from foundation import clock

    with clock.freeze(clock.now()):
        yield


@pytest.fixture(scope="module")
def within_month() -> Iterator[None]:
    """On the first and last day of a month the clock goes on from noon of its 15th, and near any other midnight from noon:
    no budget's period ends meanwhile, and what was used some hours ago was used on the day of now.
    """
    from foundation import clock
    from tests.months import into_month

    before, ahead = clock._source, into_month(clock.now())
    clock.set_source(lambda: before() + ahead)
    yield
    clock.set_source(before)


# --- no call to the cluster may hold a database transaction open


class ClusterCallInTransactionError(AssertionError):
    """Design section 7: a slow or lost cluster would hold row locks for as long as the call takes."""


@pytest.fixture(scope="session", autouse=True)
def _no_cluster_call_in_a_transaction(request: pytest.FixtureRequest) -> Iterator[None]:
    items = request.session.items
    if all(any(folder in item.path.parents for folder in WITHOUT_PORTAL) for item in items):
        yield
        return
    from cluster.client import ClusterClient

    original = ClusterClient._request

    def checked(self, *args, **kwargs):
        from django.db import connection

        # The test's own wrapping transaction is not the code's.
        opened = [block for block in connection.atomic_blocks if not block._from_testcase]
        if opened:
            raise ClusterCallInTransactionError(f"cluster call {args} {kwargs} inside transaction.atomic()")
        return original(self, *args, **kwargs)

    patch = pytest.MonkeyPatch()
    patch.setattr(ClusterClient, "_request", checked)
    yield
    patch.undo()


# --- clusters on this machine


@pytest.fixture(scope="session")
def devcluster(tmp_path_factory) -> Iterator[str]:
    """A kubeconfig: devcluster whose kubelet is a clock (pods end by their `BED_*` environment)."""
    with _devcluster(tmp_path_factory.mktemp("devcluster"), kubelet="clock") as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def process_cluster(tmp_path_factory) -> Iterator[str]:
    """A kubeconfig: devcluster whose kubelet runs the commands of pods as processes."""
    with _devcluster(tmp_path_factory.mktemp("devcluster"), kubelet="process") as kubeconfig:
        yield kubeconfig


@contextmanager
def _devcluster(folder: Path, *, kubelet: str) -> Iterator[str]:
    kubeconfig = folder / "kubeconfig"
    arguments = ["--kubeconfig", str(kubeconfig), "--nodes", str(ROOT / "devcluster" / "nodes.yaml")]
    arguments += ["--data", str(folder / "data"), "--port", "0", "--kubelet", kubelet, "--die-with-parent"]
    # What takes a cluster a quarter of a minute would only keep the tests waiting.
    arguments += ["--autoscaler-interval", "0.5"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "devcluster", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(
            lambda: kubeconfig.exists() or process.poll() is not None,
            START_SECONDS,
            "devcluster's kubeconfig",
        )
        assert process.poll() is None, (folder / "log").read_text()
        yield str(kubeconfig)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
