from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings import env, stores
from portal.settings.env import Bind, load
from tests.tables import each_row


def test_everything_is_embedded_on_loopback_when_nothing_is_given():
    environment = load({})
    assert environment.database is None
    assert environment.redis_url is None
    assert environment.kubeconfig is None
    assert str(environment.bind) == "127.0.0.1:8000"
    assert str(environment.live_bind) == "127.0.0.1:8001"
    assert not environment.bind_given
    assert environment.exposed_binds() == {}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("PORTAL_DATABASE", "PORTAL_DATABASE_URL"), ("PORTAL_ALOWED_HOSTS", "PORTAL_ALLOWED_HOSTS")],
)
def test_unknown_variable_is_refused_with_the_nearest_known_name(name, nearest):
    with pytest.raises(ImproperlyConfigured, match=f"^{name} is not a variable .* {nearest}$"):
        load({name: "x"})


def test_variables_of_the_tests_and_of_other_programs_are_left_alone():
    assert load({"PORTAL_TEST_CHROMIUM": "/x", "HOME": "/root"}) == load({})


SERVICE_OF_THE_PORTAL = {
    "PORTAL_WEB_SERVICE_HOST": "10.96.3.1",
    "PORTAL_WEB_SERVICE_PORT": "8000",
    "PORTAL_WEB_SERVICE_PORT_HTTP": "8000",
    "PORTAL_WEB_PORT": "tcp://10.96.3.1:8000",
    "PORTAL_WEB_PORT_8000_TCP": "tcp://10.96.3.1:8000",
    "PORTAL_WEB_PORT_8000_TCP_PROTO": "tcp",
    "PORTAL_WEB_PORT_8000_TCP_PORT": "8000",
    "PORTAL_WEB_PORT_8000_TCP_ADDR": "10.96.3.1",
}


@pytest.mark.parametrize("service", ["PORTAL_WEB", "PORTAL", "PORTAL_LIVE", "PORTAL_LIVE_2"])
def test_what_kubernetes_says_of_a_service_named_like_the_portal_is_left_alone(service):
    said = {name.replace("PORTAL_WEB", service): text for name, text in SERVICE_OF_THE_PORTAL.items()}
    assert load({**said, "PORTAL_BIND": "127.0.0.1:80"}) == load({"PORTAL_BIND": "127.0.0.1:80"})


@pytest.mark.parametrize("name", ["PORTAL_WEB_PORT", "PORTAL_WEB_SERVICE_HOST", "PORTAL_BIND_PORT"])
def test_a_name_like_that_without_a_service_is_a_mistake(name):
    with pytest.raises(ImproperlyConfigured, match=f"^{name} is not a variable"):
        load({name: "tcp://10.96.3.1:8000"})


def test_a_service_excuses_no_other_name():
    with pytest.raises(ImproperlyConfigured, match=r"^PORTAL_WEB_URL is not a variable"):
        load({**SERVICE_OF_THE_PORTAL, "PORTAL_WEB_URL": "http://web"})


def test_trusted_proxies_are_addresses_and_networks():
    given = load({"PORTAL_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1,fd00::/8"}).trusted_proxies
    assert [str(each) for each in given] == ["10.0.0.0/8", "192.0.2.1/32", "fd00::/8"]
    assert load({}).trusted_proxies == ()


def test_empty_variable_counts_as_not_given():
    assert load({"PORTAL_REDIS_URL": " "}).redis_url is None


@each_row(
    ("name", "value"),
    [
        ("PORTAL_BIND", "8000"),
        ("PORTAL_BIND", "localhost:http"),
        ("PORTAL_BIND", "127.0.0.1:65536"),
        ("PORTAL_BIND", "::1:8000"),
        ("PORTAL_LIVE_BIND", "fd://x"),
        ("PORTAL_SECRET_KEY", "short"),
        ("PORTAL_DATABASE_URL", "mysql://u:p@h/n"),
        ("PORTAL_DATABASE_URL", "postgresql://u:p@h:port/n"),
        ("PORTAL_DATABASE_URL", "postgresql://u:p@h"),
        ("PORTAL_REDIS_URL", "localhost:6379"),
        ("PORTAL_KUBECONFIG", "/nowhere/at/all"),
        ("PORTAL_ALLOWED_HOSTS", "*"),
        ("PORTAL_ALLOWED_HOSTS", "https://portal.example.org"),
        ("PORTAL_PUBLIC_URL", "portal.example.org"),
        ("PORTAL_PUBLIC_URL", "https://portal.example.org/path"),
        ("PORTAL_LIVE_URL", "ftp://live.example.org"),
        ("PORTAL_INTERNAL_URL", "http://user:pw@web"),
        ("PORTAL_PROMETHEUS_URL", "prometheus:9090"),
        ("PORTAL_DATA_DIR", "/etc/hostname"),
        ("PORTAL_TRUSTED_PROXIES", "proxy.example.org"),
        ("PORTAL_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("PORTAL_TRUSTED_PROXIES", "10.0.0.0/8, 0.0.0.0/0"),
    ],
)
def test_malformed_value_names_its_variable(name, value):
    with pytest.raises(ImproperlyConfigured, match=f"^{name} must "):
        load({name: value})


@pytest.mark.parametrize("name", ["PORTAL_DATABASE_URL", "PORTAL_REDIS_URL", "PORTAL_SECRET_KEY"])
def test_error_about_a_secret_does_not_show_it(name):
    with pytest.raises(ImproperlyConfigured) as caught:
        load({name: "nonsense://hunter2"})
    assert "hunter2" not in str(caught.value)


def test_database_url_is_read_with_escapes_options_and_socket_folder():
    address = load({"PORTAL_DATABASE_URL": "postgres://al%40ice:p%2Fw@db:5433/ml?sslmode=require"}).database
    assert (address.host, address.port, address.name) == ("db", 5433, "ml")
    assert (address.user, address.password) == ("al@ice", "p/w")
    assert dict(address.options) == {"sslmode": "require"}
    assert load({"PORTAL_DATABASE_URL": "postgresql:///ml?host=/run/pg"}).database.host == "/run/pg"


def test_secret_comes_from_the_file_that_is_named(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("k" * 50 + "\n")
    assert load({"PORTAL_SECRET_KEY_FILE": str(secret)}).secret_key == "k" * 50


def test_secret_given_twice_unreadable_or_empty_is_refused(tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    for variables, message in [
        ({"PORTAL_SECRET_KEY": "k" * 50, "PORTAL_SECRET_KEY_FILE": str(empty)}, "both set"),
        ({"PORTAL_SECRET_KEY_FILE": str(empty)}, "is empty"),
        ({"PORTAL_REDIS_URL_FILE": str(tmp_path / "none")}, "cannot be read"),
    ]:
        with pytest.raises(ImproperlyConfigured, match=message):
            load(variables)


def test_only_secrets_may_come_from_a_file():
    with pytest.raises(ImproperlyConfigured, match=r"^PORTAL_BIND_FILE is not a variable"):
        load({"PORTAL_BIND_FILE": "/x"})


@pytest.mark.parametrize("text", ["0.0.0.0:8000", "[::]:8000", "portal.example.org:80"])
def test_exposed_bind_is_refused_while_the_cluster_is_embedded(text):
    environment = load({"PORTAL_BIND": text})
    assert list(environment.exposed_binds()) == ["PORTAL_BIND"]
    assert load({"PORTAL_BIND": text, "PORTAL_KUBECONFIG": "in-cluster"}).exposed_binds() == {}


@pytest.mark.parametrize("text", ["127.0.0.1:0", "127.9.9.9:80", "[::1]:8000", "localhost:8000", "fd://3"])
def test_loopback_bind_is_allowed_and_written_back_as_it_was(text):
    bind = env.parse_bind(text)
    assert bind.loopback
    assert str(bind) == text


def test_name_that_only_begins_like_loopback_is_exposed():
    assert not Bind(host="127.0.0.1.example.org", port=80).loopback


def test_celery_writes_the_unix_socket_in_its_own_way():
    assert stores.broker_url("unix:///run/v.sock?db=3") == "redis+socket:///run/v.sock?virtual_host=3"
    assert stores.broker_url("rediss://h:1/0") == "rediss://h:1/0"
