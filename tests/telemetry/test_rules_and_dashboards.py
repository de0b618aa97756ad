"""Rules, dashboards and runbooks: `promtool` tries the rules, a real Prometheus every query of the dashboards."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import timedelta

import pytest
import yaml

from cluster import prometheus
from controller import measures
from foundation import clock, heartbeats
from foundation.http import metrics
from foundation.models import PlatformSettings
from portal.runtime import metrics_server
from portal.runtime.metrics_server import ProcessReport
from portal.settings.env import Bind
from quotas import services
from quotas.models import Quota, StartEstimate
from telemetry.models import IdleHold
from tests.architecture.sources import ROOT
from tests.factories.submitted import make_run
from tests.real_prometheus import PROMETHEUS, PROMTOOL, RealPrometheus, open_metrics
from tests.telemetry.gpu_bed import ENGINE, UTIL, Cards
from tests.waiting import until
from workloads.models import WatchCursor

FOLDER = ROOT / "deploy" / "prometheus"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
CASES = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="the program promtool is not installed")
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
- job_name: portal
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.mark.matrix
@with_promtool
@pytest.mark.parametrize(("command", "file"), [("check", "rules.yaml"), ("test", "rules_test.yaml")])
def test_promtool_takes_the_rules_and_their_tests(command, file):
    done = subprocess.run(
        [PROMTOOL, command, "rules", file], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_fire_and_seen_to_be_silent():
    tried = [case for test in CASES["tests"] for case in test.get("alert_rule_test", ())]
    assert {case["alertname"] for case in tried if case.get("exp_alerts")} == set(ALERTS)
    assert {case["alertname"] for case in tried if not case.get("exp_alerts")} == set(ALERTS)


def test_each_alert_has_its_runbook_and_each_runbook_its_alert():
    assert {name: rule["annotations"]["runbook"] for name, rule in ALERTS.items()} == {
        name: f"docs/runbooks/{name}.md" for name in ALERTS
    }
    there = {page.stem for page in (ROOT / "docs" / "runbooks").glob("*.md")} - {"README"}
    assert there == set(ALERTS)
    for name in ALERTS:
        text = (ROOT / "docs" / "runbooks" / f"{name}.md").read_text()
        assert [
            part for part in ("What it means", "What follows", "Look", "Do") if f"**{part}" not in text
        ] == []


@pytest.mark.django_db
def test_the_rules_about_cards_are_told_which_jobs_the_portal_believes():
    row, _ = PlatformSettings.objects.get_or_create(pk=PlatformSettings.SINGLETON_PK)
    assert b"portal_gpu_exporter_job{" not in metrics.exposition()
    row.dcgm_job = "dcgm-exporter|dcgm.second"
    row.save()
    said = [line for line in metrics.exposition().decode().splitlines() if "exporter_job{" in line]
    assert said == [
        'portal_gpu_exporter_job{name="dcgm-exporter"} 1.0',
        'portal_gpu_exporter_job{name="dcgm.second"} 1.0',
    ]


def expressions():
    """Each query of each dashboard, with All chosen in every variable."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield pytest.param(
                    re.sub(r"\$(team|flavor|node)\b", ".*", target["expr"]),
                    id=f"{path.stem}: {panel['title']}",
                )


def test_rules_and_dashboards_name_no_metric_that_nobody_serves():
    served = {family.name for family in metrics.scraped_figures()}
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    served |= set(re.findall(r"`(portal_\w+)`", page))
    texts = [(FOLDER / "rules.yaml").read_text(), *(path.read_text() for path in DASHBOARDS)]
    named = {name for text in texts for name in re.findall(r"\bportal_[a-z_0-9]+", text)}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= served


@pytest.fixture(scope="module")
def scraped(tmp_path_factory, standing_metrics):
    """The address of a Prometheus that has planted cards and scrapes the portal's listener."""
    listener = metrics_server.listen(Bind(host="127.0.0.1", port=0))
    port = listener.getsockname()[1]
    server = metrics_server.answer(listener, ProcessReport(metrics=lambda: standing_metrics))
    cards = Cards(None, tmp_path_factory.mktemp("cards"), real=True)
    cards.plant(gpu=0, minutes=20)
    cards.plant(gpu=1, minutes=20, **{UTIL: 2.0})
    cards.plant(
        gpu=2, minutes=20, labels={"GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}, **{UTIL: None, ENGINE: 0.5}
    )
    config = CONFIG.format(port=port, rules=FOLDER / "rules.yaml")
    source = RealPrometheus(cards.folder, open_metrics(cards.storage), config)
    until(lambda: ask(source.url, "rate(portal_pass_seconds_count[1m])"), said="two scrapes")
    yield source.url
    source.end()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def standing_metrics(stands):
    return stands(told).value


def told() -> bytes:
    """What the listener says of a portal in which something holds, something waits and something failed."""
    from tests.telemetry.conftest import make_world

    world, now = make_world(), clock.now()
    for name, gpus in (("held", 2), ("reserved", 3)):
        run = make_run(world.vision, world.ana, flavor=world.whole, name=name, gpus_per_replica=gpus)
        quota = Quota.objects.get(team=world.vision, flavor=world.whole)
        services.claim(workload=run, quota=quota, units=gpus, now=now)
        if name == "held":
            services.activate(workload=run, now=now)
    waiting = make_run(world.vision, world.ana, flavor=world.whole, name="waiting", gpus_per_replica=4)
    StartEstimate.objects.create(
        workload=waiting, team=world.vision, queued_at=now, made_at=now, p50=now, p90=now - timedelta(seconds=1),
        started_at=now - timedelta(seconds=2), hit=True,
    )  # fmt: skip
    WatchCursor.objects.create(kind="pods", seen_at=now)
    _, pod = world.run("idle", gpus=1)
    IdleHold.objects.create(
        pod=pod, workload=pod.workload, team=world.vision, gpu="0", utilization=0, since=now, seen_at=now
    )
    heartbeats.beat(process="worker", now=now)
    metrics.observe_request(method="GET", route="healthz", status=200, seconds=0.01)
    with measures.timed_pass():
        measures.ADMISSION_SECONDS.labels("a100", "on-demand").observe(3)
    return metrics.exposition()


def ask(url, query):
    return prometheus.query(url, query)


@pytest.mark.django_db
@pytest.mark.cluster
@pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason="there is no Prometheus on this machine")
class TestOnARealPrometheus:
    @pytest.mark.parametrize("query", list(expressions()))
    def test_every_query_of_the_dashboards_has_an_answer(self, scraped, query):
        assert ask(scraped, query), query

    def test_what_they_show_is_what_the_rows_and_the_cards_say(self, scraped):
        def value(query):
            (element,) = ask(scraped, query)
            return element.value

        assert value("sum(max by (team, flavor) (portal_gpus_held))") == 2
        assert value("sum(max by (team, flavor) (portal_gpus_reserved))") == 3
        assert value('portal_gpus_waiting{team="vision"}') >= 4
        assert value('max by (team) (portal_gpus_idle{team="vision"})') == 1
        assert value("avg(max by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL))") == 46
        assert value("max(portal_ledger_difference_micro_usd)") == 0
        until(lambda: ask(scraped, "portal:gpus_held:by_flavor"))
        assert not ask(scraped, 'ALERTS{alertstate="firing"}')
