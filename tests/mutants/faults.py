"""The list of planted faults: drawn once by chance from the modules that matter, and found again by their symbols."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from tests.mutants.sites import Site, sites

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).parent / "faults.json"
SEED = 13

# What is drawn of each, and where it lives today.
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


def draw(seed: int = SEED) -> list[Fault]:
    """As many of each group as it says, by turns of each kind that it has."""
    # The same seed gives the same list, which is the whole purpose.
    chance = random.Random(seed)
    found = []
    for group, (count, patterns) in GROUPS.items():
        found += [(group, *each) for each in islice(_by_turns(_all(patterns), chance), count)]
    return [Fault(number, group, module, *site.key) for number, (group, module, site) in enumerate(found, 1)]


def _all(patterns: Iterable[str]) -> list[tuple[str, Site]]:
    return [(module, site) for module in _found(patterns) for site in _sites(module)]


def _found(patterns: Iterable[str]) -> list[str]:
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


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
        found = [each for module in _packages() if module != fault.module for each in _in(module, fault)]
    if len(found) != 1:
        raise LostError(f"fault {fault.number}, {fault.symbol}: {fault.before!r} is {len(found)} times there")
    return found[0]


def _in(module: str, fault: Fault) -> list[tuple[str, Site]]:
    return [(module, site) for site in _sites(module) if site.key == fault.key]


@cache
def _sites(module: str) -> list[Site]:
    path = ROOT / module
    return sites(path.read_text()) if path.exists() else []


def _packages() -> list[str]:
    tops = {module.partition("/")[0] for _, patterns in GROUPS.values() for module in patterns}
    # Those that parts of these may move to.
    tops |= {"console", "advisor", "notices", "portal", "cluster", "foundation", "jobs"}
    paths = (path for top in sorted(tops) for path in sorted((ROOT / top).rglob("*.py")))
    return [str(path.relative_to(ROOT)) for path in paths if "migrations" not in path.parts]


def modules() -> list[str]:
    """The modules that the listed faults are in now."""
    return sorted({located(fault)[0] for fault in listed()})
