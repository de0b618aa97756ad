"""What tests may not do: wait by sleeping, or start a server that a fixture or a helper has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

WAITS = "tests/waiting.py"
# A pause of these is what they are about.
PAUSES = {
    "tests/cluster/test_proxy.py test_an_answer_that_drips_for_ever_is_504.script": "a server that drips",
    "tests/crash/fleet.py RestClient.insist": "a caller that asks again, as clients do",
    "tests/crash/raw_cluster.py Watch._run": "a watch that is opened again",
    "tests/crash/storm.py Storm.run": "looks at all slots in turn until the storm is over",
    "tests/e2e/budget_steps.py *": "a program that runs in a portal of its own",
    "tests/e2e/money_steps.py *": "a program that runs in a portal of its own",
    "tests/e2e/steps.py *": "a program that runs in a portal of its own",
    "tests/runtime/test_fairness.py _settled": "sleeps 0: turns of the loop",
    "tests/gateway/test_table.py test_what_is_used_is_asked_again_behind_the_callers_backs.scenario": "sleeps 0: a turn of the loop",
}  # fmt: skip
SERVERS = {
    "Popen", "posix_spawn", "create_subprocess_exec", "launch", "LiveServer", "OwnCluster", "Devcluster", "FaultServer",
    "RunningPortal", "Fleet", "running_fleet", "metric_source", "RealPrometheus", "HTTPServer", "ThreadingHTTPServer",
}  # fmt: skip
# These start a server of their own because it differs from the fixture's, or because the test ends it.
OWN = {
    "tests/cluster/test_preflight.py test_the_configured_prometheus_is_asked": "a Prometheus in six lines",
    "tests/controller/test_fault_proxy.py Upstream.__init__": "holds its answer until the test releases it",
    "tests/crash/test_crowd.py test_runs_submitted_at_once_all_end_and_none_twice": "needs a fleet of its own size",
    "tests/crash/test_database_away.py test_what_asks_again_and_again_tells_once_that_the_database_goes_and_once_that_it_is_back": "stops its database",
    "tests/crash/test_hung_cluster.py test_while_the_api_hangs_the_sweep_goes_on_and_a_new_submission_is_looked_at": "makes its cluster hang",
    "tests/devcluster/test_prometheus_scraping.py Target.__init__": "is the target that Prometheus scrapes",
    "tests/devcluster/test_promql.py _record": "records answers of a real Prometheus",
    "tests/devcluster/test_scaling_over_a_restart.py test_scaling_goes_on_after_a_restart": "restarts the server",
    "tests/devcluster/test_server.py test_it_dies_with_its_parent": "ends the server",
    "tests/devcluster/test_server.py test_a_short_history_makes_watches_expire": "needs a short watch history",
    "tests/e2e/test_parallel_gradients.py Pods.start": "pods of the demo's program",
    "tests/e2e/test_parallel_gradients.py test_the_averaged_gradient_is_that_of_one_process": "ranks of the demo's program",
    "tests/journeys/test_ci_job.py Job.start": "a job of a CI system",
    "tests/gateway/test_endpoint_process.py test_a_real_endpoint_answers_and_sees_no_credential_of_anybody": "on a real cluster",
    "tests/gateway/test_holding.py test_a_body_that_is_too_large_to_keep_is_sent_once": "has other limits",
    "tests/gateway/test_passthrough.py test_a_caller_that_stops_reading_keeps_no_request_open": "has other limits",
    "tests/gateway/test_who_may_call.py test_what_was_known_opens_nothing_after_its_time": "has other limits",
    "tests/quotas/test_races.py Race.run": "processes that race",
    "tests/runtime/test_redis_access.py test_a_whole_portal_works_with_the_rights_of_its_user_over_tls": "a Redis of its own",
    "tests/runtime/test_supervisor.py Supervised.__init__": "what is tested",
    "tests/runtime/test_supervisor.py test_child_under_another_user_does_not_outlive_its_parent_and_passes_closed_folders": "what is tested",
    "tests/runtime/test_up.py Up.__init__": "what is tested",
}  # fmt: skip


@cache
def trees() -> dict[str, ast.Module]:
    found = sorted((ROOT / "tests").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in found}


def calls(
    node: ast.AST, within: tuple[str, ...] = (), fixture: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Function that calls, what it calls by its last name, and whether that is in a fixture."""
    for child in ast.iter_child_nodes(node):
        inner, made = within, fixture
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*within, child.name)
            made = fixture or any("fixture" in ast.unparse(each) for each in child.decorator_list)
        if isinstance(child, ast.Call):
            called = getattr(child.func, "attr", None) or getattr(child.func, "id", "")
            yield ".".join(within), called, fixture
        yield from calls(child, inner, made)


@cache
def all_calls(tree: ast.Module) -> list[tuple[str, str, bool]]:
    return list(calls(tree))


def sleeps(tree: ast.Module) -> list[str]:
    return [where for where, called, _ in all_calls(tree) if called == "sleep"]


def starts(tree: ast.Module) -> list[str]:
    return [where for where, called, fixture in all_calls(tree) if called in SERVERS and not fixture]


def test_no_test_sleeps():
    found = {
        f"{path} {where}"
        for path, tree in trees().items()
        for where in sleeps(tree)
        if path != WAITS and f"{path} *" not in PAUSES
    }
    assert found == {each for each in PAUSES if not each.endswith("*")}


def test_no_test_waits_by_a_function_in_the_page():
    """Playwright evaluates it anew at each look, which the pages' policy forbids: it ends well only if the
    first look is true. A locator waits without."""
    waiting = {
        path
        for path, tree in trees().items()
        for _, called, _ in all_calls(tree)
        if called == "wait_for_function"
    }
    assert waiting == set()


def test_no_test_starts_a_server_that_a_fixture_has():
    found = {
        f"{path} {where}"
        for path, tree in trees().items()
        if Path(path).name.startswith("test_")
        for where in starts(tree)
    }
    assert found == set(OWN)


@pytest.mark.parametrize(
    ("source", "slept", "started"),
    [
        ("def test_a():\n    time.sleep(1)", ["test_a"], []),
        ("async def test_a():\n    await asyncio.sleep(1)", ["test_a"], []),
        ("from time import sleep\nsleep(1)", [""], []),
        ("PROGRAM = 'import time; time.sleep(1)'", [], []),
        ("def test_a():\n    with LiveServer(LIMITS) as live:\n        pass", [], ["test_a"]),
        ("def test_a():\n    subprocess.Popen(['manage.py', 'up'])", [], ["test_a"]),
        ("@pytest.fixture\ndef live():\n    yield LiveServer(LIMITS)", [], []),
    ],
)
def test_both_are_found(source, slept, started):
    tree = ast.parse(source)
    assert (sleeps(tree), starts(tree)) == (slept, started)
