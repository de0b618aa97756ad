"""Corners of admission in which something was lost, promised twice, or told to the wrong people."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from fractions import Fraction
from threading import Barrier

import pytest
from django.db import connection, transaction

from controller import services as verbs
from controller.admission import preemption, scheduler
from controller.waiting_card import card_of
from foundation import clock
from foundation.errors import Invalid
from policy.verdicts import PreemptionCause, Victim
from quotas import pool_rows, snapshots
from quotas.changes import LimitChange, apply_changes
from quotas.decisions import readable_snapshot
from quotas.limits import stop_queue
from quotas.models import Claim, Decision, Pool, Preemption
from teams.actors import Actor
from tests.controller.looks import look
from tests.factories.catalogue import SETUP, limit, make_flavor, make_node, make_quota
from tests.factories.teams import make_member, make_team
from workloads import services
from workloads.models import NodeRecord, Workload
from workloads.states import Phase, Priority, Reason

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def team(db):
    return make_team("vision")


@pytest.fixture
def user(team):
    return make_member("lead", team=team).user


@pytest.fixture
def flavor(db):
    make_node("a100-0", units=8)
    return make_flavor()


def submit(team, user, flavor, name, **values):
    values = {
        "kind": "training-run",
        "priority": Priority.NORMAL,
        "capacity_type": "on-demand",
        "units": 1,
        "pod_count": 1,
        "preemptible": True,
        "time_limit_seconds": 600,
        "now": clock.now(),
    } | values
    values.setdefault("units_each", values["units"])
    return services.create_workload(
        team=team,
        owner=user,
        name=name,
        flavor=flavor,
        max_retries=0,
        labels={},
        actor="test",
        simulated=True,
        **values,
    )


def pass_over(flavor):
    Pool.objects.filter(flavor=flavor).update(due_at=clock.now())
    return scheduler.pass_over(Pool.objects.select_related("flavor").get(flavor=flavor), now=clock.now())


def move(row, to, reason, **values):
    services.transition(row, to=to, reason=reason, message="", actor="test", now=clock.now(), **values)


def test_more_blocked_runs_than_a_window_shows_starve_nobody_of_their_team(team, user, flavor):
    make_quota(team, flavor, 8)
    holder = submit(
        team, user, flavor, "endpoint", kind="endpoint", units=4, preemptible=False, time_limit_seconds=None
    )
    assert look(holder).admitted
    for number in range(pool_rows.WINDOW + 1):
        submit(team, user, flavor, f"large-{number}", units=8)
    small = submit(team, user, flavor, "small", priority=Priority.LOW)
    assert pass_over(flavor) == 1
    small.refresh_from_db()
    assert small.phase == Phase.ADMITTED


def test_a_user_at_the_own_limit_holds_nobody_up_however_many_runs_wait(team, user, flavor, monkeypatch):
    monkeypatch.setattr(pool_rows, "WINDOW_WITH_USER_LIMIT", 20)
    monkeypatch.setattr(pool_rows, "WINDOW", 20)
    other = make_member(team=team).user
    make_quota(team, flavor, 8)
    limit(team, flavor, user_limit=1)
    for number in range(45):
        submit(team, user, flavor, f"mine-{number}")
    theirs = submit(team, other, flavor, "theirs")
    assert pass_over(flavor) == 2
    theirs.refresh_from_db()
    assert theirs.phase == Phase.ADMITTED


def test_a_run_that_rests_does_not_hold_up_lower_priorities(team, user, flavor):
    make_quota(team, flavor, 8)
    crowd = make_team("crowd")
    make_quota(crowd, flavor, 1)
    for number in range(pool_rows.WINDOW + 2):
        submit(
            crowd, make_member(team=crowd).user if not number else user, flavor, f"crowd-{number}", units=1
        )
    resting = submit(team, user, flavor, "resting", priority=Priority.HIGH)
    Workload.objects.filter(pk=resting.pk).update(
        reason=Reason.BACKOFF_WAITING.value, rests_until=clock.now() + timedelta(hours=1)
    )
    small = submit(team, user, flavor, "small")
    assert look(small).admitted


def test_slices_of_one_card_are_never_promised_twice_by_two_pools_at_once(team, user):
    small = make_flavor("mig-1g", resource="nvidia.com/mig-1g.10gb", fraction=Fraction(3, 7), sharing="mig")
    large = make_flavor("mig-3g", resource="nvidia.com/mig-3g.40gb", fraction=Fraction(4, 7), sharing="mig")
    for each in (small, large):
        each.card = "a100-80gb"
        each.save()
        make_quota(team, each, 7)
    node = make_node("mig-0", units=0)
    NodeRecord.objects.filter(pk=node.pk).update(
        labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "1"},
        allocatable={"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1},
    )
    rows = [
        submit(team, user, small, "small", units=2, units_each=1, pod_count=2),
        submit(team, user, large, "large"),
    ]
    gate = Barrier(2)

    def run(row):
        try:
            gate.wait()
            return look(row)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        verdicts = list(threads.map(run, rows))
    assert sum(verdict.admitted for verdict in verdicts) == 1
    assert Claim.objects.exclude(state="released").count() == 1


def test_what_runs_may_not_be_extended_past_the_longest_limit(team, user, flavor):
    make_quota(team, flavor, 8)
    limit(team, flavor, max_time_limit_seconds=3600)
    run = submit(team, user, flavor, "run")
    assert look(run).admitted
    with transaction.atomic(), pytest.raises(Invalid, match="at most 3600") as refused:
        verbs.change(
            workload=run, priority=None, time_limit_seconds=7200, actor=Actor.of_user(user), now=clock.now()
        )
    assert refused.value.errors[0].field == "time_limit_seconds"


def test_a_run_that_keeps_its_claim_after_a_lost_node_is_not_taken_for_one_that_leaves(team, user, flavor):
    make_quota(team, flavor, 16)
    kept = submit(team, user, flavor, "kept", units=8)
    assert look(kept).admitted
    move(kept, Phase.STOPPING, Reason.NODE_LOST, stopping_to=Phase.ADMITTED)
    other = submit(team, user, flavor, "other", units=8)
    verdict = look(other)
    assert not verdict.admitted
    assert verdict.reason is Reason.TOPOLOGY_PLACEMENT_FAILED


def test_who_was_asked_already_counts_as_leaving(team, user, flavor):
    make_quota(team, flavor, 8)
    low = submit(team, user, flavor, "low", units=8, priority=Priority.LOW)
    assert look(low).admitted
    asked = Victim(str(low.public_id), team.slug, 0, PreemptionCause.IN_CLUSTER_QUEUE)
    preemption.ask_to_leave(victims=[asked], preemptor=None, now=clock.now())
    snapshot = snapshots.pool_snapshot_of(flavor=flavor, capacity_type="on-demand", now=clock.now())
    assert [each.leaving for each in snapshot.holders] == [True]


def test_who_holds_nothing_any_more_is_not_asked_to_leave(team, user, flavor):
    make_quota(team, flavor, 8)
    low = submit(team, user, flavor, "low", units=8)
    assert look(low).admitted
    scheduler.release(low, now=clock.now())
    asked = Victim(str(low.public_id), team.slug, 0, PreemptionCause.IN_CLUSTER_QUEUE)
    preemption.ask_to_leave(victims=[asked], preemptor=None, now=clock.now())
    assert not Preemption.objects.exists()


def test_why_another_teams_queue_is_stopped_is_told_to_nobody_else(team, user, flavor):
    make_quota(team, flavor, 8)
    secret = make_team("secret")
    make_quota(secret, flavor, 8)
    stop_queue(team=secret, reason="Project Falcon is over budget", actor=SETUP, now=clock.now())
    run = submit(team, user, flavor, "run")
    look(run)
    readable = readable_snapshot(Decision.objects.get(), team="vision", named=frozenset())
    assert "Falcon" not in repr(readable)
    assert "secret" not in repr(readable)


def test_a_cut_that_evicts_does_so_however_young_the_runs_are(team, user, flavor):
    make_quota(team, flavor, 8)
    run = submit(team, user, flavor, "run", units=8)
    assert look(run).admitted
    apply_changes(
        changes=[LimitChange(team, flavor, "on-demand", {"nominal": 0})],
        reason="test",
        evicts=True,
        actor=SETUP,
        now=clock.now(),
    )
    assert Preemption.objects.get().cause == PreemptionCause.QUOTA_REDUCED.value


def test_time_spent_suspended_is_no_time_in_the_queue(team, user, flavor):
    run = submit(team, user, flavor, "run", now=clock.now() - timedelta(days=3))
    move(run, Phase.SUSPENDED, Reason.USER_REQUESTED)
    suspended_until = clock.now()
    move(run, Phase.QUEUED, Reason.PENDING_EVALUATION)
    run.refresh_from_db()
    assert run.queued_at >= suspended_until


def test_who_waits_with_a_verdict_sets_off_no_pass_of_its_own(
    team, user, flavor, django_assert_max_num_queries
):
    make_quota(team, flavor, 1)
    look(submit(team, user, flavor, "first"))
    second = submit(team, user, flavor, "second")
    assert not look(second).admitted
    Pool.objects.update(due_at=None)
    with django_assert_max_num_queries(4):
        scheduler.look_again(second, now=clock.now())


def test_the_place_of_somebody_far_behind_counts_all_before_it(team, user, flavor):
    make_quota(team, flavor, 1)
    rows = [submit(team, user, flavor, f"run-{number}") for number in range(pool_rows.WINDOW * 2)]
    assert look(rows[0]).admitted
    places = [
        card_of(each, named=frozenset(), now=clock.now(), with_levers=False).position
        for each in (rows[-1], rows[40])
    ]
    assert places == [len(rows) - 1, 40]


def test_who_is_admitted_while_its_card_is_made_has_none(team, user, flavor):
    """Else it would be counted twice: among what is in use, and on top of it."""
    make_quota(team, flavor, 8)
    read = submit(team, user, flavor, "run")
    assert card_of(read, named=frozenset(), now=clock.now(), with_levers=False).quota_before["used"] == 0
    assert look(Workload.objects.get(pk=read.pk)).admitted
    assert read.phase == Phase.QUEUED
    assert card_of(read, named=frozenset(), now=clock.now(), with_levers=False) is None


def test_numbers_that_changed_are_told_within_a_minute_without_a_receipt_for_each(team, user, flavor):
    make_quota(team, flavor, 8)
    assert look(submit(team, user, flavor, "holder", units=8)).admitted
    waits = submit(team, user, flavor, "waits", units=8)
    look(waits)
    assert "uses 8 of its 8" in waits.message
    make_quota(team, flavor, 12)
    pass_over(flavor)
    waits.refresh_from_db()
    assert "uses 8 of its 12" in waits.message
    assert Decision.objects.filter(workload=waits).count() == 1
    told_at = Pool.objects.get(flavor=flavor).told_at
    # Not with every pass: that would write every row that waits.
    make_quota(team, flavor, 13)
    pass_over(flavor)
    waits.refresh_from_db()
    assert "uses 8 of its 12" in waits.message
    assert Pool.objects.get(flavor=flavor).told_at == told_at
    with clock.freeze(told_at + scheduler.TELL_AFTER):
        pass_over(flavor)
    waits.refresh_from_db()
    assert "uses 8 of its 13" in waits.message


def test_another_rule_within_one_reason_has_a_receipt(team, user, flavor):
    make_quota(team, flavor, 8)
    make_node("a100-1", units=8)
    assert look(submit(team, user, flavor, "holder", units=4)).admitted
    first = submit(team, user, flavor, "first", units=8, priority=Priority.HIGH)
    look(first)
    second = submit(team, user, flavor, "second", units=8, time_limit_seconds=86400)
    look(second)
    Workload.objects.filter(pk=second.pk).update(units=2, units_each=2)
    assert [each.rule for each in Decision.objects.filter(workload=second)] == ["quota"]
    pass_over(flavor)
    second.refresh_from_db()
    assert "it is kept for" in second.message
    assert [each.rule for each in Decision.objects.filter(workload=second).order_by("id")] == [
        "quota",
        "backfill",
    ]
