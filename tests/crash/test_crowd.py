"""Runs submitted at once on a real control plane: a small version of `python -m benchmarks many_runs`."""

from __future__ import annotations

import os

import pytest

from tests.crash.crowd import cpu_seconds, crowd
from tests.crash.fleet import KINDS, running_fleet
from tests.crash.raw_cluster import RawCluster

REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251
COUNT = 24


@pytest.mark.cluster
@pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG")
def test_runs_submitted_at_once_all_end_and_none_twice(tmp_path):
    with running_fleet(tmp_path / "data", kubeconfig=REAL, units=8) as fleet:
        try:
            before = cpu_seconds(fleet)
            with crowd(fleet) as found:
                found.submit(COUNT)
                found.until_ended(240)
                assert found.wrong() == []
                assert found.jobs() == len(found.accepted) == COUNT
            spent = {kind: seconds - before[kind] for kind, seconds in cpu_seconds(fleet).items()}
            assert set(spent) == set(KINDS)
            assert min(spent["web"], spent["worker"], spent["watcher"]) > 0
        finally:
            cluster = RawCluster(REAL)
            cluster.ask("DELETE", f"/api/v1/namespaces/{fleet.namespace}")
            cluster.close()
