from __future__ import annotations

from dataclasses import replace

import pytest

from policy.judge import ahead, judge, plan, position
from policy.pool_snapshot import NEW, Beyond, CardFacts, Provisionable, TeamFacts
from policy.verdicts import Outcome
from tests.quotas.pure_world import NOW, cohort, holder, snapshot, team, waiter
from workloads.states import Reason

POOL = "a100-40gb (on-demand)"


def one(changes=None, **facts):
    return judge(snapshot(waiters=[waiter(**(changes or {}))], **facts), "w")


FULL = tuple(holder(f"h{number}", units=8) for number in range(4))
STOPPED = TeamFacts("vision", "vision", stopped="budget is used up")
CAPPED = TeamFacts("vision", "vision", user_limit=8)
CARD = CardFacts("a100", parts=7, per_unit=3, total=28, free=5)


@pytest.mark.parametrize(
    ("changes", "facts", "rule", "reason", "says"),
    [
        ({}, {}, "fits", Reason.CREATING, f"Team vision will use 8 of its 32 {POOL}."),
        ({"units": 0, "team": "nobody"}, {}, "no-gpu", Reason.CREATING, "This run asks for no GPU."),
        ({}, {"capacity_type": "reserved"}, "capacity-type", Reason.NO_MATCHING_FLAVOR, "has no capacity type reserved; it has: on-demand, spot."),
        ({"team": "nobody"}, {}, "no-quota", Reason.NO_MATCHING_FLAVOR, f"Team nobody has no quota for {POOL}."),
        ({"units": 9}, {}, "largest-block", Reason.NO_MATCHING_FLAVOR, f"No node can hold 9 {POOL} in one pod. Nodes that exist: some."),
        ({"units": 9}, {"nodes_seen": False, "nodes": {}}, "nodes-unseen", Reason.TOPOLOGY_PLACEMENT_FAILED, f"Whether a node can hold 9 {POOL} is not known yet"),
        ({}, {"teams": [STOPPED]}, "queue-stopped", Reason.QUEUE_STOPPED, "The queue of team vision is stopped: budget is used up."),
        ({"units": 40, "pods": 5}, {}, "max-quota", Reason.EXCEEDS_MAX_QUOTA, f"needs 40 {POOL}; team vision may use 32 at most: it can borrow none."),
        ({"units": 16, "pods": 2}, {"teams": [CAPPED]}, "max-of-user", Reason.EXCEEDS_MAX_QUOTA, "one member of team vision may use 8 at most"),
        ({}, {"teams": [replace(CAPPED, user_limit=None, max_time_limit_seconds=60)]}, "max-time-limit", Reason.EXCEEDS_MAX_QUOTA, "may run for 3600 s; team vision allows at most 60 s"),
        ({}, {"teams": [CAPPED], "holders": [holder(units=1)]}, "user-limit", Reason.WAITING_FOR_QUOTA, f"Its owner uses 1 of the 8 {POOL} that one member of team vision may use; this run needs 8."),
        ({}, {"limits": [team("vision", 10)], "holders": [holder(units=8)]}, "quota", Reason.WAITING_FOR_QUOTA, f"Team vision uses 8 of its 10 {POOL} and can borrow none now; this run needs 8."),
        ({}, {"nodes": {"a": 8, "b": 8}, "holders": [holder(units=2, placed=(("a", 2),)), holder("i", units=2, placed=(("b", 2),))]}, "blocks", Reason.TOPOLOGY_PLACEMENT_FAILED, f"needs 8 {POOL} on one node; 12 are free, at most 6 on one node."),
        ({"units": 16, "pods": 2}, {"nodes": {"a": 8}, "provisionable": Provisionable(4, 8)}, "blocks", Reason.TOPOLOGY_PLACEMENT_FAILED, "needs 16 a100-40gb (on-demand) in 2 pods of 8 at once; 8 are free, at most 8 on one node; new nodes can bring 8."),
        ({"units": 2}, {"card": CARD}, "cards", Reason.TOPOLOGY_PLACEMENT_FAILED, "a100-40gb can be had now: work on other flavors of the same a100 cards counts too. This run needs 2."),
        ({}, {"holders": (*FULL[:3], replace(FULL[3], leaving=True)), "limits": [team("vision", 40)]}, "leaving", Reason.WAITING_FOR_PREEMPTED_WORKLOADS, "Others are being stopped already; this run takes their place within 60 s."),
        ({"priority": 1000}, {"holders": (*FULL[:3], replace(FULL[3], preemptible=True))}, "preemption", Reason.WAITING_FOR_PREEMPTED_WORKLOADS, "This run starts within 60 s, once others have been stopped for it: 1 of lower priority in team vision."),
        ({"id": NEW}, {"beyond": [Beyond("vision", 500, 7, 56)]}, "beyond", Reason.WAITING_FOR_QUOTA, "7 of team vision wait ahead of this run behind the first of the queue, which alone are looked at now."),
    ],
)  # fmt: skip
def test_each_step_with_its_reason_and_its_numbers(changes, facts, rule, reason, says):
    asked = waiter(**{key: value for key, value in changes.items() if key != "id"})
    verdict = judge(
        snapshot(waiters=[replace(asked, id=changes.get("id", "w"))], **facts), changes.get("id", "w")
    )
    assert (verdict.rule, verdict.reason) == (rule, reason)
    assert says in verdict.message


@pytest.mark.parametrize(
    ("changes", "facts", "field"),
    [
        ({}, {"capacity_type": "reserved"}, "capacity"),
        ({"team": "nobody"}, {}, "flavor"),
        ({"units": 9}, {}, "gpus_per_replica"),
    ],
)
def test_a_refusal_names_the_field_to_change(changes, facts, field):
    verdict = one(changes, **facts)
    assert (verdict.outcome, verdict.field) == (Outcome.NEVER, field)


def test_what_others_borrowed_of_the_own_quota_is_said():
    limits = [cohort("c"), team("vision", 16, "c"), team("speech", 8, "c")]
    facts = snapshot(
        limits,
        holders=[holder("b", "speech", 8), holder("c", "speech", 8)],
        waiters=[waiter(units=16, pods=2)],
    )
    assert (
        f"uses 0 of its 16 {POOL}; of the 16 left, other teams have borrowed all but 8"
        in judge(facts, "w").message
    )


def test_evidence_carries_the_numbers_of_the_moment():
    limits = [cohort("c"), team("vision", 8, "c"), team("speech", 8, "c")]
    verdict = judge(snapshot(limits, holders=[holder(units=8)], waiters=[waiter(units=4)]), "w")
    numbers = {each.fact: each.value for each in verdict.evidence}
    assert numbers == {
        "requested": 4, "guaranteed": 8, "used": 8, "borrowed": 0, "available": 8, "free": 24,
        "largest_free_block": 8, "ahead": 0,
    }  # fmt: skip
    assert verdict.message == f"Team vision will use 12 {POOL}: 8 of its own and 4 borrowed."


def test_headroom_of_the_teams_endpoints_is_lent_to_what_can_be_made_to_leave():
    facts = {
        "limits": [team("vision", 8)],
        "teams": [TeamFacts("vision", "vision", lendable=4)],
        "holders": [holder("e", units=8, noun="endpoint", units_each=1, placed=(("n1", 4),), ends_in=None)],
    }
    assert one({"units": 4, "preemptible": True}, **facts).lent
    assert one({"units": 4}, **facts).rule == "quota"
    assert one({"units": 5, "preemptible": True}, **facts).rule == "quota"
    both = snapshot(
        waiters=[waiter("a", units=3, preemptible=True), waiter("b", units=3, preemptible=True, sequence=1)],
        **facts,
    )
    assert [plan(both).verdicts[each].rule for each in "ab"] == ["headroom", "quota"]


def test_unbound_pods_of_those_who_hold_units_take_their_places_first():
    holders = [holder(units=16, units_each=8, unplaced_pods=1, placed=(("n1", 8),))]
    facts = snapshot(nodes={"n1": 8, "n2": 8}, holders=holders, waiters=[waiter(units=1)])
    assert judge(facts, "w").rule == "blocks"


def order_of(*waiters, **facts):
    return plan(snapshot(waiters=waiters, **facts)).order


TWO = [team("vision", 16), team("speech", 16)]


def test_own_guaranteed_quota_goes_before_borrowing_then_priority_share_and_time():
    limits = [cohort("c"), team("vision", 8, "c"), team("speech", 16, "c"), team("audio", 8)]
    teams = [TeamFacts("audio", "audio", use=10, weight=2), TeamFacts("speech", "speech", use=9)]
    assert order_of(
        waiter("late", "audio", 1, queued_at=NOW),
        waiter("early", "audio", 1, queued_at=NOW - 9),
        waiter("heavy", "speech", 1, queued_at=NOW - 99),
        waiter("urgent", "speech", 1, priority=1000),
        waiter("borrows", "vision", 16, 2, priority=1000),
        limits=limits, teams=teams,
    ) == ("urgent", "early", "late", "heavy", "borrows")  # fmt: skip


def test_a_burst_cannot_win_before_its_use_is_measured():
    burst = [waiter(f"v{number}", "vision", 4, queued_at=NOW - 50) for number in range(3)]
    others = [waiter(f"s{number}", "speech", 4, queued_at=NOW - 10) for number in range(3)]
    assert order_of(*burst, *others, limits=TWO) == ("v0", "s0", "v1", "s1", "v2", "s2")


def test_shares_compare_exactly():
    huge = 10**17
    teams = [
        TeamFacts("vision", "vision", use=huge + 1, weight=3),
        TeamFacts("speech", "speech", use=huge, weight=3),
    ]
    assert order_of(waiter("a", "vision", 1), waiter("b", "speech", 1), limits=TWO, teams=teams) == ("b", "a")


def blocked_world(*more, **facts):
    """Three of four nodes are taken, the last to leave in an hour; `big` needs two whole nodes."""
    holders = [holder(f"h{number}", units=8, ends_in=(number + 1) * 1200) for number in range(3)]
    big = waiter("big", units=16, pods=2, queued_at=NOW - 500)
    return snapshot(holders=holders, waiters=[big, *more], **facts)


def test_a_short_run_goes_past_one_that_waits_and_a_long_one_does_not():
    short = waiter("short", units=8, seconds=1199)
    long = waiter("long", units=8, seconds=1200, expected_seconds=1)
    assert judge(blocked_world(short), "short").backfilled
    verdict = judge(blocked_world(long), "long")
    assert (verdict.rule, verdict.reason) == ("backfill", Reason.WAITING_FOR_QUOTA)
    assert verdict.message.endswith(
        "With a time limit of 1199 s at most it is done before that one starts, and need not wait."
    )


def test_runs_of_one_length_that_keep_coming_do_not_put_off_a_large_one():
    """Of its own team or of another that it shares a cohort with: nobody starts who would end when others do."""
    holders = [holder(f"h{number}", units=4, units_each=1, ends_in=60) for number in range(7)]
    large = waiter("large", units=32, units_each=1, pods=32, priority=1000, seconds=60)
    small = [waiter(f"s{n}", units=1, priority=100, seconds=60, sequence=n) for n in range(4)]
    facts = snapshot(holders=holders, waiters=[large, *small])
    assert plan(facts).admitted == ()
    shorter = [replace(each, seconds=59) for each in small]
    assert len(plan(replace(facts, waiters=(large, *shorter))).admitted) == 4


def test_who_leaves_room_even_then_may_be_long():
    holders = [
        holder("h0", units=8, ends_in=1200),
        holder("h1", units=8, ends_in=1200),
        holder("h2", units=4),
    ]
    big = waiter("big", units=24, pods=3, queued_at=NOW - 500)
    facts = snapshot(
        [team("vision", 48)],
        holders=holders,
        waiters=[big, waiter("long", units=4, seconds=10**6), waiter("wide", units=8, seconds=10**6)],
    )
    verdicts = plan(facts).verdicts
    assert verdicts["big"].rule == "blocks"
    assert verdicts["long"].backfilled
    assert verdicts["wide"].rule == "backfill"


def test_nothing_is_kept_free_for_one_whose_start_nobody_knows():
    endless = [holder(f"h{number}", units=8, ends_in=None, expected_in=None) for number in range(3)]
    big = waiter("big", units=16, pods=2, queued_at=NOW - 500)
    assert judge(snapshot(holders=endless, waiters=[big, waiter("long", seconds=10**6)]), "long").admitted


@pytest.mark.parametrize(
    "rule", ["max-quota", "largest-block", "nodes-unseen", "user-limit", "queue-stopped"]
)
def test_who_cannot_start_however_much_is_free_holds_up_nobody(rule):
    first = waiter("first", "speech", 8, queued_at=NOW - 500, owner="ann")
    limits = [team("speech", 16), team("vision", 32)]
    facts = {"limits": limits, "holders": [holder("s", "speech", 4, owner="ann"), *FULL[:2]]}
    if rule == "max-quota":
        first = replace(first, units=40, pods=5)
    elif rule in {"largest-block", "nodes-unseen"}:
        first = replace(first, units=9, units_each=9)
        facts["nodes_seen"] = rule == "largest-block"
    else:
        limit, stopped = (8, "") if rule == "user-limit" else (None, "maintenance")
        facts["teams"] = [TeamFacts("speech", "speech", user_limit=limit, stopped=stopped)]
    answer = plan(snapshot(waiters=[first, waiter("long", seconds=10**7)], **facts))
    assert answer.verdicts["first"].rule == rule
    assert answer.verdicts["long"].admitted
    assert not answer.verdicts["long"].backfilled
    assert ahead(snapshot(waiters=[first, waiter("long", seconds=10**7)], **facts), "long") == ()


def test_what_is_freed_by_those_who_leave_is_kept_for_who_waits_for_it():
    holders = [*FULL[:3], replace(FULL[3], leaving=True)]
    first = waiter("first", units=8, queued_at=NOW - 500)
    second = waiter("second", units=8)
    verdicts = plan(snapshot([team("vision", 40)], holders=holders, waiters=[first, second])).verdicts
    assert (verdicts["first"].rule, verdicts["second"].rule) == ("leaving", "blocks")


def test_room_that_waits_for_somebody_is_not_given_to_those_behind():
    """n4 is half free; when its other half has left, `first` takes the whole of it."""
    holders = [*FULL[:3], holder("h", units=4, leaving=True)]
    first = waiter("first", units=8, queued_at=NOW - 500)
    verdicts = plan(snapshot(holders=holders, waiters=[first, waiter("second", units=4)])).verdicts
    assert (verdicts["first"].rule, verdicts["second"].rule) == ("leaving", "backfill")


def test_who_has_waited_long_is_not_delayed_by_who_came_later_with_a_smaller_share():
    limits = [team("vision", 32), team("speech", 32)]
    holders = [holder(f"h{number}", units=8, ends_in=1200) for number in range(2)]
    gang = waiter("gang", units=32, pods=4, queued_at=NOW - 3600, seconds=600)
    facts = snapshot(
        limits,
        holders=holders,
        waiters=[
            gang,
            *(
                waiter(f"s{n}", "speech", 1, seconds=length, sequence=n)
                for n, length in enumerate((1199, 1200))
            ),
        ],
        teams=[TeamFacts("vision", "vision", use=10**6)],
    )
    assert plan(facts).order == ("s0", "s1", "gang")
    assert [plan(facts).verdicts[each].rule for each in ("s0", "s1")] == ["fits", "backfill"]
    younger = replace(facts, waiters=(replace(gang, queued_at=NOW - 3599), *facts.waiters[1:]))
    assert plan(younger).verdicts["s1"].admitted
    urgent = replace(
        facts,
        waiters=tuple(replace(each, priority=each.priority + (each.id == "s1")) for each in facts.waiters),
    )
    assert plan(urgent).verdicts["s1"].admitted


def test_place_in_line_counts_those_who_wait_ahead():
    waiters = [
        waiter("big", units=16, pods=2, queued_at=NOW - 500),
        waiter("long", units=8, seconds=9999),
        waiter("last", units=8, seconds=9999, queued_at=NOW),
    ]
    facts = blocked_world(*waiters[1:], beyond=[Beyond("vision", 1000, 3, 3), Beyond("vision", 500, 2, 2)])
    # Those of higher priority that are only counted keep all shown ones waiting.
    assert {verdict.rule for verdict in plan(facts).verdicts.values()} == {"beyond"}
    plain = replace(facts, beyond=(Beyond("vision", 100, 3, 3),))
    assert [position(plain, each.id) for each in waiters] == [1, 2, 3]
    assert ahead(plain, "last") == ("big", "long")
    assert position(facts, "last") == 6
    new = replace(
        plain,
        waiters=(*plain.waiters, waiter(NEW, units=1, sequence=9, queued_at=NOW)),
        beyond=(Beyond("vision", 500, 2, 2),),
    )
    assert position(new, NEW) == 6


def test_nobody_is_not_in_the_plan():
    with pytest.raises(KeyError):
        judge(snapshot(), "w")
    with pytest.raises(KeyError):
        ahead(snapshot(), "w")
