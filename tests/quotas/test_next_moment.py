"""When the next pass is to come though nothing happens but time: what a plan says of that, and that it is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.backfill import PATIENCE_SECONDS
from policy.judge import plan
from policy.pool_snapshot import AdmissionRules
from tests.quotas.pure_world import HOUR, NOW, cohort, holder, random_supply, snapshot, team, waiter

RULES = AdmissionRules(minimum_run_seconds=300, grace_seconds=10)
SHARED = [cohort("c"), team("nlp", 16, "c"), team("vision", 16, "c")]


def shared(*, holders, waiters, **changes):
    return snapshot(SHARED, holders=holders, waiters=waiters, rules=RULES, **changes)


def borrower(age, **changes):
    return holder("gang", "vision", 32, units_each=8, preemptible=True, age_seconds=age, **changes)


def after(found, seconds):
    """The same snapshot with nothing changed but the time."""
    holders = [
        replace(
            each,
            age_seconds=each.age_seconds + seconds,
            lost_seconds=each.lost_seconds + seconds,
            ends_in=None if each.ends_in is None else max(0, each.ends_in - seconds),
        )
        for each in found.holders
    ]
    return replace(found, now=found.now + seconds, holders=tuple(holders))


def does(found):
    """Who is admitted, and who has to leave."""
    made = plan(found)
    victims = {name: {each.id for each in made.verdicts[name].victims} for name in made.order}
    return made.admitted, {name: chosen for name, chosen in victims.items() if chosen}


def test_lent_quota_comes_back_at_the_second_at_which_the_minimum_run_time_of_the_borrower_is_over():
    found = shared(holders=[borrower(100)], waiters=[waiter("own", "nlp", 16, 2, queued_at=NOW - 5)])
    assert plan(found).next_at == NOW + 200
    assert does(after(found, 199)) == ((), {})
    assert does(after(found, 200)) == ((), {"own": {"gang"}})


def test_a_higher_priority_waits_for_the_minimum_run_time_of_its_own_team():
    held = holder("low", units=32, units_each=8, priority=100, preemptible=True, age_seconds=10, ends_in=HOUR)
    found = snapshot(holders=[held], waiters=[waiter("high", priority=1000)], rules=RULES)
    assert plan(found).next_at == NOW + 290
    assert does(after(found, 290)) == ((), {"high": {"low"}})


@pytest.mark.parametrize(
    "held",
    [
        holder("same", units=32, units_each=8, preemptible=True, age_seconds=10),
        holder("firm", units=32, units_each=8, priority=100, age_seconds=10),
        holder("goes", units=32, units_each=8, priority=100, preemptible=True, age_seconds=10, leaving=True),
    ],
    ids=lambda each: each.id,
)
def test_who_could_not_be_made_to_leave_anyway_is_not_waited_for(held):
    found = snapshot(holders=[held], waiters=[waiter("w", queued_at=NOW)], rules=RULES)
    assert plan(found).next_at >= NOW + HOUR - RULES.grace_seconds


def test_the_end_of_somebody_is_a_moment_and_so_is_the_grace_period_before_it():
    held = holder("ends", units=32, units_each=8, ends_in=77)
    found = snapshot(holders=[held], waiters=[waiter("w")], rules=RULES)
    assert plan(found).next_at == NOW + 67
    assert plan(after(found, 67)).next_at == NOW + 77


def test_who_is_over_its_time_is_no_moment_again():
    held = holder("over", units=32, units_each=8, ends_in=0)
    found = snapshot(holders=[held], waiters=[waiter("w", queued_at=NOW - PATIENCE_SECONDS)])
    assert plan(found).next_at is None


def test_who_has_waited_long_is_looked_at_then():
    held = holder("endless", units=32, units_each=8, ends_in=None)
    found = snapshot(holders=[held], waiters=[waiter("w", queued_at=NOW - 3_000)])
    assert plan(found).next_at == NOW + 600


def test_one_that_starts_now_may_have_to_leave_after_its_minimum_run_time():
    waiters = [waiter("first", units=32, pods=4, preemptible=True), waiter("second", sequence=1)]
    assert plan(snapshot(waiters=waiters, rules=RULES)).next_at == NOW + 300


def test_where_nobody_waits_there_is_no_moment():
    assert plan(snapshot(holders=[holder(ends_in=50)])).next_at is None
    assert plan(snapshot(holders=[holder(ends_in=50)], waiters=[waiter("fits")])).next_at is None


def waiting_in_vain(seed):
    """A generated pool in which nobody starts or leaves at once; None where that is not so."""
    found = random_supply(seed, teams=4, nodes=4, holders=30, waiters=12, preemptible=0.8)
    found = replace(found, rules=AdmissionRules(minimum_run_seconds=2 * HOUR, grace_seconds=10))
    made = plan(found)
    chosen = {each.id for verdict in made.verdicts.values() for each in verdict.victims}
    # Who starts or leaves now is gone from the queue: what is left is who waits in vain.
    waits = tuple(each for each in found.waiters if each.id not in made.admitted)
    found = replace(found, waiters=waits, holders=tuple(h for h in found.holders if h.id not in chosen))
    return found if does(found) == ((), {}) else None


def test_before_the_moment_a_pass_does_nothing_more():
    pools = [found for seed in range(120) if (found := waiting_in_vain(seed)) is not None]
    assert len(pools) > 50
    leave = 0
    for found in pools:
        last = plan(found).next_at - NOW
        for seconds in {1, last // 2, last - 1} - {0}:
            assert does(after(found, seconds)) == ((), {}), seconds
        leave += does(after(found, last)) != ((), {})
    assert leave >= 3, "at the moment itself it does"
