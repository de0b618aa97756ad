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

from portal.settings import env

ROOT = Path(__file__).parents[2]
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
    }


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
    variables = {}
    for variable, text in SERVICES[name]["environment"].items():
        filled = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
        filled = str(secret) if filled.startswith("/run/secrets/") else filled
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


def test_make_help_lists_every_command():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make (\w+)", done.stdout, re.MULTILINE))
    assert {"demo", "up", "test", "check", "bench", "crash", "soak", "docs", "clean", "lock"} <= listed


def test_production_settings_pass_the_deployment_check(tmp_path):
    mine = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
    production = {
        **mine,
        "PORTAL_DATA_DIR": str(tmp_path),
        "PORTAL_SECRET_KEY": "b6TUNs1xlOe0UXlV5kC0oY4o9GqQKwq4Uy3sN1mN8Yk7rWZ2dE",
        "PORTAL_DATABASE_URL": "postgresql://portal:pw@db/portal",
        "PORTAL_REDIS_URL": "redis://valkey/0",
        "PORTAL_KUBECONFIG": "in-cluster",
        "PORTAL_PUBLIC_URL": "https://portal.example.org",
        "PORTAL_LIVE_URL": "https://live.example.org",
        "PORTAL_BIND": "0.0.0.0:8000",
    }
    check = [sys.executable, str(ROOT / "manage.py"), "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(check, cwd=ROOT, env=production, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    del production["PORTAL_SECRET_KEY"]
    done = subprocess.run(check, cwd=ROOT, env=production, capture_output=True, text=True, check=False)
    assert "portal.E002" in done.stderr
