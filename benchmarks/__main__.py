"""`python -m benchmarks`: measure, print a table, write docs/reference/benchmarks.md; status 1 if a gate is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import clusters, first_page, memory, submit, watch_to_row
from benchmarks.results import Result, document, machine, table
from portal.settings import env
from tests.crash.fleet import ROOT, running_fleet
from tests.crash.raw_cluster import RawCluster

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
ROUNDS_MIN = 5
NAMES = ("submit", "watch", "memory", "start")


def main() -> int:
    given = _arguments()
    with tempfile.TemporaryDirectory(prefix="mlp-bench-") as folder:
        up = given.cluster_up or Path(env.variable("PORTAL_TEST_CLUSTER_UP") or clusters.DEFAULT_UP)
        with clusters.cluster(kubeconfig=given.real_kubeconfig, up=up, folder=Path(folder)) as cluster:
            print(f"{machine()}\n{cluster.words}\n", flush=True)
            results = []
            for result in _measure(given, Path(folder), cluster.kubeconfig):
                print(f"{result.title}\n{table(result.rows)}\n", flush=True)
                results.append(result)
            if set(given.only) == set(NAMES) and given.rounds >= ROUNDS_MIN:
                PAGE.write_text(document(results, cluster=cluster.words), encoding="utf-8")
                print(f"written: {PAGE.relative_to(ROOT)}")
    return 1 if any(row.passed is False for result in results for row in result.rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--real-kubeconfig", help="an API server that runs already")
    parser.add_argument(
        "--cluster-up",
        type=Path,
        help="script that starts one and prints its kubeconfig's path last (default: PORTAL_TEST_CLUSTER_UP)",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, help="the page is then not written"
    )
    return parser.parse_args()


def _measure(given: argparse.Namespace, folder: Path, kubeconfig: str) -> Iterator[Result]:
    if {"submit", "watch", "memory"} & set(given.only):
        with running_fleet(folder / "portal", kubeconfig=kubeconfig, durable=True) as fleet:
            fresh = memory.look(fleet)
            try:
                if "submit" in given.only:
                    yield submit.measure(fleet, rounds=given.rounds)
                if "watch" in given.only:
                    yield watch_to_row.measure(fleet, rounds=given.rounds)
                if "memory" in given.only:
                    yield memory.measure(fleet, fresh=fresh)
            finally:
                cluster = RawCluster(kubeconfig)
                cluster.ask("DELETE", f"/api/v1/namespaces/{fleet.namespace}")
                cluster.close()
    if "start" in given.only:
        yield first_page.measure(folder / "first")


if __name__ == "__main__":
    sys.exit(main())
