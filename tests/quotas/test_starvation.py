from __future__ import annotations

import random as stdlib_random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.pool_snapshot import AdmissionRules
from tests.effort import drawn
from tests.quotas.pure_world import HOUR, NOW, random_waiter, random_world, team, waiter
from tests.quotas.real_queue import RealQueue

START = NOW


def run_until_started(world, wanted, arrivals, *, most=1500):
    """Events until all of the wanted have started, with newcomers that never let the queue become short; how many that took."""
    for number in range(most):
        world.step(START)
        if wanted <= set(world.started):
            return number
        while len(world.waiting) < 30:
            world.submit(replace(next(arrivals), queued_at=START + world.now))
        # Something small always ends soon, so that there is always a temptation.
        time = world.next_time()
        world.advance(world.now + 600 if time is None else min(time, world.now + 600))
    return None


def small_runs(random, slugs, priority=500):
    number = 0
    while True:
        number += 1
        slug = random.choice(slugs)
        yield waiter(
            f"late{number}", slug, random.choice([1, 1, 2]), seconds=random.randrange(300, 2 * HOUR),
            priority=priority, sequence=10**6 + number,
        )  # fmt: skip


@pytest.mark.parametrize("priority", [500, 100])
@pytest.mark.parametrize("pods", [1, 2, 4])
def test_a_gang_of_whole_nodes_starts_however_many_small_runs_keep_coming(pods, priority):
    random = stdlib_random.Random(pods)
    limits = [team("vision", 32), team("speech", 32)]
    world = RealQueue(
        limits,
        {f"n{n}": 8 for n in range(4)},
        lambda run: random.randrange(1, run.seconds + 1),
        AdmissionRules(),
    )
    arrivals = small_runs(random, ["vision", "speech"], priority)
    for _ in range(40):
        world.submit(next(arrivals))
    world.step(START)
    world.submit(waiter("gang", units=8 * pods, pods=pods, queued_at=NOW))
    assert run_until_started(world, {"gang"}, arrivals) is not None


@given(st.integers(0, 10**6))
@settings(max_examples=drawn(usual=8, soak=125))
def test_everybody_who_can_ever_start_starts_while_others_keep_coming(seed):
    limits, sizes, facts = random_world(seed, teams=3, nodes=4, holders=10, waiters=12, cohorts=1)
    random = stdlib_random.Random(seed)
    world = RealQueue(
        limits,
        sizes,
        lambda run: random.randrange(1, getattr(run, "seconds", None) or run.ends_in),
        AdmissionRules(),
        [replace(each, use=each.use // 20) for each in facts.teams],
    )
    for each in facts.holders:
        world.adopt(each, -each.age_seconds)
    slugs = [each.slug for each in facts.teams]
    arrivals = small_runs(random, slugs, priority=100)
    for each in facts.waiters:
        world.submit(each)
    accounts = {each.name: each for each in facts.accounts}
    # Who borrows gives way to all who need not; that may go on for ever.
    wanted = {
        each.id
        for each in facts.waiters
        if each.units <= accounts[each.team].guaranteed
        and each.units_each <= facts.largest_block
        and sum(size // each.units_each for size in sizes.values()) >= each.pods
    }
    assert run_until_started(world, wanted, arrivals) is not None


@given(st.integers(0, 10**6))
@settings(max_examples=drawn(usual=5, soak=50))
def test_every_team_gets_its_turns_while_all_of_them_always_want_more(seed):
    random = stdlib_random.Random(seed)
    limits = [team(f"t{n}", 16) for n in range(3)]
    world = RealQueue(
        limits, {"n1": 8, "n2": 8}, lambda run: random.randrange(1, run.seconds + 1), AdmissionRules()
    )
    number = 0
    for _ in range(150):
        while len(world.waiting) < 12:
            number += 1
            run = random_waiter(random, number, f"t{number % 3}", preemptible=0)
            if run.units <= 16:
                world.submit(replace(run, team=f"t{number % 3}", priority=500, queued_at=START + world.now))
        world.step(START)
        world.advance(world.next_time())
    total = sum(world.use.values())
    assert min(world.use.values()) > total / 6
