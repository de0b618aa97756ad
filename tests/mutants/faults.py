"""The list of planted faults: drawn once by chance from the modules that matter, and found again by their symbols.

A group is drawn when it is new and then never again, so that the list stays the yardstick.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from tests.mutants.sites import Site, sites
from tests.mutants.template_sites import template_sites

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).parent / "faults.json"
SEED = 13
LATER_SEED = 31

# What is drawn of each, and where it lived when it was drawn; behind `::` a part of the symbol's name.
GROUPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "admission and policy": (10, ("controller/admission/scheduler.py", "policy/judge.py", "policy/scheduling_cycle.py",
        "policy/backfill.py", "policy/ordering.py", "policy/packing.py", "policy/node_resources.py", "policy/free_capacity.py",
        "policy/preemption.py", "policy/levers.py", "policy/verdicts.py")),
    "claims": (7, ("quotas/services.py", "quotas/counters.py", "quotas/limits.py", "quotas/snapshots.py",
        "quotas/evictions.py", "quotas/changes.py", "quotas/cohort_trees.py", "quotas/cohorts.py")),
    "reconcile and states": (9, ("controller/reconcile/reconciler.py", "controller/reconcile/decide.py",
        "controller/reconcile/act.py", "controller/reconcile/observe.py", "controller/reconcile/record.py",
        "controller/reconcile/snapshot.py", "workloads/pods/pod_ends.py", "workloads/pods/pod_status.py",
        "tenancy/resource_quotas.py",
        "workloads/states.py", "workloads/services.py")),
    "ledger": (8, ("costs/ledger/services.py", "costs/pricing.py", "costs/queries.py", "controller/reconcile/sightings.py")),
    "permissions": (7, ("teams/permissions.py", "teams/services.py", "teams/actors.py", "teams/api/scopes.py",
        "teams/api/authentication.py", "teams/credentials.py", "teams/queries.py", "teams/tokens.py",
        "teams/throttle.py")),
    "gateway": (7, ("gateway/credentials.py", "gateway/services.py", "gateway/invocations.py",
        "gateway/tickets.py", "gateway/queries.py", "gateway/live/*.py")),
    "rollouts": (6, ("inference/rollouts.py", "inference/revisions/record.py", "inference/revisions/services.py",
        "inference/revisions/guard.py", "inference/changes.py", "inference/scaling_spec.py", "controller/admission/surge.py")),
    "watcher": (6, ("controller/watch/watcher.py", "controller/watch/pods.py", "controller/watch/objects.py",
        "controller/watch/capacity.py", "controller/watch/volume_claims.py", "controller/watch/sinks.py",
        "controller/wakeups.py", "controller/reconcile/lifetimes.py", "workloads/observations.py")),
}  # fmt: skip
LATER_GROUPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "who may": (4, ("teams/permissions.py", "teams/api/*.py", "tenancy/access.py", "pages/endpoints/access.py",
        "gateway/live/callers.py", "gateway/live/audience.py")),
    "serializers": (6, ("*/*serializers.py", "*/*/*serializers.py")),
    "templates": (8, ("templates/**/*.html",)),
    "budgets": (4, ("budgets/*.py", "costs/models/budgets.py")),
    "ledger and reports": (3, ("costs/ledger/*.py", "costs/reports/*.py", "costs/prices/*.py")),
    "notices": (4, ("notices/*.py",)),
    "diagnosis": (4, ("diagnosis/*.py", "diagnosis/rules/*.py")),
    "sweeps": (3, ("jobs/sweeps/*.py", "jobs/early_stop.py", "jobs/matrix.py")),
    "logs": (2, ("logs/*.py",)),
    "headers": (2, ("gateway/*.py::header", "gateway/live/*.py::header", "cluster/proxy.py::header")),
}  # fmt: skip
# Admin pages are tables that Django draws; what a fault there shows, few read.
NOT_DRAWN = ("admin", "urls.py", "apps.py", "metrics.py", "unfold", "__init__.py")


@dataclass(frozen=True)
class Fault:
    """One of the list; the module is where it was when it was drawn."""

    number: int
    group: str
    module: str
    symbol: str
    kind: str
    before: str
    after: str
    occurrence: int

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.symbol, self.kind, self.before, self.after, self.occurrence


class LostError(LookupError):
    """The code that the fault was planted in is no longer there, or is there twice."""


def draw(seed: int = SEED, groups: Mapping[str, tuple[int, tuple[str, ...]]] = GROUPS) -> list[Fault]:
    """As many of each group as it says, by turns of each kind that it has."""
    # The same seed gives the same list, which is the whole purpose.
    chance = random.Random(seed)
    found = []
    for group, (count, patterns) in groups.items():
        found += [(group, *each) for each in islice(_by_turns(_all(patterns), chance), count)]
    return [Fault(number, group, module, *site.key) for number, (group, module, site) in enumerate(found, 1)]


def with_new_groups(there: list[Fault]) -> list[Fault]:
    """The list and, behind it, what is drawn of the groups that it has nothing of."""
    known, drawn = {fault.group for fault in there}, {fault.key for fault in there}
    faults = list(there)
    for seed, groups in ((SEED, GROUPS), (LATER_SEED, LATER_GROUPS)):
        new = {group: what for group, what in groups.items() if group not in known}
        for fault in draw(seed, new):
            if fault.key not in drawn:
                faults.append(replace(fault, number=len(faults) + 1))
    return faults


def _all(patterns: Iterable[str]) -> list[tuple[str, Site]]:
    found = {}
    for pattern in patterns:
        files, _, word = pattern.partition("::")
        for path in sorted(path.relative_to(ROOT) for path in ROOT.glob(files)):
            if path.parts[0] in {*packages(), "templates"} and not {*path.parts} & {*NOT_DRAWN}:
                found[str(path)] = [site for site in _sites(str(path)) if word in site.symbol]
    return [(module, site) for module in sorted(found) for site in found[module]]


def _by_turns(there: list[tuple[str, Site]], chance: random.Random) -> Iterator[tuple[str, Site]]:
    kinds = sorted({site.kind for _, site in there})
    chance.shuffle(kinds)
    left = {kind: [each for each in there if each[1].kind == kind] for kind in kinds}
    for kind in cycle(kinds):
        if left[kind]:
            yield left[kind].pop(chance.randrange(len(left[kind])))


def listed() -> list[Fault]:
    """The committed list."""
    return [Fault(**each) for each in json.loads(LIST.read_text())]


def write(faults: Iterable[Fault]) -> None:
    LIST.write_text(json.dumps([asdict(each) for each in faults], indent=1) + "\n")


def located(fault: Fault) -> tuple[str, Site]:
    """The module that holds it now, and where: what has moved is found by its symbol.

    Raises `LostError` where no module has it, or several have.
    """
    found = _in(fault.module, fault)
    if not found:
        elsewhere = _templates() if fault.module.endswith(".html") else _packages()
        found = [each for module in elsewhere if module != fault.module for each in _in(module, fault)]
    if len(found) != 1:
        raise LostError(f"fault {fault.number}, {fault.symbol}: {fault.before!r} is {len(found)} times there")
    return found[0]


def _in(module: str, fault: Fault) -> list[tuple[str, Site]]:
    return [(module, site) for site in _sites(module) if site.key == fault.key]


@cache
def _sites(module: str) -> list[Site]:
    path = ROOT / module
    if not path.exists():
        return []
    source = path.read_text()
    return template_sites(path.name, source) if path.suffix == ".html" else sites(source)


def _packages() -> list[str]:
    paths = (path for package in packages() for path in sorted((ROOT / package).rglob("*.py")))
    return [str(path.relative_to(ROOT)) for path in paths if "migrations" not in path.parts]


def packages() -> list[str]:
    """The project's own packages, without the tests."""
    return sorted(path.parent.name for path in ROOT.glob("[!.]*/__init__.py") if path.parent.name != "tests")


def _templates() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "templates").rglob("*.html"))]
