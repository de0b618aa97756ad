"""REST tells of the configured cluster alone."""

from __future__ import annotations

from tests.api.bench import Bench
from tests.factories.elsewhere import make_rows
from tests.factories.workloads import make_workload


def test_nodes_capacity_and_strays_of_another_cluster_are_not_told(bench: Bench, manager) -> None:
    paths = ("nodes", "capacity", "strays")
    before = {path: manager.get(f"/api/v1/cluster/{path}/").json() for path in paths}
    assert [node["name"] for node in before["nodes"]["results"]] == ["a100-0"]
    make_rows(make_workload(team=bench.team, flavor=bench.flavor, units=1), node="a100-0")
    assert {path: manager.get(f"/api/v1/cluster/{path}/").json() for path in paths} == before
