"""No test fails now and then: what makes it do so is found where it is written (`tests/architecture/flakes.py`)."""

from __future__ import annotations

import ast
from functools import cache

import hypothesis
import pytest

from tests.architecture import flakes
from tests.architecture.flakes import KINDS, Finder, Module
from tests.architecture.test_waiting_and_servers import trees
from tests.effort import SOAK

FROM_PLAYWRIGHT = "playwright.sync_api.expect"
ALLOWED = {
    ("elapsed_time", "tests/controller/test_pod_sets_watched.py test_no_pod_of_a_set_is_taken_for_gone_and_each_of_their_seconds_is_billed_once"): "looks at all pods until minutes have passed",
    ("elapsed_time", "tests/crash/fleet.py RestClient.insist"): "a caller that asks again until minutes have passed",
    ("draws_without_a_seed", "tests/ci/free_ports.py ports_in_a_row"): "control planes that start at once look from different ports",
    ("guessed_ports", "tests/ci/free_ports.py _is_free"): "below the ports that the kernel hands out, and drawn by chance",
    ("guessed_ports", "tests/ports.py _is_free"): "is claimed, too",
    ("short_waits", "tests/cluster/cluster_faults.py Exchange.hang"): "a server that does not answer",
    ("short_waits", "tests/crash/fleet.py Fleet._web_answers"): "is asked again",
    ("short_waits", "tests/crash/fleet.py RestClient.once"): "is asked again",
    ("short_waits", "tests/crash/test_database_away.py ask"): "is asked again",
    ("short_results", "tests/waiting.py result_of"): "the one place",
    ("todays_date", "tests/controller/test_logs_store.py test_files_without_a_row_go_with_their_day"): "one moment is given to all",
    ("todays_date", "tests/teams/test_teams_and_members_of_the_api.py test_the_audit_trail_is_filtered_and_paged"): "with its time",
    ("todays_date", "tests/web/test_quota_pages.py form"): "who reads it back freezes the clock",
    ("todays_date", "tests/journeys/test_work.py test_a_manager_gives_a_team_more_for_a_week_which_nobody_asked_for"): "typed and read as one date",
    ("todays_date", "tests/journeys/test_work.py test_a_member_asks_for_quota_a_manager_gives_it_and_the_run_starts"): "typed and read as one date",
    ("todays_date", "tests/security/world.py World.__init__"): "thirty days around now",
    ("impatient_browsers", "tests/journeys/visits.py Visit.reload_until"): "looks again after loading anew",
}  # fmt: skip


@cache
def modules() -> dict[str, Module]:
    return {path: Module.of(tree) for path, tree in trees().items()}


@pytest.mark.parametrize("finder", KINDS)
def test_no_test_fails_now_and_then(finder):
    found: dict[str, list[str]] = {}
    for path, module in modules().items():
        for where, what in finder(module):
            found.setdefault(f"{path} {where}", []).append(what)
    allowed = {where for kind, where in ALLOWED if kind == finder.__name__}
    new = {where: what for where, what in found.items() if where not in allowed}
    assert not new, f"{finder.__doc__}"
    assert allowed <= set(found), "what is allowed and there no more"


def test_hypothesis_draws_the_same_each_time_unless_it_draws_much():
    assert hypothesis.settings.default.derandomize is not SOAK


def without_patience(found: dict[str, Module]) -> set[str]:
    """Who takes `expect` from Playwright, past the module that gives it patience; a conftest gives it to all."""
    places = {path for path, module in found.items() if _sets_options(module)}
    if not places or any(path.endswith("conftest.py") for path in places):
        return set()
    return {path for path, module in found.items() if FROM_PLAYWRIGHT in module.imports.values()} - places


def _sets_options(module: Module) -> bool:
    return any(flakes.last(call.func) == "set_options" for scope in module.scopes for call in scope.calls)


def test_expect_comes_from_the_one_module_that_gives_it_patience():
    assert without_patience(modules()) == set()


def test_who_takes_expect_from_elsewhere_is_found():
    taken = "from playwright.sync_api import expect\n"
    given, taker = (
        Module.of(ast.parse(f"{taken}expect.set_options(timeout=30_000)")),
        Module.of(ast.parse(taken)),
    )
    assert without_patience({"tests/web/browsing.py": given, "tests/web/test_a.py": taker}) == {
        "tests/web/test_a.py"
    }
    assert without_patience({"tests/conftest.py": given, "tests/web/test_a.py": taker}) == set()


PLANTED: list[tuple[Finder, str]] = [
    (flakes.elapsed_time, "import time\nbegan = time.monotonic()\nassert time.monotonic() - began < 5"),
    (flakes.elapsed_time, "import time\ntook = time.perf_counter() - began\nassert took < limit"),
    (
        flakes.elapsed_time,
        "from time import monotonic\nwhile not ready():\n    assert monotonic() < deadline",
    ),
    (flakes.elapsed_time, "assert clock.now() - run.queued_at < timedelta(minutes=1)"),
    (flakes.elapsed_time, "assert clock.now() < over"),
    (flakes.elapsed_time, "assert 9 <= (second - first).total_seconds() <= 15"),
    (flakes.elapsed_time, "assert 0 < found.duration_seconds < 5"),
    (flakes.throughput, "import time\nwhile time.monotonic() < end:\n    served += 1\nassert served > 10"),
    (flakes.short_waits, "until(lambda: done, 5)"),
    (flakes.short_waits, "until_equal(look, 3, seconds=10)"),
    (flakes.short_waits, "bench.until(run, lambda row: row.is_final, 20)"),
    (flakes.short_waits, "WITHIN = 5\nuntil(lambda: done, WITHIN + 1)"),
    (flakes.short_waits, "assert ended.wait(0.5)"),
    (flakes.short_waits, "process.wait(timeout=20)"),
    (flakes.short_waits, "connection.settimeout(5)"),
    (flakes.short_waits, "listener.notifies(timeout=5, stop_after=1)"),
    (flakes.short_results, "answer.result(30)"),
    (flakes.short_results, "answer.result(timeout=300)"),
    (flakes.draws_without_a_seed, "import random\nrandom.shuffle(rows)"),
    (flakes.draws_without_a_seed, "import random as chance\nchance.random()"),
    (flakes.draws_without_a_seed, "from random import choice\nchoice(rows)"),
    (flakes.draws_without_a_seed, "from random import Random\nRandom()"),
    (flakes.draws_without_a_seed, "import secrets\nSEED = secrets.randbelow(10)"),
    (flakes.draws_without_a_seed, "import numpy as np\nnp.random.default_rng()"),
    (flakes.guessed_ports, "with socket.socket() as s:\n    s.bind(('', 0))\n    port = s.getsockname()[1]"),
    (flakes.guessed_ports, "with socket.create_server(('', 0)) as s:\n    return s.getsockname()[1]"),
    (flakes.guessed_ports, "def _free_port():\n    return 1"),
    (flakes.todays_date, "from datetime import date\ndate.today()"),
    (flakes.todays_date, "today = clock.now().replace(hour=0, minute=0)"),
    (flakes.todays_date, "now = clock.now()\nassert page == str(now.date())"),
    (flakes.todays_date, "day = (clock.now() - timedelta(days=1)).day"),
    (flakes.todays_date, "day = f'{clock.now():%Y-%m-%d}'"),
    (flakes.todays_date, "NOW = clock.now()\ndef look():\n    return NOW.strftime('%d')"),
    (flakes.todays_date, "def test_one(still):\n    pass\ndef test_two():\n    day = clock.now().day"),
    (flakes.impatient_browsers, "expect(page.locator('b')).to_be_visible(timeout=5_000)"),
    (flakes.impatient_browsers, "expect.set_options(timeout=9_000)"),
    (flakes.impatient_browsers, "page.wait_for_selector('b', timeout=1_000)"),
]
HARMLESS: list[tuple[Finder, str]] = [
    (flakes.elapsed_time, "assert row.seen_at > clock.now() - timedelta(hours=1)"),
    (flakes.elapsed_time, "assert clock.now() - timedelta(hours=1) < row.seen_at"),
    (flakes.elapsed_time, "assert before < clock.now()\nassert duration > 0"),
    (flakes.throughput, "while rows:\n    served += 1\nassert served > 10"),
    (flakes.short_waits, "until(lambda: done)\nuntil(lambda: done, 60)\nended.wait(0.1)\n', '.join(rows)"),
    (flakes.short_results, "answer.result()"),
    (flakes.draws_without_a_seed, "import random\ndice = random.Random(5)\ndice.random()"),
    (flakes.draws_without_a_seed, "import secrets\nname = secrets.token_hex(4)"),
    (flakes.guessed_ports, "server.bind(('127.0.0.1', 0))\nport = server.getsockname()[1]"),
    (flakes.guessed_ports, "with socket.create_server(('', 0)) as s:\n    call(s.getsockname()[1])"),
    (
        flakes.todays_date,
        "pytestmark = pytest.mark.usefixtures('still')\ndef test_one():\n    day = clock.now().day",
    ),
    (flakes.todays_date, "def world(still):\n    pass\ndef test_one(world):\n    day = clock.now().day"),
    (flakes.todays_date, "with clock.freeze(clock.now()):\n    day = clock.now().day"),
    (flakes.todays_date, "now = clock.now().replace(microsecond=0)"),
    (
        flakes.impatient_browsers,
        "expect(page.locator('b')).to_be_visible()\nexpect.set_options(timeout=30_000)",
    ),
]


def test_each_kind_is_found_where_it_is_planted_and_nothing_else_is():
    assert {finder for finder, _ in PLANTED} == set(KINDS)
    missed = [source for finder, source in PLANTED if not list(finder(Module.of(ast.parse(source))))]
    wrong = [source for finder, source in HARMLESS if list(finder(Module.of(ast.parse(source))))]
    assert (missed, wrong) == ([], [])
