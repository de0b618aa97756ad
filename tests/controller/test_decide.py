"""The table of decisions, branch by branch, and what holds for every decision there can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.reconcile.decide import (
    INTERRUPTIONS_MAX,
    RESYNC_SECONDS,
    Action,
    AttemptFacts,
    Leave,
    ReconcileLimits,
    WorkloadSnapshot,
    decide,
    used_seconds,
)
from tests.effort import drawn
from tests.tables import each_row
from workloads.pods.observation import Observation, PodFacts, ScalerFacts, Stage
from workloads.states import FINAL, HOLDS_CLAIM, IN_CLUSTER, REASONS, Desired, Phase, Reason, can_move

NOW = datetime(2026, 10, 3, 12, tzinfo=UTC)
LIMITS = ReconcileLimits(grace=60, schedule_deadline=600, image_pull_deadline=900)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def attempt(**values):
    facts = {"number": 1, "created_at": ago(30), "started_at": None, "confirmed": True}
    return AttemptFacts(**{**facts, **values})


def row(phase=Phase.RUNNING, **values):
    facts = {
        "noun": "run",
        "ends": True,
        "phase": phase,
        "reason": min(REASONS[phase]),
        "message": "as before",
        "since": ago(30),
        "desired": Desired.RUN,
        "stopping_to": Phase.CANCELLED if phase is Phase.STOPPING else None,
        "stale_generation": False,
        "attempt": attempt() if phase in IN_CLUSTER else None,
        "retries_used": 0,
        "max_retries": 0,
        "interruptions": 0,
        "used_seconds": 0,
        "time_limit_seconds": None,
        "limits": LIMITS,
    }
    return WorkloadSnapshot(**{**facts, **values})


def pod(phase="Running", **values):
    facts = dict.fromkeys(("scheduled_at", "started_at", "finished_at", "deletion_at", "exit_code"), None) | {
        "uid": "u",
        "name": "p",
        "node": "n",
        "phase": phase,
        "ready": False,
        "restarts": 0,
    }
    return PodFacts(**{**facts, "reason": "", "message": "", "resource_version": "1", **values})


ALIVE = (pod(),)
ABSENT = Observation(stage=Stage.ABSENT, reason=Reason.DELETED_EXTERNALLY, message="Gone.", exists=False)


def seen(stage, reason=Reason.PROGRESSING, **values):
    return Observation(stage=stage, reason=reason, message="Seen.", **values)


RUNNING = seen(Stage.RUNNING, pods=ALIVE)
FAILED = seen(Stage.FAILED, Reason.APPLICATION_ERROR, retryable=True, exit_code=1)
LOST = seen(Stage.FAILED, Reason.NODE_LOST, interruption=True, retryable=True)
DELETED = seen(Stage.DEGRADED, interruption=True, cause=Reason.DELETED_EXTERNALLY, pods=ALIVE)

PLACED = [Phase.ADMITTED, Phase.STARTING, Phase.RUNNING]


# --- scaled to zero


def asleep(reason=Reason.SCALED_TO_ZERO, **values):
    return row(Phase.RUNNING, noun="endpoint", ends=False, reason=reason, **values)


ASLEEP = seen(Stage.ASLEEP, Reason.SCALED_TO_ZERO)
COMING = [Stage.CREATING, Stage.SCHEDULING, Stage.PULLING, Stage.INITIALIZING, Stage.LOADING]


@pytest.mark.parametrize("called_ago", [None, 121])
def test_what_nobody_calls_sleeps_and_stays_running(called_ago):
    called_at = None if called_ago is None else ago(called_ago)
    plan = decide(asleep(called_at=called_at), ASLEEP, NOW)
    assert (plan.to, plan.reason, plan.actions) == (Phase.RUNNING, Reason.SCALED_TO_ZERO, ())


def test_a_call_wakes_it_before_its_first_pod_is_there():
    plan = decide(asleep(called_at=ago(1)), ASLEEP, NOW)
    assert (plan.to, plan.reason) == (Phase.RUNNING, Reason.WAKING)


def test_a_call_does_not_wake_what_somebody_holds_at_zero():
    held = replace(ASLEEP, scaler=ScalerFacts(paused=True))
    assert decide(asleep(called_at=ago(1)), held, NOW).reason is Reason.SCALED_TO_ZERO


@pytest.mark.parametrize("reason", [Reason.SCALED_TO_ZERO, Reason.WAKING])
@pytest.mark.parametrize("stage", COMING)
def test_what_comes_back_from_zero_is_waking(stage, reason):
    plan = decide(asleep(reason), seen(stage), NOW)
    assert (plan.to, plan.reason) == (Phase.RUNNING, Reason.WAKING)


@pytest.mark.parametrize(
    ("observed", "since", "phase", "reason"),
    [
        (seen(Stage.LOADING, Reason.RESTARTING, blocked=True), 30, Phase.STARTING, Reason.RESTARTING),
        (seen(Stage.SCHEDULING, Reason.UNSCHEDULABLE), 600, Phase.ADMITTED, Reason.UNSCHEDULABLE),
    ],
    ids=["its pods crash", "no node takes it"],
)
def test_what_cannot_wake_says_so(observed, since, phase, reason):
    plan = decide(asleep(Reason.WAKING, since=ago(since)), observed, NOW)
    assert (plan.to, plan.reason) == (phase, reason)


def test_the_first_start_is_no_waking():
    plan = decide(
        row(Phase.STARTING, ends=False, reason=Reason.PULLING), seen(Stage.LOADING, Reason.LOADING), NOW
    )
    assert (plan.to, plan.reason) == (Phase.STARTING, Reason.LOADING)


# --- outside the cluster


def test_who_waits_asks_to_be_admitted():
    plan = decide(row(Phase.QUEUED, reason=Reason.WAITING_FOR_QUOTA), None, NOW)
    assert plan.actions == (Action.ADMIT,)
    assert plan.to is Phase.QUEUED


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.SUSPENDED])
def test_cancelled_outside_the_cluster_it_ends_at_once(phase):
    plan = decide(row(phase, desired=Desired.CANCEL), None, NOW)
    assert (plan.to, plan.actions, plan.next_in_seconds) == (Phase.CANCELLED, (), None)


def test_suspended_while_queued_it_sleeps():
    plan = decide(row(Phase.QUEUED, desired=Desired.SUSPEND), None, NOW)
    assert (plan.to, plan.next_in_seconds) == (Phase.SUSPENDED, None)


def test_resumed_it_queues_and_is_looked_at_without_waiting():
    plan = decide(row(Phase.SUSPENDED), None, NOW)
    assert (plan.to, plan.reason, plan.next_in_seconds) == (Phase.QUEUED, Reason.PENDING_EVALUATION, 0)


def test_what_stays_suspended_is_left_alone():
    plan = decide(row(Phase.SUSPENDED, desired=Desired.SUSPEND), None, NOW)
    assert (plan.to, plan.actions, plan.next_in_seconds) == (Phase.SUSPENDED, (), None)


def test_after_an_unsuccessful_search_for_a_node_it_rests_even_if_somebody_wakes_it():
    resting = row(Phase.QUEUED, reason=Reason.BACKOFF_WAITING, rests_until=ago(-500))
    plan = decide(resting, None, NOW)
    assert plan.actions == ()
    assert (plan.to, plan.reason) == (Phase.QUEUED, Reason.BACKOFF_WAITING)
    assert plan.next_in_seconds == 500
    rested = replace(resting, rests_until=NOW)
    assert decide(rested, None, NOW).actions == (Action.ADMIT,)
    wish = replace(resting, desired=Desired.CANCEL)
    assert decide(wish, None, NOW).to is Phase.CANCELLED


# --- wishes


@pytest.mark.parametrize("phase", PLACED)
@pytest.mark.parametrize(
    ("desired", "target"), [(Desired.CANCEL, Phase.CANCELLED), (Desired.SUSPEND, Phase.SUSPENDED)]
)
@pytest.mark.parametrize("observed", [RUNNING, ABSENT, FAILED], ids=["running", "absent", "failed"])
def test_a_wish_to_stop_deletes_what_is_there_first(phase, desired, target, observed):
    plan = decide(row(phase, desired=desired), observed, NOW)
    assert (plan.to, plan.reason) == (Phase.STOPPING, Reason.USER_REQUESTED)
    assert plan.actions == (Action.DELETE,)
    assert plan.stopping_to is target


@pytest.mark.parametrize("observed", [RUNNING, seen(Stage.RUNNING), replace(ABSENT, pods=ALIVE)])
def test_stopping_holds_on_until_the_last_pod_is_gone(observed):
    plan = decide(row(Phase.STOPPING, reason=Reason.USER_REQUESTED), observed, NOW)
    assert plan.to is Phase.STOPPING
    assert Action.RELEASE not in plan.actions


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (Phase.CANCELLED, Reason.USER_REQUESTED),
        (Phase.SUSPENDED, Reason.USER_REQUESTED),
        (Phase.FAILED, Reason.DEADLINE_EXCEEDED),
        (Phase.FAILED, Reason.IMAGE_PULL_FAILED),
        (Phase.FAILED, Reason.INVALID_SPEC),
        (Phase.FAILED, Reason.NODE_LOST),
    ],
)
def test_stopped_it_ends_where_the_stop_was_to_lead(target, reason):
    wish = {Phase.CANCELLED: Desired.CANCEL, Phase.SUSPENDED: Desired.SUSPEND}.get(target, Desired.RUN)
    plan = decide(row(Phase.STOPPING, reason=reason, stopping_to=target, desired=wish), ABSENT, NOW)
    assert (plan.to, plan.reason) == (target, reason)
    assert plan.actions == (Action.END_ATTEMPT, Action.RELEASE)


def test_a_run_that_finishes_before_the_stop_reaches_it_has_succeeded():
    stopping = row(Phase.STOPPING, desired=Desired.CANCEL)
    plan = decide(stopping, seen(Stage.SUCCEEDED, Reason.COMPLETED), NOW)
    assert (plan.to, plan.reason) == (Phase.SUCCEEDED, Reason.COMPLETED)
    still = decide(stopping, seen(Stage.SUCCEEDED, Reason.COMPLETED, pods=ALIVE), NOW)
    assert still.to is Phase.STOPPING


@pytest.mark.parametrize("target", [Phase.ADMITTED, Phase.QUEUED, Phase.SUSPENDED])
def test_cancelled_while_it_is_taken_down_it_ends_cancelled(target):
    reason = Reason.USER_REQUESTED if target is Phase.SUSPENDED else Reason.NODE_LOST
    stopping = row(Phase.STOPPING, reason=reason, stopping_to=target, desired=Desired.CANCEL)
    plan = decide(stopping, ABSENT, NOW)
    assert plan.to is Phase.CANCELLED
    assert plan.actions == (Action.END_ATTEMPT, Action.RELEASE)


@pytest.mark.parametrize("target", [Phase.ADMITTED, Phase.QUEUED])
def test_suspended_while_it_is_taken_down_it_sleeps(target):
    stopping = row(Phase.STOPPING, reason=Reason.NODE_LOST, stopping_to=target, desired=Desired.SUSPEND)
    assert decide(stopping, ABSENT, NOW).to is Phase.SUSPENDED


def test_resumed_while_it_is_being_suspended_it_is_looked_at_again_at_once():
    stopping = row(Phase.STOPPING, reason=Reason.USER_REQUESTED, stopping_to=Phase.SUSPENDED)
    plan = decide(stopping, ABSENT, NOW)
    assert plan.to in {Phase.SUSPENDED, Phase.QUEUED}
    assert plan.next_in_seconds == 0, "nobody would wake it: it would sleep for ever"
    assert Action.RELEASE in plan.actions


# --- making


@pytest.mark.parametrize("facts", [None, attempt(confirmed=False)])
def test_what_is_admitted_is_made_until_all_of_it_is_known_to_be_there(facts):
    plan = decide(row(Phase.ADMITTED, reason=Reason.CREATING, attempt=facts), ABSENT, NOW)
    assert (plan.to, plan.actions) == (Phase.ADMITTED, (Action.CREATE,))


def test_the_next_attempt_keeps_saying_why_there_is_one():
    plan = decide(row(Phase.ADMITTED, reason=Reason.NODE_LOST, attempt=None), ABSENT, NOW)
    assert (plan.reason, plan.message) == (Reason.NODE_LOST, "as before")


@each_row(
    ("observed", "phase", "reason"),
    [
        (seen(Stage.CREATING, Reason.CREATING), Phase.ADMITTED, Reason.CREATING),
        (seen(Stage.SCHEDULING, Reason.SCHEDULING), Phase.ADMITTED, Reason.SCHEDULING),
        (seen(Stage.SCHEDULING, Reason.UNSCHEDULABLE), Phase.ADMITTED, Reason.UNSCHEDULABLE),
        (seen(Stage.PULLING, Reason.PULLING), Phase.STARTING, Reason.PULLING),
        (seen(Stage.PULLING, Reason.IMAGE_PULL_FAILED), Phase.STARTING, Reason.IMAGE_PULL_FAILED),
        (seen(Stage.INITIALIZING, Reason.INITIALIZING), Phase.STARTING, Reason.INITIALIZING),
        (seen(Stage.LOADING, Reason.LOADING), Phase.STARTING, Reason.LOADING),
        (seen(Stage.LOADING, Reason.RESTARTING), Phase.STARTING, Reason.RESTARTING),
        (seen(Stage.RUNNING), Phase.RUNNING, Reason.PROGRESSING),
        (seen(Stage.READY, Reason.READY), Phase.RUNNING, Reason.READY),
        (seen(Stage.DEGRADED, Reason.NODE_LOST), Phase.RUNNING, Reason.DEGRADED),
        (seen(Stage.UPDATING, Reason.UPDATING), Phase.RUNNING, Reason.UPDATING),
    ],
)
@each_row("start", PLACED)
def test_the_phase_follows_how_far_the_objects_have_come(start, observed, phase, reason):
    plan = decide(row(start), observed, NOW)
    assert (plan.to, plan.reason, plan.message, plan.actions) == (phase, reason, "Seen.", ())


@pytest.mark.parametrize("stale", [True, False])
def test_a_changed_wish_in_details_is_applied(stale):
    plan = decide(row(stale_generation=stale, ends=False), seen(Stage.READY, Reason.READY), NOW)
    assert (Action.APPLY in plan.actions) == stale


# --- ends and retries


def test_success_ends_the_attempt_and_gives_the_claim_back():
    plan = decide(row(), seen(Stage.SUCCEEDED, Reason.COMPLETED), NOW)
    assert (plan.to, plan.actions) == (Phase.SUCCEEDED, (Action.END_ATTEMPT, Action.RELEASE))


@pytest.mark.parametrize("observed", [FAILED, seen(Stage.SUCCEEDED, Reason.COMPLETED)])
@pytest.mark.parametrize("phase", PLACED)
def test_an_end_waits_for_the_last_pod(observed, phase):
    plan = decide(row(phase), replace(observed, pods=ALIVE), NOW)
    assert (plan.to, plan.actions) == (phase, ())


@pytest.mark.parametrize("phase", PLACED)
def test_an_interrupted_end_does_not_wait_for_a_pod_that_a_lost_node_keeps(phase):
    plan = decide(row(phase), replace(LOST, pods=ALIVE), NOW)
    assert (plan.to, plan.stopping_to, plan.actions) == (Phase.STOPPING, Phase.ADMITTED, (Action.DELETE,))
    assert (plan.interruption, plan.retry) == (True, False)


@pytest.mark.parametrize(
    ("used", "allowed", "again"), [(0, 0, False), (0, 1, True), (1, 1, False), (2, 3, True)]
)
def test_retries_are_counted_and_end(used, allowed, again):
    plan = decide(row(retries_used=used, max_retries=allowed), FAILED, NOW)
    if again:
        assert (plan.to, plan.reason, plan.retry) == (Phase.ADMITTED, Reason.RESTARTING, True)
        assert plan.actions == (Action.END_ATTEMPT,), "the claim is kept"
        assert f"{allowed - used - 1} retries left" in plan.message
    else:
        assert (plan.to, plan.reason) == (Phase.FAILED, Reason.APPLICATION_ERROR)


@pytest.mark.parametrize("reason", [Reason.OOM_KILLED, Reason.APPLICATION_ERROR, Reason.DEADLINE_EXCEEDED])
def test_what_would_fail_again_is_not_retried(reason):
    plan = decide(row(max_retries=9), seen(Stage.FAILED, reason, retryable=False), NOW)
    assert (plan.to, plan.reason) == (Phase.FAILED, reason)


# --- interruptions


@pytest.mark.parametrize("phase", PLACED)
@pytest.mark.parametrize("observed", [LOST, seen(Stage.DEGRADED, interruption=True, cause=Reason.NODE_LOST)])
def test_a_lost_node_keeps_the_claim_and_uses_no_retry(phase, observed):
    plan = decide(row(phase), observed, NOW)
    assert plan.interruption
    assert not plan.retry
    assert Action.RELEASE not in plan.actions
    assert (plan.to, plan.stopping_to) in {(Phase.ADMITTED, None), (Phase.STOPPING, Phase.ADMITTED)}


@pytest.mark.parametrize("cause", [Reason.SPOT_RECLAIMED, Reason.PREEMPTED])
@pytest.mark.parametrize("stage", [Stage.DEGRADED, Stage.SCHEDULING, Stage.FAILED])
def test_reclaimed_capacity_gives_the_claim_back_and_queues_again(cause, stage):
    """As the adapters report it: `cause` before the end, the end's own reason after it."""
    told = {"reason": cause} if stage is Stage.FAILED else {"cause": cause}
    plan = decide(row(), seen(stage, **told, interruption=True), NOW)
    assert (plan.to, plan.reason, plan.stopping_to) == (Phase.STOPPING, cause, Phase.QUEUED)
    assert plan.interruption
    left = row(Phase.STOPPING, reason=cause, stopping_to=Phase.QUEUED)
    after = decide(left, ABSENT, NOW)
    assert (after.to, after.reason, after.next_in_seconds) == (Phase.QUEUED, cause, 0)
    assert after.actions == (Action.END_ATTEMPT, Action.RELEASE)
    assert not after.interruption, "it was counted when it left"


def test_after_a_lost_node_is_left_the_next_attempt_starts_on_the_same_claim():
    left = row(Phase.STOPPING, reason=Reason.NODE_LOST, stopping_to=Phase.ADMITTED)
    plan = decide(left, ABSENT, NOW)
    assert (plan.to, plan.reason, plan.actions) == (Phase.ADMITTED, Reason.NODE_LOST, (Action.END_ATTEMPT,))
    assert (plan.retry, plan.interruption) == (False, False)


@pytest.mark.parametrize("stage", [Stage.DEGRADED, Stage.FAILED])
@pytest.mark.parametrize("count", [INTERRUPTIONS_MAX - 1, INTERRUPTIONS_MAX, INTERRUPTIONS_MAX + 5])
def test_nothing_is_interrupted_for_ever(stage, count):
    plan = decide(row(interruptions=count), seen(stage, Reason.NODE_LOST, interruption=True), NOW)
    ends = Phase.FAILED in {plan.to, plan.stopping_to}
    assert ends == (count >= INTERRUPTIONS_MAX)


def test_an_endpoint_heals_itself():
    lost = seen(Stage.DEGRADED, Reason.DEGRADED, interruption=True, cause=Reason.NODE_LOST)
    plan = decide(row(ends=False), lost, NOW)
    assert (plan.to, plan.reason, plan.actions) == (Phase.RUNNING, Reason.DEGRADED, ())


# --- vanished


@pytest.mark.parametrize("phase", PLACED)
def test_a_vanished_run_has_failed_and_a_vanished_endpoint_is_made_again(phase):
    run = decide(row(phase), ABSENT, NOW)
    assert (run.to, run.reason) == (Phase.FAILED, Reason.DELETED_EXTERNALLY)
    assert Action.RELEASE in run.actions
    endpoint = decide(row(phase, ends=False), ABSENT, NOW)
    assert (endpoint.to, endpoint.actions) == (Phase.ADMITTED, (Action.APPLY,))


@pytest.mark.parametrize("ends", [True, False])
def test_what_has_vanished_but_for_its_pods_is_waited_for(ends):
    plan = decide(row(ends=ends), replace(ABSENT, pods=ALIVE), NOW)
    assert (plan.to, plan.actions) == (Phase.RUNNING, ())


def test_an_endpoint_whose_pods_a_new_object_takes_over_is_made_again_and_serves_meanwhile():
    plan = decide(row(ends=False), replace(ABSENT, pods=ALIVE, adoptable=True), NOW)
    assert (plan.to, plan.reason, plan.actions) == (Phase.RUNNING, row().reason, (Action.APPLY,))


def test_a_stop_waits_for_what_could_make_pods():
    snapshot = row(Phase.STOPPING, ends=False, stopping_to=Phase.SUSPENDED)
    plan = decide(snapshot, replace(ABSENT, left_behind=True), NOW)
    assert (plan.to, plan.actions) == (Phase.STOPPING, (Action.DELETE,))
    assert decide(snapshot, ABSENT, NOW).to is Phase.SUSPENDED


def test_what_is_left_behind_without_its_object_is_stopped_at_its_time_limit():
    snapshot = row(time_limit_seconds=600, attempt=attempt(started_at=ago(601)))
    plan = decide(snapshot, replace(ABSENT, pods=ALIVE), NOW)
    assert (plan.to, plan.reason, plan.stopping_to) == (
        Phase.STOPPING,
        Reason.DEADLINE_EXCEEDED,
        Phase.FAILED,
    )
    assert plan.actions == (Action.DELETE,)


# --- deadlines


@pytest.mark.parametrize(
    ("before", "now", "over"),
    [(0, 599, False), (0, 600, True), (500, 99, False), (500, 100, True), (700, 0, True)],
)
def test_the_time_limit_counts_over_all_attempts(before, now, over):
    facts = attempt(started_at=ago(now))
    snapshot = row(used_seconds=before, time_limit_seconds=600, attempt=facts)
    plan = decide(snapshot, RUNNING, NOW)
    assert used_seconds(snapshot, NOW) == before + now
    if over:
        assert (plan.to, plan.reason) == (Phase.STOPPING, Reason.DEADLINE_EXCEEDED)
        assert plan.stopping_to is Phase.FAILED
        assert "600 seconds" in plan.message
    else:
        assert plan.to is Phase.RUNNING
        assert plan.next_in_seconds == min(RESYNC_SECONDS, 600 - before - now)


def test_an_endpoint_has_no_time_limit():
    facts = attempt(started_at=ago(10**6))
    assert decide(row(ends=False, time_limit_seconds=1, attempt=facts), RUNNING, NOW).to is Phase.RUNNING


@pytest.mark.parametrize("ends", [True, False])
def test_a_gang_of_which_only_a_part_has_nodes_gives_up_its_claim_and_an_endpoint_serves_on(ends):
    snapshot = row(Phase.ADMITTED, since=ago(600), attempt=attempt(created_at=ago(600)), ends=ends)
    part = seen(Stage.SCHEDULING, Reason.UNSCHEDULABLE, pods=ALIVE, ready_replicas=1, desired_replicas=2)
    assert decide(snapshot, part, NOW).to is (Phase.STOPPING if ends else Phase.ADMITTED)


@pytest.mark.parametrize("waited", [599, 600, 6000])
@pytest.mark.parametrize("stage", [Stage.CREATING, Stage.SCHEDULING])
@pytest.mark.parametrize("ends", [True, False])
def test_who_finds_no_node_gives_up_its_claim_and_rests(waited, stage, ends):
    snapshot = row(Phase.ADMITTED, since=ago(waited), attempt=attempt(created_at=ago(waited)), ends=ends)
    plan = decide(snapshot, seen(stage, Reason.UNSCHEDULABLE), NOW)
    if waited < 600:
        assert plan.to is Phase.ADMITTED
        return
    assert (plan.to, plan.reason) == (Phase.STOPPING, Reason.BACKOFF_WAITING)
    assert plan.stopping_to is Phase.QUEUED
    after = decide(row(Phase.STOPPING, reason=Reason.BACKOFF_WAITING, stopping_to=Phase.QUEUED), ABSENT, NOW)
    assert (after.to, after.next_in_seconds) == (Phase.QUEUED, LIMITS.schedule_deadline)
    assert after.rests_until == ago(-LIMITS.schedule_deadline)
    assert Action.RELEASE in after.actions


def test_a_new_attempt_has_its_own_time_to_find_a_node():
    snapshot = row(Phase.ADMITTED, since=ago(5000), attempt=attempt(created_at=ago(5)))
    assert decide(snapshot, seen(Stage.SCHEDULING, Reason.SCHEDULING), NOW).to is Phase.ADMITTED


@pytest.mark.parametrize(("waited", "over"), [(899, False), (900, True)])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("stage", "reason"),
    [(Stage.PULLING, Reason.IMAGE_PULL_FAILED), (Stage.INITIALIZING, Reason.START_ERROR)],
)
def test_what_the_kubelet_tries_in_vain_fails_after_its_deadline(stage, reason, waited, over, ends):
    snapshot = row(Phase.STARTING, reason=reason, since=ago(waited), ends=ends)
    plan = decide(snapshot, seen(stage, reason, blocked=True), NOW)
    assert (plan.stopping_to is Phase.FAILED) == over
    assert plan.reason is reason


def test_a_slow_pull_is_no_failed_one():
    snapshot = row(Phase.STARTING, reason=Reason.PULLING, since=ago(10**6))
    assert decide(snapshot, seen(Stage.PULLING, Reason.PULLING), NOW).to is Phase.STARTING


# --- what holds for every decision

times = st.integers(0, 10**6).map(ago)
reasons = st.sampled_from(list(Reason))


@st.composite
def snapshots(draw):
    phase = draw(st.sampled_from([phase for phase in Phase if phase not in FINAL]))
    facts = st.builds(
        AttemptFacts,
        number=st.just(1),
        created_at=times,
        started_at=st.none() | times,
        confirmed=st.booleans(),
    )
    # What `transition` can have written.
    stopping_to = draw(st.sampled_from(list(STOPS_TO))) if phase is Phase.STOPPING else None
    reason = draw(st.sampled_from(sorted(STOPS_TO[stopping_to] if stopping_to else REASONS[phase])))
    return WorkloadSnapshot(
        noun="run",
        ends=draw(st.booleans()),
        phase=phase,
        reason=reason,
        message=draw(st.sampled_from(["", "as before"])),
        since=draw(times),
        desired=draw(st.sampled_from(list(Desired))),
        stopping_to=stopping_to,
        stale_generation=draw(st.booleans()),
        attempt=draw(st.none() | facts) if phase in IN_CLUSTER else None,
        retries_used=draw(st.integers(0, 5)),
        max_retries=draw(st.integers(0, 5)),
        interruptions=draw(st.integers(0, INTERRUPTIONS_MAX + 2)),
        used_seconds=draw(st.integers(0, 1000)),
        time_limit_seconds=draw(st.none() | st.integers(1, 1000)),
        limits=LIMITS,
    )


STOPS_TO = {
    Phase.CANCELLED: {Reason.USER_REQUESTED},
    Phase.SUSPENDED: {Reason.USER_REQUESTED},
    Phase.ADMITTED: {Reason.NODE_LOST},
    Phase.QUEUED: {Reason.SPOT_RECLAIMED, Reason.PREEMPTED, Reason.BACKOFF_WAITING},
    Phase.FAILED: {Reason.DEADLINE_EXCEEDED, Reason.IMAGE_PULL_FAILED, Reason.INVALID_SPEC, Reason.NODE_LOST},
}

ENDS_OF_RUNS = sorted(REASONS[Phase.FAILED])
INTERRUPTIONS = [Reason.NODE_LOST, Reason.SPOT_RECLAIMED, Reason.PREEMPTED, Reason.DELETED_EXTERNALLY]


@st.composite
def observations(draw):
    """Everything that the adapters can say, and more."""
    stage = draw(st.sampled_from(list(Stage)))
    interruption = draw(st.booleans()) and stage is not Stage.SUCCEEDED
    reason = draw(st.sampled_from(INTERRUPTIONS) if interruption else st.sampled_from(ENDS_OF_RUNS))
    if stage is not Stage.FAILED:
        reason = draw(reasons)
    pods = draw(
        st.lists(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), max_size=3)
    )
    return Observation(
        stage=stage,
        reason=reason,
        message="Seen.",
        exists=stage is not Stage.ABSENT,
        deleting=draw(st.booleans()),
        left_behind=stage is Stage.ABSENT and draw(st.booleans()),
        adoptable=stage is Stage.ABSENT and draw(st.booleans()),
        interruption=interruption,
        cause=draw(st.none() | st.sampled_from(INTERRUPTIONS)) if interruption else None,
        retryable=draw(st.booleans()),
        blocked=draw(st.booleans()),
        pods=tuple(pod(phase) for phase in pods),
        ready_replicas=draw(st.integers(0, 2)),
        desired_replicas=draw(st.integers(0, 2)),
    )


@settings(max_examples=drawn(usual=60, soak=4_000))
@given(snapshots(), observations())
@example(row(max_retries=1), FAILED)
@example(row(), DELETED)
def test_every_decision_is_legal_and_keeps_the_claim_exactly_while_it_is_needed(snapshot, observed):
    in_cluster = snapshot.phase in IN_CLUSTER
    plan = decide(snapshot, observed if in_cluster else None, NOW)
    assert can_move(snapshot.phase, plan.to), (snapshot.phase, plan.to)
    assert plan.reason in REASONS[plan.to], (plan.to, plan.reason)
    assert plan.next_in_seconds is None or plan.next_in_seconds >= 0
    assert (plan.to is Phase.STOPPING) >= (plan.stopping_to is not None)
    if plan.to is Phase.STOPPING and snapshot.phase is not Phase.STOPPING:
        assert plan.stopping_to is not None
    if plan.to in HOLDS_CLAIM:
        assert Action.RELEASE not in plan.actions
    elif in_cluster:
        assert {Action.RELEASE, Action.END_ATTEMPT} <= set(plan.actions)
        assert not (observed.pods_alive and observed.exists), "a pod may still hold its GPUs"
        assert snapshot.phase is not Phase.STOPPING or snapshot.ends or not observed.left_behind
    else:
        assert not {Action.RELEASE, Action.END_ATTEMPT} & set(plan.actions)
    if plan.to not in FINAL and plan.next_in_seconds is None:
        assert plan.to is Phase.SUSPENDED
        assert snapshot.desired is Desired.SUSPEND, "nobody would ever look at it again"


@settings(max_examples=100)
@given(snapshots(), observations(), st.integers(0, 86_400))
def test_the_same_facts_give_the_same_plan(snapshot, observed, later):
    observed = observed if snapshot.phase in IN_CLUSTER else None
    assert decide(snapshot, observed, NOW) == decide(snapshot, observed, NOW)
    decide(snapshot, observed, NOW + timedelta(seconds=later))


# --- stopped by a rule and not by a user


WHY = Leave(Reason.EARLY_STOPPED, "loss 0.9 at 30 % is worse than 0.4.")


def test_what_a_rule_stops_says_which_rule_until_its_end():
    wanted = {"desired": Desired.CANCEL, "wish": WHY}
    stopping = decide(row(Phase.RUNNING, **wanted), RUNNING, NOW)
    assert (stopping.to, stopping.reason, stopping.message) == (Phase.STOPPING, WHY.reason, WHY.message)
    shown = {"reason": WHY.reason, "message": WHY.message, "stopping_to": Phase.CANCELLED}
    gone = decide(row(Phase.STOPPING, **shown, **wanted), ABSENT, NOW)
    assert (gone.to, gone.reason, gone.message) == (Phase.CANCELLED, WHY.reason, WHY.message)


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.SUSPENDED])
def test_what_a_rule_stops_before_it_started_says_so_too(phase):
    plan = decide(row(phase, desired=Desired.CANCEL, wish=WHY), None, NOW)
    assert (plan.to, plan.reason, plan.message) == (Phase.CANCELLED, WHY.reason, WHY.message)


def test_a_rule_that_stops_what_was_being_preempted_is_named_at_the_end():
    shown = {"reason": Reason.PREEMPTING, "message": "For another.", "stopping_to": Phase.QUEUED}
    plan = decide(row(Phase.STOPPING, desired=Desired.CANCEL, wish=WHY, **shown), ABSENT, NOW)
    assert (plan.to, plan.reason, plan.message) == (Phase.CANCELLED, WHY.reason, WHY.message)


def test_what_a_rule_holds_back_and_a_user_suspends_says_that_the_user_did():
    held = Leave(Reason.WAITING_FOR_SWEEP, "At most 2.")
    shown = {"reason": held.reason, "message": held.message, "desired": Desired.SUSPEND}
    assert decide(row(Phase.SUSPENDED, **shown, wish=held), None, NOW).reason is held.reason
    plan = decide(row(Phase.SUSPENDED, **shown), None, NOW)
    assert (plan.to, plan.reason) == (Phase.SUSPENDED, Reason.USER_REQUESTED)
