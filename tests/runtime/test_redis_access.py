"""Who reaches Redis: by a password, as a user who may do what the portal does, over TLS with a certificate that is checked."""

from __future__ import annotations

import pytest
import redis
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from kombu import Connection
from kombu.exceptions import OperationalError

from foundation.http import health
from portal.celery import app
from portal.settings import env, stores
from teams import throttle
from tests.journeys.running import RunningPortal
from tests.journeys.test_ci_job import Job
from tests.runtime.guarded_valkey import guarded, tls_to, write_secrets


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    return write_secrets(tmp_path_factory.mktemp("given") / "secrets")


@pytest.fixture(scope="module")
def server(secrets, tmp_path_factory):
    with guarded(secrets, tmp_path_factory.mktemp("valkey")) as path:
        yield path


@pytest.fixture(scope="module")
def port(server, secrets):
    with tls_to(server, secrets) as port:
        yield port


def given_url(secrets, port: int) -> str:
    """What deploy/secrets.sh wrote, as it is from here."""
    text = (secrets / "redis_url").read_text().strip()
    return text.replace("valkey:6379", f"localhost:{port}").replace("/run/secrets", str(secrets))


def read(url: str) -> str:
    """The address as the settings read it."""
    url = env.load({"PORTAL_REDIS_URL": url}).redis_url
    assert url is not None
    return url


@pytest.fixture
def address(secrets, port, settings):
    """The portal's settings are those for that server."""
    url = read(given_url(secrets, port))
    settings.REDIS_URL = url
    settings.CACHES = {"default": stores.cache(url)}
    return url


def ping(url: str) -> bool:
    """As the broker's connections do it."""
    with Connection(stores.broker_url(url), transport_options={"socket_connect_timeout": 5}) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)
        return bool(connection.default_channel.client.ping())


def test_the_portal_does_all_it_does_with_the_rights_of_its_user(address, server, secrets):
    cache.set("a", {"b": 1})
    assert cache.get("a") == {"b": 1}
    assert cache.add("n", 1, 60)
    assert cache.incr("n") == 2
    assert cache.touch("n", 30)
    cache.set_many({"c": 1, "d": 2})
    assert cache.get_many(["c", "d"]) == {"c": 1, "d": 2}
    cache.delete_many(["c", "d"])
    throttle.count_attempt(username="ana", ip="192.0.2.1").succeeded()
    assert health.check_broker() is None
    with Connection(stores.broker_url(address)) as connection, app.amqp.Producer(connection) as producer:
        app.send_task("foundation.tick", producer=producer, queue="a-queue", priority=9)
        queue = connection.SimpleQueue("a-queue")
        message = queue.get(timeout=30)
        assert message.headers["task"] == "foundation.tick"
        message.ack()
        queue.close()
        assert connection.default_channel.client.info("server")["server_name"] == "valkey"


def test_who_has_no_password_may_ask_whether_it_is_up_and_nothing_else(server):
    with redis.Redis(unix_socket_path=str(server)) as client:
        assert client.ping()
        for command in (
            ["GET", "a"],
            ["LPUSH", "celery", "{}"],
            ["INFO"],
            ["CONFIG", "GET", "*"],
            ["PUBLISH", "a", "b"],
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)


@pytest.mark.parametrize(
    "command",
    [
        ["FLUSHALL"],
        ["CONFIG", "GET", "*"],
        ["KEYS", "*"],
        ["ACL", "LIST"],
        ["SHUTDOWN"],
        ["REPLICAOF", "NO", "ONE"],
    ],
)
def test_the_portals_own_user_may_neither_empty_nor_stop_nor_change_the_server(address, command):
    with redis.Redis.from_url(address) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_a_wrong_password_is_refused(secrets, port):
    url = read(given_url(secrets, port).replace("portal:", "portal:x"))
    with redis.Redis.from_url(url) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_a_server_with_another_certificate_is_not_spoken_to(server, secrets, tmp_path):
    """Celery's connections took any certificate where the address did not say that it is checked."""
    other = write_secrets(tmp_path / "others")
    with tls_to(server, other) as port:
        trusted = given_url(secrets, port)
        for url in (trusted, trusted.split("?")[0]):
            with pytest.raises(OperationalError, match="certificate verify failed"):
                ping(read(url))
            with (
                redis.Redis.from_url(read(url)) as client,
                pytest.raises(redis.ConnectionError, match="certificate"),
            ):
                client.ping()
        # It is the certificate alone that was wrong.
        assert ping(read(trusted.replace(str(secrets), str(other))))


def test_a_certificate_for_another_name_is_not_taken(secrets, port):
    url = read(given_url(secrets, port).replace("localhost", "127.0.0.1"))
    with pytest.raises(OperationalError, match="certificate"):
        ping(url)


def test_a_password_goes_to_celery_over_a_unix_socket_too(server, secrets):
    password = (secrets / "redis_url").read_text().split(":")[2].split("@")[0]
    assert ping(f"unix://portal:{password}@{server}?db=1")
    assert stores.broker_url("unix:///run/v.sock") == "redis+socket:///run/v.sock?virtual_host=0"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rediss://h/0?ssl_cert_reqs=none", "ssl_cert_reqs"),
        ("rediss://h/0?ssl_check_hostname=false", "ssl_check_hostname"),
        ("rediss://h/0?ssl_ca_certs=/none", "ssl_ca_certs"),
        ("redis://h/0?ssl_ca_certs=/none", "ssl_ca_certs"),
        ("redis://h/0?db=3", "db"),
        ("redis://h:port/0", "must be redis"),
    ],
)
def test_an_address_that_would_not_do_what_it_says_is_refused_without_showing_it(url, said):
    with pytest.raises(ImproperlyConfigured, match=said) as refused:
        read(url.replace("//h", "//portal:a-password@h"))
    assert "a-password" not in str(refused.value)


@pytest.mark.processes
def test_a_whole_portal_works_with_the_rights_of_its_user_over_tls(secrets, port, tmp_path):
    url = given_url(secrets, port)
    with redis.Redis.from_url(read(url)) as client:
        refused_before = client.info("errorstats").get("errorstat_NOPERM")
        running = RunningPortal(tmp_path / "data", PORTAL_REDIS_URL=url)
        try:
            running.until_started()
            code, output, errors = Job(tmp_path, running, "4711").run()
        finally:
            running.stop()
        assert code == 0, output + errors
        assert client.info("commandstats")["cmdstat_brpop"]["calls"] > 0
        assert client.info("errorstats").get("errorstat_NOPERM") == refused_before


def test_secrets_that_are_there_stay(secrets, tmp_path):
    folder = write_secrets(tmp_path / "secrets")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    (folder / "secret_key").write_text("mine" * 20)
    write_secrets(folder)
    after = {path.name: path.read_text() for path in folder.iterdir()}
    assert after == before | {"secret_key": "mine" * 20}
    assert folder.stat().st_mode & 0o777 == 0o700
