"""`python -m benchmarks [NAME …]`: measure, print tables; status 1 if a gate is missed.

In whole and with enough rounds, all of them write docs/reference/benchmarks.md, and some of them their parts of it with
`--write`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import (
    first_page,
    many_runs,
    memory,
    policy,
    submit,
    watch_crowd,
    watch_to_browser,
    watch_to_row,
)
from benchmarks.results import Result, document, machine, table, with_sections
from benchmarks.worlds import clusters, database
from portal.settings import env
from tests.crash.fleet import ROOT, Fleet, running_fleet
from tests.crash.raw_cluster import RawCluster

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
ROUNDS_MIN = 5
ON_CLUSTER = ("submit", "watch", "browser", "memory", "many_runs", "crowd")
_WITH_ALL = {"submit", "watch", "browser", "memory"}
# By name, the module that runs in a process inside the portal's settings, with a database to itself.
INSIDE = {
    "claims": "claims",
    "relist": "watch_relist",
    "waiting": "waiting_cards",
    "gateway": "gateway",
    "slow_clients": "slow_clients",
    "kueue_day": "kueue_day",
    "history": "history",
    "costs": "cost_reports",
    "flood": "flood",
}
NAMES = (*ON_CLUSTER, "start", "policy", *INSIDE)


def main() -> int:
    options = _arguments()
    print(f"{machine()}\n", flush=True)
    results: list[Result] = []
    words = "none"
    with tempfile.TemporaryDirectory(prefix="mlp-bench-") as made:
        folder = Path(made)
        if set(ON_CLUSTER) & set(options.names):
            up = options.cluster_up or Path(env.variable("PORTAL_TEST_CLUSTER_UP") or clusters.DEFAULT_UP)
            with clusters.cluster(kubeconfig=options.real_kubeconfig, up=up, folder=folder) as cluster:
                words = cluster.words
                print(f"{words}\n", flush=True)
                results += _shown(_on_cluster(options, folder, cluster.kubeconfig))
        # The cluster has ended by now, so that the machine is theirs alone.
        results += _shown(_by_themselves(options, folder))
    if (
        options.rounds >= ROUNDS_MIN
        and options.kueue_count is None
        and options.waiting_count is None
        and options.history_count is None
        and options.costs_count is None
        and options.many_count == many_runs.COUNT
    ):
        _write(options, results, cluster=words)
    return 1 if any(row.passed is False for result in results for row in result.rows) else 0


def _write(options: argparse.Namespace, results: list[Result], *, cluster: str) -> None:
    if set(options.names) == set(NAMES):
        page = document(results, cluster=cluster)
    elif options.write:
        page = with_sections(PAGE.read_text(encoding="utf-8"), results)
    else:
        return
    PAGE.write_text(page, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all unless given"
    )
    parser.add_argument("--real-kubeconfig", help="an API server that runs already")
    parser.add_argument(
        "--cluster-up",
        type=Path,
        help="script that starts one and prints its kubeconfig's path last (default: PORTAL_TEST_CLUSTER_UP)",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--kueue-count", type=int, help="workloads of Kueue's day, all 15,000 unless given")
    parser.add_argument(
        "--waiting-count", type=int, help="workloads that wait before a card, 10,000 unless given"
    )
    parser.add_argument("--history-count", type=int, help="runs of a year, 1,000,000 unless given")
    parser.add_argument(
        "--costs-count", type=int, help="usage intervals in the ledger, 1,000,000 unless given"
    )
    parser.add_argument(
        "--many-count", type=int, default=many_runs.COUNT, help="runs that are submitted at once"
    )
    parser.add_argument(
        "--write", action="store_true", help="put what is measured alone into its place in the page"
    )
    options = parser.parse_args()
    options.names = options.names or list(NAMES)
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return options


def _shown(results: Iterator[Result]) -> Iterator[Result]:
    for result in results:
        print(result.title, table(result.rows), *result.notes, "", sep="\n", flush=True)
        yield result


def _on_cluster(options: argparse.Namespace, folder: Path, kubeconfig: str) -> Iterator[Result]:
    if _WITH_ALL & set(options.names):
        with _portal(folder / "portal", kubeconfig) as fleet:
            fresh = memory.look(fleet)
            if "submit" in options.names:
                yield submit.measure(fleet, rounds=options.rounds)
            if "watch" in options.names:
                yield watch_to_row.measure(fleet, rounds=options.rounds)
            if "browser" in options.names:
                yield watch_to_browser.measure(fleet, rounds=options.rounds)
            if "memory" in options.names:
                yield memory.measure(fleet, fresh=fresh)
    if "many_runs" in options.names:
        # A portal of its own: whatever else is in the database counts as not asked for.
        with _portal(folder / "many", kubeconfig, units=many_runs.UNITS) as fleet:
            yield many_runs.measure(fleet, count=options.many_count)
    if "crowd" in options.names:
        with _portal(folder / "crowd", kubeconfig, kinds=("watcher",)) as fleet:
            yield watch_crowd.measure(fleet, rounds=options.rounds)


@contextmanager
def _portal(folder: Path, kubeconfig: str, **given: Any) -> Iterator[Fleet]:
    """A fleet whose namespace goes with it."""
    with running_fleet(folder, kubeconfig=kubeconfig, durable=True, **given) as fleet:
        try:
            yield fleet
        finally:
            cluster = RawCluster(kubeconfig)
            cluster.ask("DELETE", f"/api/v1/namespaces/{fleet.namespace}")
            cluster.close()


def _by_themselves(options: argparse.Namespace, folder: Path) -> Iterator[Result]:
    if "start" in options.names:
        yield first_page.measure(folder / "first")
    if "policy" in options.names:
        yield policy.measure(rounds=options.rounds)
    for name, module in INSIDE.items():
        if name in options.names:
            yield database.measure(module, folder, *_arguments_of(options, name))


def _arguments_of(options: argparse.Namespace, name: str) -> list[str]:
    counts = {
        "kueue_day": options.kueue_count,
        "waiting": options.waiting_count,
        "history": options.history_count,
        "costs": options.costs_count,
    }
    count = counts.get(name)
    return [f"--rounds={options.rounds}", *([] if count is None else [f"--count={count}"])]


if __name__ == "__main__":
    sys.exit(main())
