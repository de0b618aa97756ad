"""What GitOps would apply: all of the file or none of it, and a second time nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml
from django.apps import apps
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costs.models import Price
from foundation.models import PlatformSettings
from jobs.models import RunTemplate
from jobs.serializers import TrainingRunSerializer
from portal.bootstrap import BootstrapError, load
from quotas.models import Quota
from teams.models import ApiToken, Membership, Team, User
from tests.effort import spread
from workloads.models import ResourceFlavor

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 10, 1, tzinfo=UTC)
DEMO = Path(__file__).resolve().parents[2] / "demo" / "portal.yaml"
SECRETS = ("ROOT_PASSWORD", "QM_PASSWORD", "ANA_PASSWORD", "BO_PASSWORD")

FILE = {
    "settings": {"grace_seconds": 5},
    "teams": [{"slug": "vision", "name": "Vision"}],
    "users": [{"username": "ana"}, {"username": "qm", "roles": ["quota-manager"]}],
    "memberships": [{"team": "vision", "user": "ana", "role": "member"}],
    "flavors": [
        {
            "name": "a100",
            "card": "a100",
            "gpu_fraction": "1/7",
            "sharing": "mig",
            "resource": "nvidia.com/mig-1g.10gb",
            "capacity": {"on-demand": {}},
        }
    ],
    "quotas": [{"team": "vision", "flavor": "a100", "nominal": 8}],
    "prices": [{"card": "a100", "micro_usd_per_card_hour": 2_744_705, "from": "2026-01-01T00:00:00Z"}],
    "templates": [
        {"name": "small", "title": "Small", "defaults": {"flavor": "a100"}, "maximum": {"replicas": 1}}
    ],
}


def text(**sections):
    return yaml.safe_dump({**FILE, **sections})


def everything():
    """Every row of the portal's own tables."""
    own = [model for model in apps.get_models() if model.__module__.split(".")[0] in OWN]
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in own}


OWN = {"foundation", "teams", "workloads", "quotas", "budgets", "costs", "jobs"}


@pytest.fixture
def demo_environment(monkeypatch):
    from teams.tokens import new_token

    for name in SECRETS:
        monkeypatch.setenv(f"DEMO_{name}", f"password of {name} 4711")
    monkeypatch.setenv("DEMO_ANA_TOKEN", new_token())


def test_a_file_becomes_rows():
    report = load(text(), now=NOW)
    assert PlatformSettings.current().grace_seconds == 5
    assert Team.objects.get().name == "Vision"
    assert User.objects.get(username="qm").is_quota_manager
    assert Membership.objects.get().role == "member"
    flavor = ResourceFlavor.objects.get()
    assert (flavor.fraction_numerator, flavor.fraction_denominator) == (1, 7)
    assert Quota.objects.get().nominal == 8
    assert Price.objects.get().micro_usd_per_card_hour == 2_744_705
    assert report.unchanged == {}
    assert report.changed == {section: len(FILE[section]) for section in FILE}


def test_a_second_run_changes_nothing_at_all():
    load(text(), now=NOW)
    before = everything()
    report = load(text(), now=NOW + timedelta(days=1))
    assert report.changed == {}
    assert report.unchanged == {section: len(FILE[section]) for section in FILE}
    assert everything() == before


@pytest.mark.parametrize(
    ("section", "change", "counted"),
    [
        ("settings", {"grace_seconds": 6}, 1),
        ("settings", {"open_sweeps": None, "team_log_gib": 0, "open_workloads": 50_000, "dcgm_job": "dcgm-exporter"}, 1),
        ("teams", [{"slug": "vision", "name": "Sight"}], 1),
        ("users", [{"username": "ana", "roles": ["platform-admin"]}, FILE["users"][1]], 1),
        ("memberships", [{"team": "vision", "user": "ana", "role": "lead"}], 1),
        ("flavors", [{**FILE["flavors"][0], "memory_gib": 80}], 1),
        ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 4}], 1),
        ("templates", [{**FILE["templates"][0], "locked": ["flavor"]}], 1),
        ("prices", [*FILE["prices"], {**FILE["prices"][0], "micro_usd_per_card_hour": 3, "from": "2027-01-01T00:00:00Z"}], 1),
    ],
)  # fmt: skip
def test_a_changed_file_changes_what_it_names(section, change, counted):
    load(text(), now=NOW)
    report = load(text(**{section: change}), now=NOW + timedelta(days=1))
    assert report.changed == {section: counted}


BAD = [
    ("teams", [{"slug": "Not A Slug"}], "slug"),
    ("teams", [{"slug": "x" * 200}], "slug"),
    ("teams", [{"name": "x"}], "slug"),
    ("teams", [{"slug": "x", "colour": "red"}], "colour"),
    ("teams", [{"slug": "x", "pod_security": "none"}], "pod_security"),
    ("teams", [{"slug": "x", "name": "y" * 500}], "name"),
    ("teams", ["vision"], "teams[0]"),
    ("teams", {"slug": "x"}, "teams"),
    ("teams", "vision", "teams"),
    ("teams", 5, "teams"),
    ("users", [{"username": ""}], "username"),
    ("users", [{"username": "u" * 500}], "username"),
    ("users", [{"username": "x", "roles": ["king"]}], "roles"),
    ("users", [{"username": "x", "password_env": "DEMO_NOT_THERE"}], "DEMO_NOT_THERE"),
    ("memberships", [{"team": "nope", "user": "ana", "role": "member"}], "nope"),
    ("memberships", [{"team": "vision", "user": "nope", "role": "member"}], "nope"),
    ("memberships", [{"team": "vision", "user": "ana", "role": "boss"}], "role"),
    ("tokens", [{"user": "ana", "name": "x", "token_env": "DEMO_NOT_THERE", "scopes": ["read"]}], "DEMO_NOT_THERE"),
    ("tokens", [{"user": "ana", "name": "x", "token_env": "PATH", "scopes": ["fly"]}], "scopes"),
    ("flavors", [{"name": "x", "card": "x"}], "capacity"),
    ("flavors", [{"name": "x", "card": "x", "capacity": {"reserved": {}}}], "capacity"),
    ("flavors", [{"name": "x", "card": "x", "capacity": {"spot": {}}, "gpu_fraction": "2"}], "gpu_fraction"),
    ("flavors", [{"name": "x", "card": "x", "capacity": {"spot": {}}, "gpu_fraction": "nan"}], "gpu_fraction"),
    ("flavors", [{"name": "X", "card": "x", "capacity": {"spot": {}}}], "name"),
    ("flavors", [{"name": "x", "card": "x", "capacity": {"spot": {}}, "sharing": "some"}], "sharing"),
    ("quotas", [{"team": "vision", "flavor": "a100", "nominal": -1}], "nominal"),
    ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 10**12}], "nominal"),
    ("quotas", [{"team": "vision", "flavor": "a100"}], "nominal"),
    ("quotas", [{"team": "vision", "flavor": "nope", "nominal": 1}], "nope"),
    ("prices", [{"card": "x", "micro_usd_per_card_hour": -1, "from": "2026-01-01T00:00:00Z"}], "micro_usd_per_card_hour"),
    ("prices", [{"card": "x", "micro_usd_per_card_hour": 10**30, "from": "2026-01-01T00:00:00Z"}], "micro_usd_per_card_hour"),
    ("prices", [{"card": "x", "micro_usd_per_card_hour": 1}], "from"),
    ("prices", [{"card": "x", "micro_usd_per_card_hour": 1, "from": "yesterday"}], "from"),
    ("settings", {"grace_seconds": 0}, "settings.grace_seconds"),
    ("settings", {"grace_seconds": True}, "settings.grace_seconds"),
    ("settings", {"grace_seconds": "5"}, "settings.grace_seconds"),
    ("settings", {"grace_seconds": 10**12}, "settings.grace_seconds"),
    ("settings", {"minimum_run_seconds": -1}, "settings.minimum_run_seconds"),
    ("settings", {"fair_share_half_life_hours": 0}, "settings.fair_share_half_life_hours"),
    ("settings", {"spot_fallback_seconds": 0}, "settings.spot_fallback_seconds"),
    ("settings", {"optional_kinds": ["pytorchjob", "mxjob"]}, "settings.optional_kinds"),
    ("settings", {"pk": 7}, "settings.pk"),
    ("settings", {"open_sweeps": -1}, "settings.open_sweeps"),
    ("settings", {"dcgm_job": "a b"}, "settings.dcgm_job"),
    ("settings", [], "settings"),
    ("settings", 5, "settings"),
    ("budgets", [{"team": "vision"}], "amount_usd"),
    ("budgets", [{"team": "vision", "amount_usd": "5", "currency": "EUR"}], "currency"),
    ("templates", [{"name": "x"}], "title"),
    ("templates", [{"name": "x", "title": "X", "defaults": {"image": "UPPER"}}], "templates[0].defaults.image"),
    ("templates", [{"name": "x", "title": "X", "defaults": {"flavor": "nope"}}], "templates[0].defaults.flavor"),
    ("templates", [{"name": "x", "title": "X", "locked": ["image"]}], "templates[0].locked.0"),
    ("rooms", [], "rooms"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "value", "says"), spread(BAD, usual=18))
def test_a_wrong_file_is_refused_by_name_and_nothing_of_it_is_done(section, value, says):
    before = everything()
    last = {"flavors": FILE["flavors"], section: value}
    with pytest.raises(BootstrapError) as refused:
        load(text(**last), now=NOW)
    message = str(refused.value)
    assert section in message, message
    assert says in message, message
    assert everything() == before


@pytest.mark.parametrize(
    "content",
    [
        "[1, 2]",
        "teams: [",
        "just text",
        "a: &x [1]\nb: *x",
        "teams: !!python/object:os.system {}",
        "#" * (2**20 + 1),
        "\0",
    ],
)
def test_what_is_no_mapping_of_sections_is_refused(content):
    with pytest.raises(BootstrapError):
        load(content, now=NOW)


@pytest.mark.parametrize("content", ["", "{}", "teams:", "cohorts: []", "# nothing"])
def test_an_empty_file_does_nothing(content):
    before = everything()
    assert load(content, now=NOW).changed == {}
    assert everything() == before


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=5,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(FILE)), json)
def test_whatever_stands_in_a_section_the_file_is_loaded_or_refused_in_words(section, value):
    refused = ""
    try:
        load(yaml.safe_dump({section: value}), now=NOW)
    except BootstrapError as error:
        refused = str(error)
    assert not refused or section in refused


def test_the_demos_file_loads_twice(demo_environment):
    content = DEMO.read_text()
    report = load(content, now=NOW)
    assert report.changed["users"] == 4
    assert ApiToken.objects.count() == 1
    assert User.objects.get(username="ana").check_password("password of ANA_PASSWORD 4711")
    before = everything()
    assert load(content, now=NOW + timedelta(hours=1)).changed == {}
    assert everything() == before


def test_no_secret_of_the_environment_is_ever_kept_or_said(demo_environment, capsys):
    import os

    call_command("bootstrap", str(DEMO))
    said = capsys.readouterr().out
    kept = repr(everything())
    for name in (*SECRETS, "ANA_TOKEN"):
        secret = os.environ[f"DEMO_{name}"]  # noqa: TID251
        assert secret not in kept
        assert secret not in said
    assert "users: 4 changed, 0 unchanged" in said


def test_a_changed_password_is_taken_over(demo_environment, monkeypatch):
    load(DEMO.read_text(), now=NOW)
    monkeypatch.setenv("DEMO_ANA_PASSWORD", "another one 4711")
    assert load(DEMO.read_text(), now=NOW + timedelta(hours=1)).changed == {"users": 1}
    assert User.objects.get(username="ana").check_password("another one 4711")


@pytest.mark.parametrize(
    "make",
    [lambda path: None, lambda path: path.write_bytes(b"\xff\xfe"), lambda path: path.write_text("rooms: 1")],
)
def test_the_command_ends_with_a_sentence(tmp_path, make):
    path = tmp_path / "portal.yaml"
    make(path)
    with pytest.raises(CommandError, match=r"portal\.yaml"):
        call_command("bootstrap", str(path))


# --- templates that are shipped

TEMPLATES = DEMO.parents[1] / "deploy" / "run-templates.yaml"


def test_the_shipped_templates_are_loaded_for_every_flavor(demo_environment):
    call_command("bootstrap", str(DEMO), str(TEMPLATES))
    smoke = RunTemplate.objects.filter(name__startswith="smoke-")
    assert {each.name for each in smoke} == {
        f"smoke-{flavor.name}" for flavor in ResourceFlavor.objects.all()
    }
    assert {each.defaults["flavor"] for each in smoke} == {
        flavor.name for flavor in ResourceFlavor.objects.all()
    }
    shared = smoke.get(name="smoke-t4-shared")
    assert shared.maximum["gpus_per_replica"] == 1
    before = list(RunTemplate.objects.values())
    assert load(TEMPLATES.read_text(), now=NOW + timedelta(days=1)).changed == {}
    assert list(RunTemplate.objects.values()) == before


@pytest.mark.parametrize(
    "brought", [{"flavor": "a100-40gb"}, {"flavor": "a100-40gb", "checkpoint": {"claim": "ckpt"}}]
)
def test_a_request_by_a_shipped_template_is_complete_but_for_what_it_asks_of_the_user(
    demo_environment, brought
):
    call_command("bootstrap", str(DEMO), str(TEMPLATES))
    for template in RunTemplate.objects.all():
        body = {"team": "vision", "name": "a", "template": template.name, **brought}
        if "image" not in template.defaults:
            body["image"] = "python:3.12"
        if "flavor" in template.locked:
            del body["flavor"]
        wants_claim = "checkpoint" in template.defaults and "checkpoint" not in brought
        if "checkpoint" in brought and "checkpoint" not in template.defaults:
            del body["checkpoint"]
        request = TrainingRunSerializer(data=body)
        assert request.is_valid() is not wants_claim, (template.name, request.errors)
        assert not wants_claim or set(request.errors) == {"checkpoint.path"}


def test_the_smoke_test_fails_where_there_is_no_card(demo_environment, tmp_path):
    call_command("bootstrap", str(DEMO), str(TEMPLATES))
    defaults = RunTemplate.objects.get(name="smoke-t4").defaults
    script = tmp_path / "smoke.py"
    script.write_text(defaults["source"]["files"]["smoke.py"])
    run = partial(
        subprocess.run,
        [sys.executable, str(script)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    ended = run()
    assert ended.returncode == 1
    assert "There is no nvidia-smi in this container" in ended.stderr
    (tmp_path / "nvidia-smi").symlink_to(shutil.which("true"))
    assert run().returncode == 1, "a driver is no card yet"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"name": "x" * 80, "title": "X", "each_flavor": True}, "templates[0].name"),
        ({"name": "x", "title": "X", "each_flavor": "yes"}, "templates[0].each_flavor"),
        ({"name": "x", "title": "X", "each_flavor": True, "defaults": {"gpus_per_replica": 2}}, "templates[0].defaults.gpus_per_replica"),
    ],
)  # fmt: skip
def test_a_template_for_each_flavor_is_checked_for_each(item, said):
    with pytest.raises(BootstrapError) as caught:
        load(text(templates=[item]), now=NOW)
    assert said in str(caught.value)
