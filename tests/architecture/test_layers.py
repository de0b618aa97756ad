"""The contracts hold, and each of them would notice: one violation of every kind is planted in a copy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from django.apps import apps

from tests.architecture.sources import LINTER, PACKAGES, ROOT, layer_order
from tests.tables import each_row

LINT = Path(sys.executable).parent / "lint-imports"

# Contract, the module that gets a line, the line.
VIOLATIONS = {
    "an import upwards": ("layers", "workloads/services.py", "import controller.wakeups"),
    "a sibling": ("layers", "jobs/services.py", "import inference.models"),
    "the policy asks for rows": ("layers", "policy/judge.py", "import quotas.models"),
    "a page from below": ("layers", "controller/services.py", "import console.pages.card"),
    "for typing alone": (
        "layers",
        "costs/queries.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jobs.models",
    ),
    "inside a function": ("layers", "teams/services.py", "def _late():\n    import workloads.models"),
    "a model in cluster": ("cluster-knows-nobody", "cluster/labels.py", "import teams.models"),
    "the cluster in quotas": ("cluster-is-for-the-upper-half", "quotas/services.py", "import cluster.labels"),
    "a kind calls the cluster": ("cluster-calls", "jobs/adapter.py", "import cluster.client"),
    "somebody else watches": ("cluster-watch", "controller/reconcile/observe.py", "import cluster.watch"),
    "somebody else proxies": ("cluster-proxy", "controller/reconcile/objects.py", "import cluster.proxy"),
    "kubernetes elsewhere": ("kubernetes-client", "controller/reconcile/objects.py", "import kubernetes"),
    "devcluster imports us": ("devcluster-imports-none", "devcluster/http.py", "import foundation.clock"),
    "we import devcluster": ("nobody-imports-devcluster", "demo/start.py", "import devcluster.http"),
    "REST below views": ("no-http-below-views", "costs/queries.py", "import rest_framework"),
    "REST below views, deeper": (
        "no-http-below-views",
        "inference/revisions/services.py",
        "import rest_framework",
    ),
    "REST in controller": (
        "no-http-in-controller",
        "controller/waiting_card.py",
        "import rest_framework.views",
    ),
    "Django in a pure module": ("pure-modules", "policy/judge.py", "import django.utils"),
    "rows behind a pure module": (
        "pure-modules",
        "controller/reconcile/decide.py",
        "import workloads.models",
    ),
    "upwards in demo": ("order-in-demo", "demo/client.py", "import demo.steps"),
    "upwards in portal": ("order-in-portal", "portal/settings/env.py", "import portal.runtime.up"),
    "upwards in portal.flavors": (
        "order-in-portal-flavors",
        "portal/flavors/proposals.py",
        "import portal.flavors.forms",
    ),
    "upwards in pages": ("order-in-pages", "pages/context.py", "import pages.home"),
    "upwards in jobs": ("order-in-jobs", "jobs/specs.py", "import jobs.models"),
    "upwards in inference": ("order-in-inference", "inference/scaling_spec.py", "import inference.specs"),
    "upwards in autoscaling": (
        "order-in-autoscaling",
        "inference/autoscaling/scalers.py",
        "import inference.autoscaling.platform",
    ),
    "upwards in notices": ("order-in-notices", "notices/queries.py", "import notices.services"),
    "upwards in gateway": ("order-in-gateway", "gateway/queries.py", "import gateway.services"),
    "upwards in console": (
        "order-in-console",
        "console/api/representations.py",
        "import console.pages.words",
    ),
    "upwards in the pages": (
        "order-in-console-pages",
        "console/pages/lists.py",
        "import console.pages.detail",
    ),
    "upwards in REST": (
        "order-in-console-api",
        "console/api/representations.py",
        "import console.api.workloads",
    ),
    "telemetry asks more than Prometheus": (
        "telemetry-asks-prometheus",
        "telemetry/gpu_series.py",
        "import cluster.client",
    ),
    "upwards in telemetry": (
        "order-in-telemetry",
        "telemetry/gpu_queries.py",
        "import telemetry.gpu_series",
    ),
    "upwards in advisor": ("order-in-advisor", "advisor/demand.py", "import advisor.fitting"),
    "upwards in diagnosis": ("order-in-diagnosis", "diagnosis/evidence.py", "import diagnosis.judge"),
    "upwards in the rules": (
        "order-in-diagnosis-rules",
        "diagnosis/rules/containers.py",
        "import diagnosis.rules.ends",
    ),
    "upwards in controller": (
        "order-in-controller",
        "controller/wakeups.py",
        "import controller.reconcile.decide",
    ),
    "a module without a place": ("order-in-controller", "controller/helpers.py", ""),
    "upwards in reconcile": (
        "order-in-reconcile",
        "controller/reconcile/decide.py",
        "import controller.reconcile.act",
    ),
    "upwards in admission": (
        "order-in-admission",
        "controller/admission/surge.py",
        "import controller.admission.scheduler",
    ),
    "upwards in watch": ("order-in-watch", "controller/watch/sinks.py", "import controller.watch.watcher"),
    "upwards in logs": ("order-in-logs", "logs/lines.py", "import logs.store"),
    "upwards in tenancy": (
        "order-in-tenancy",
        "tenancy/namespace_manifests.py",
        "import tenancy.namespaces",
    ),
    "upwards in quotas": ("order-in-quotas", "quotas/models/limits.py", "import quotas.services"),
    "upwards in quotas.api": (
        "order-in-quotas-api",
        "quotas/api/response_serializers.py",
        "import quotas.api.lookups",
    ),
    "upwards in policy": ("order-in-policy", "policy/pool_snapshot.py", "import policy.judge"),
    "upwards in budgets": ("order-in-budgets", "budgets/spending.py", "import budgets.services"),
    "upwards in costs": ("order-in-costs", "costs/pricing.py", "import costs.models"),
    "upwards in workloads": ("order-in-workloads", "workloads/podspec/specs.py", "import workloads.services"),
    "upwards in teams": ("order-in-teams", "teams/models.py", "import teams.services"),
    "upwards in teams.trail": ("order-in-teams-trail", "teams/trail/sums.py", "import teams.trail.refusals"),
    "upwards in teams.api": ("order-in-teams-api", "teams/api/scopes.py", "import teams.api.people"),
    "upwards in cluster": ("order-in-cluster", "cluster/labels.py", "import cluster.client"),
    "upwards in foundation": ("order-in-foundation", "foundation/clock.py", "import foundation.models"),
    "a cycle": ("acyclic", "gateway/live/hub.py", "import gateway.live.state"),
}

CYCLE = "a cycle"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(LINT), "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the linter says about each contract, by its id, where all violations are planted in a copy at once.

    The cycle is planted and told first, alone: the others close cycles, too.
    """
    folder = tmp_path_factory.mktemp("copy")
    copy_sources(folder)
    with_the_cycle = sections_with(folder, [CYCLE])
    contract = VIOLATIONS[CYCLE][0]
    return {**sections_with(folder, set(VIOLATIONS) - {CYCLE}), contract: with_the_cycle[contract]}


def sections_with(folder: Path, planted: Iterable[str]) -> dict[str, str]:
    for what in planted:
        _, module, line = VIOLATIONS[what]
        with (folder / module).open("a", encoding="utf-8") as source:
            source.write(f"\n{line}\n")
    result = lint(folder)
    assert result.returncode == 1, result.stdout + result.stderr
    return sections_of(result.stdout)


def copy_sources(folder: Path) -> None:
    """The packages' Python files and the contracts, to plant something in."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")


def sections_of(report: str) -> dict[str, str]:
    """The part about each broken contract; long names are wrapped, so white space does not count."""
    broken = " ".join(report.partition("Broken contracts")[2].split())
    begins = {broken.find(f"{contract['name']} -"): contract["id"] for contract in LINTER["contracts"]}
    begins.pop(-1, None)
    ordered = sorted(begins)
    return {
        begins[begin]: broken[begin:end]
        for begin, end in zip(ordered, [*ordered[1:], len(broken)], strict=True)
    }


@pytest.mark.matrix
@each_row("what", VIOLATIONS)
def test_a_planted_violation_is_noticed(told, what):
    contract, path, line = VIOLATIONS[what]
    module = path.removesuffix(".py").replace("/", ".")
    imported = line.rpartition(" ")[2].partition(".")[0]
    said = {
        CYCLE: "No cycles are allowed in gateway.live.",
        "a module without a place": f"not listed as layers: - {module} ",
    }.get(what, f"- {module} -> {imported}")
    assert said in told.get(contract, "it is kept")


def test_every_contract_has_a_planted_violation():
    assert {contract["id"] for contract in LINTER["contracts"]} == {each[0] for each in VIOLATIONS.values()}


def test_no_contract_ignores_an_import():
    assert [contract["id"] for contract in LINTER["contracts"] if contract.get("ignore_imports")] == []


def test_foreign_keys_point_downwards():
    order = layer_order()
    upwards = [
        f"{model.__name__}.{field.name} -> {field.related_model.__name__}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.is_relation and field.concrete and model._meta.app_label in order
        if order.get(field.related_model._meta.app_label, -1) > order[model._meta.app_label]
    ]
    assert upwards == []


def test_siblings_have_no_foreign_keys_to_each_other():
    order = layer_order()
    crossing = [
        f"{model.__name__}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.is_relation and field.concrete and model._meta.app_label in order
        if (target := field.related_model._meta.app_label) != model._meta.app_label
        if order.get(target) == order[model._meta.app_label]
    ]
    assert crossing == []
