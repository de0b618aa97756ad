from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.estimates import estimate
from policy.judge import judge, plan
from policy.levers import MOST, Alternative, Levers, levers, with_quota
from policy.messages import BESIDE
from policy.pool_snapshot import TeamFacts
from tests.effort import drawn
from tests.quotas.pure_world import (
    HOUR,
    NOW,
    SIZES,
    cohort,
    flavor,
    holder,
    random_hosts,
    random_supply,
    snapshot,
    team,
    waiter,
)
from workloads.podrequests import OTHERS, units_of


def offered(facts, *alternatives, name="w", **changes):
    return {tuple(each.change.items()): each for each in levers(facts, name, alternatives, **changes).levers}


FULL = [holder(f"h{n}", units=8, ends_in=(n + 1) * HOUR, expected_in=(n + 1) * HOUR) for n in range(4)]


def test_fewer_gpus_that_fit_now():
    facts = snapshot(holders=[*FULL[:3], holder("x", units=4)], waiters=[waiter()])
    lever = offered(facts)[("gpus_per_replica", 4),]
    assert lever.verdict.admitted
    assert lever.estimate.p90 == NOW


def test_fewer_replicas_that_fit_now():
    facts = snapshot(holders=FULL[:3], waiters=[waiter(units=32, pods=4)])
    assert offered(facts)[("replicas", 1),].verdict.admitted


def test_an_endpoint_is_told_no_other_number_of_replicas():
    facts = snapshot(holders=FULL[:3], waiters=[replace(waiter(units=32, pods=4), pods=2)])
    assert ("replicas", 1) not in {key[0] for key in offered(facts)}


def test_a_shorter_time_limit_keeps_the_place_and_counts_what_is_used_up():
    big = waiter("big", units=16, pods=2, queued_at=NOW - 500)
    facts = snapshot(holders=FULL[:3], waiters=[big, waiter(seconds=2 * HOUR, expected_seconds=2 * HOUR)])
    assert offered(facts)[("time_limit_seconds", HOUR - 120),].verdict.backfilled
    # 8 min and 20 s are used up: 67 whole minutes leave 58 min and 40 s of the hour.
    assert ("time_limit_seconds", 67 * 60) in {
        key[0] for key in offered(facts, time_limit_seconds=2 * HOUR + 500)
    }


def test_a_shorter_time_limit_still_fits_a_minute_later():
    big = waiter("big", units=16, pods=2, queued_at=NOW - 500)
    facts = snapshot(holders=FULL[:3], waiters=[big, waiter(seconds=2 * HOUR)])
    (limit,) = (key[0][1] for key in offered(facts) if key[0][0] == "time_limit_seconds")
    later = replace(
        facts,
        now=NOW + 60,
        holders=tuple(
            replace(each, ends_in=each.ends_in - 60, expected_in=each.expected_in - 60)
            for each in facts.holders
        ),
    )
    shorter = replace(facts.waiters[1], seconds=limit)
    assert judge(replace(later, waiters=(facts.waiters[0], shorter)), "w").admitted


def test_a_run_of_the_own_that_holds_what_is_missing_can_be_suspended():
    """The waiter starts when it has left, which takes at most the grace period; of those that hold enough the one that
    loses least.
    """
    held = [
        holder("dear", units=8, lost_seconds=900), holder("cheap", units=8, lost_seconds=60),
        holder("small", units=4, lost_seconds=1), holder("others", units=8, owner="somebody"),
    ]  # fmt: skip
    facts = snapshot(
        [team("vision", 28)], nodes={f"n{n}": 8 for n in range(9)}, holders=held, waiters=[waiter()]
    )
    lever = offered(facts)[("suspend", "cheap"),]
    assert lever.lost_seconds == 60
    assert not lever.verdict.admitted
    assert NOW < lever.estimate.p90 <= NOW + facts.rules.grace_seconds
    assert ("suspend", "others") in {key[0] for key in offered(facts, owner="somebody")}
    theirs = replace(facts, holders=tuple(replace(each, owner="somebody") for each in facts.holders))
    assert "suspend" not in {key[0][0] for key in offered(theirs)}


def test_no_endpoint_and_nothing_that_leaves_already_is_to_be_suspended():
    held = [holder(f"h{n}", noun="endpoint", ends_in=None) for n in range(3)] + [holder("goes", leaving=True)]
    assert "suspend" not in {key[0][0] for key in offered(snapshot(holders=held, waiters=[waiter()]))}


def test_suspending_that_starts_it_no_sooner_is_not_advised():
    """Its node is not the one that the waiter needs."""
    held = [holder(f"h{n}", owner="somebody") for n in range(3)] + [
        holder("mine", units=2, ends_in=30 * HOUR)
    ]
    facts = snapshot(holders=held, waiters=[waiter(units=16, pods=2)])
    assert "suspend" not in {key[0][0] for key in offered(facts)}


def test_a_short_time_limit_is_offered_to_the_second():
    big = waiter("big", units=16, pods=2, queued_at=NOW - 500)
    held = [replace(each, ends_in=each.ends_in // 10 - 7) for each in FULL[:3]]
    facts = snapshot(holders=held, waiters=[big, waiter(seconds=2 * HOUR)])
    assert offered(facts)[("time_limit_seconds", 352),].verdict.backfilled


def test_what_is_asked_for_anew_has_the_whole_time_limit():
    """Ten minutes are left of a day: they would fit before the big one starts, the day of a new request does not."""
    big = waiter("big", units=32, pods=4, queued_at=NOW - 500)
    held = [*FULL[:3], holder("x", units=4, ends_in=8 * HOUR)]
    facts = snapshot(holders=held, waiters=[big, waiter(seconds=600, expected_seconds=600)])
    assert offered(facts)[("gpus_per_replica", 4),].verdict.admitted
    kept = offered(facts, time_limit_seconds=24 * HOUR)
    assert not any(each.verdict.admitted for key, each in kept.items() if key[0][0] == "gpus_per_replica")


def test_what_is_asked_for_anew_meets_the_limit_of_who_asks():
    capped = TeamFacts("vision", "vision", user_limit=6)
    facts = snapshot(
        teams=[capped], holders=[*FULL[:3], holder("x", units=4, owner="ana")], waiters=[waiter(owner="bob")]
    )
    assert offered(facts)[("gpus_per_replica", 4),].verdict.admitted
    assert ("gpus_per_replica", 4) not in {key[0] for key in offered(facts, owner="ana")}


def test_levers_of_a_queue_that_is_too_long_are_not_called_all():
    others = [
        waiter(f"o{n}", team="speech", units=6 + n % 3, queued_at=NOW - 1000 + n, seconds=HOUR + 97 * n)
        for n in range(300)
    ]
    mine = waiter(priority=200)
    facts = snapshot([team("vision", 32), team("speech", 32)], holders=FULL, waiters=[*others, mine])
    assert not levers(facts, "w").complete
    assert levers(replace(facts, waiters=(*others[:3], mine)), "w").complete


def test_quota_to_ask_for_is_what_is_missing_and_no_more():
    facts = snapshot([team("vision", 12)], holders=[holder(units=8)], waiters=[waiter()])
    lever = offered(facts)[("ask_for_quota", 4),]
    assert lever.verdict.admitted
    beyond = snapshot([team("vision", 4)], waiters=[waiter()])
    assert ("ask_for_quota", 4) in {key[0] for key in offered(beyond)}


def test_more_quota_is_not_advised_where_no_node_has_room():
    facts = snapshot([team("vision", 12)], nodes={"n1": 8}, holders=[holder(units=8)], waiters=[waiter()])
    assert not any(key[0][0] == "ask_for_quota" for key in offered(facts))


def test_another_pool_in_which_there_is_room():
    facts = snapshot(holders=FULL, waiters=[waiter()])
    free = snapshot(flavor=flavor("t4"))
    taken = snapshot(holders=FULL, flavor=flavor("h100"))
    small = snapshot(nodes={"a": 4}, flavor=flavor("l4"))
    without = snapshot([team("speech", 8)], flavor=flavor("a10"))
    found = offered(
        facts,
        Alternative({"flavor": "t4"}, free), Alternative({"flavor": "h100"}, taken),
        Alternative({"flavor": "l4"}, small), Alternative({"flavor": "a10"}, without),
        Alternative({"capacity": "spot"}, replace(free, capacity_type="spot")),
    )  # fmt: skip
    pools = {key for key in found if key[0][0] in {"flavor", "capacity"}}
    assert pools == {(("flavor", "t4"),), (("capacity", "spot"),)}


def test_a_lever_that_does_not_start_it_now_gives_an_earlier_start():
    facts = snapshot(holders=FULL, waiters=[waiter(units=32, pods=4)])
    lever = offered(facts)[("replicas", 2),]
    assert not lever.verdict.admitted
    assert lever.estimate.p90 == NOW + 2 * HOUR
    assert estimate(facts, "w").p90 == NOW + 4 * HOUR


def test_who_is_admitted_needs_no_lever():
    assert levers(snapshot(waiters=[waiter()]), "w") == Levers((), complete=True)


def test_a_stopped_queue_has_no_lever_but_another_pool():
    stopped = TeamFacts("vision", "vision", stopped="maintenance")
    facts = snapshot(teams=[stopped], waiters=[waiter()])
    assert levers(facts, "w").levers == ()
    assert len(levers(facts, "w", [Alternative({"flavor": "t4"}, snapshot())]).levers) == 1


def taken(facts, alternatives, name, change, *, whole, owner, share=None):
    """The snapshot when the waiter has really done what the lever says, and its id then; written anew.

    A new request has the `whole` time limit of which the waiter has used a part, and is its maker's.
    """
    waiting = next(each for each in facts.waiters if each.id == name)
    others = tuple(each for each in facts.waiters if each.id != name)
    fields = dict(change)
    if "time_limit_seconds" in fields:
        left = fields["time_limit_seconds"] - (whole - waiting.seconds)
        shorter = replace(waiting, seconds=left, expected_seconds=min(left, waiting.expected_seconds))
        return replace(facts, waiters=(*others, shorter)), name
    if "suspend" in fields:
        holders = tuple(
            replace(each, leaving=True, preemptible=False) if each.id == fields["suspend"] else each
            for each in facts.holders
        )
        return replace(facts, holders=holders), name
    where, beside = facts, list(waiting.beside)
    if "flavor" in fields or "capacity" in fields:
        there = next(each for each in alternatives if each.change == fields)
        where, others = there.snapshot, there.snapshot.waiters
        beside = waiting.beside if there.beside is None else there.beside
    if "gpus_per_replica" in fields and share is not None:
        beside = share(fields["gpus_per_replica"])
    for number, field in enumerate(BESIDE):
        if field in fields:
            beside[number] = units_of(OTHERS[number], fields[field])
    each = fields.get("gpus_per_replica", waiting.units_each)
    replicas = fields.get("replicas", waiting.pods)
    again = replace(
        waiting, id="again", units=each * replicas, units_each=each, pods=replicas, queued_at=facts.now,
        sequence=next(SEQUENCES), seconds=whole, owner=owner,
        expected_seconds=waiting.expected_seconds * whole // waiting.seconds, beside=tuple(beside),
    )  # fmt: skip
    return replace(where, waiters=(*others, again)), "again"


SEQUENCES = count(10**6)


USED_UP, MAKERS = st.sampled_from([0, 600, 20 * HOUR]), st.sampled_from([None, "somebody"])
SEEDS = st.integers(0, 10**6)
PROMISES = drawn(usual=30, soak=2000)


@given(SEEDS, USED_UP, MAKERS)
@settings(max_examples=PROMISES)
def test_each_lever_gives_what_it_promised(seed, used_up, maker):
    facts = random_supply(seed, teams=4, nodes=5, holders=14, waiters=8)
    other = random_supply(seed + 1, teams=4, nodes=5, holders=8, waiters=3)
    keeps_its_promises(facts, other, seed, used_up, maker)


def share_of(units):
    """What a request that leaves it to the portal gets beside so many units."""
    return tuple(units * size for size in SIZES)


@given(SEEDS, USED_UP, MAKERS, st.booleans(), st.booleans())
@settings(max_examples=PROMISES)
def test_each_lever_gives_what_it_promised_where_memory_runs_out_first(
    seed, used_up, maker, left_out, greedy
):
    facts = random_hosts(seed, scarce=True, teams=4, holders=14, waiters=8)
    other = random_hosts(seed + 1, scarce=True, teams=4, holders=8, waiters=3)
    if greedy:
        # More than any node has, of what the first of them asks for.
        first, *rest = facts.waiters
        most = tuple(30 * each for each in first.beside)
        facts = replace(facts, waiters=(replace(first, beside=most), *rest))
    keeps_its_promises(facts, other, seed, used_up, maker, share=share_of if left_out else None)


def keeps_its_promises(facts, other, seed, used_up, maker, *, share=None):
    other = replace(other, waiters=tuple(replace(each, id=f"other-{each.id}") for each in other.waiters))
    name = facts.waiters[seed % len(facts.waiters)].id
    asker = next(each for each in facts.waiters if each.id == name)
    there = None if share is None else share(asker.units_each)
    alternatives = [Alternative({"flavor": "other"}, other, there)]
    whole, owner = asker.seconds + used_up, maker or asker.owner
    base = estimate(facts, name)
    asked = {"time_limit_seconds": whole, "owner": maker, "share": share}
    given_all = levers(facts, name, alternatives, **asked, cycle_plan=plan(facts), base=base)
    assert levers(facts, name, alternatives, **asked) == given_all
    found = given_all.levers
    assert len(found) <= MOST
    assert len({tuple(each.change) for each in found}) == len(found)
    for lever in found:
        if "ask_for_quota" in lever.change:
            for lend in (True, False):
                last = replace(asker, queued_at=facts.now, sequence=next(SEQUENCES))
                others = [each for each in facts.waiters if each.id != name]
                moved = replace(facts, waiters=(*others, last))
                richer = with_quota(moved, last, lever.change["ask_for_quota"], lend=lend)
                assert judge(richer, name).admitted
            continue
        change = lever.change
        moved, identity = taken(facts, alternatives, name, change, whole=whole, owner=owner, share=share)
        verdict, start = judge(moved, identity), estimate(moved, identity)
        assert (verdict.outcome, verdict.rule, start.p90) == (
            lever.verdict.outcome,
            lever.verdict.rule,
            lever.estimate.p90,
        )
        assert verdict.admitted or base.p90 is None or start.p90 < base.p90


@given(st.integers(0, 10**6), st.integers(1, 9))
@settings(max_examples=drawn(usual=40, soak=1000))
def test_more_quota_in_a_supply_is_more_nominal_quota(seed, more):
    limits = [
        cohort("c", "r", lending=(None, 3)[seed % 2]), cohort("r"),
        team("vision", 8 + seed % 5, "c", borrowing=(None, 2)[seed // 2 % 2]), team("speech", 8, "c"),
        team("audio", 8, "r"),
    ]  # fmt: skip
    held = [holder(f"h{n}", "vision", 4) for n in range(seed % 3)]
    facts = snapshot(limits, holders=held, waiters=[waiter()])
    asked = [replace(each, nominal=each.nominal + more) if each.name == "vision" else each for each in limits]
    truth = snapshot(asked, holders=held, waiters=[waiter()])
    lent = with_quota(facts, facts.waiters[0], more, lend=True)
    account = {each.name: each for each in truth.accounts}["vision"]
    grown = {each.name: each for each in lent.accounts}["vision"]
    kept = {each.name: each for each in with_quota(facts, facts.waiters[0], more, lend=False).accounts}[
        "vision"
    ]
    assert grown.guaranteed == kept.guaranteed == account.guaranteed
    assert grown.used == kept.used == account.used
    if seed % 2 == 0:
        assert lent.accounts == truth.accounts
