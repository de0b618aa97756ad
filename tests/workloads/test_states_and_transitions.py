from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from foundation import clock
from tests.factories.workloads import make_workload, put_in
from workloads import states
from workloads.bulk.transitions import Move, move_queued
from workloads.errors import InvalidTransition, NameTaken, StaleWorkload
from workloads.models import Workload, WorkloadEvent
from workloads.services import NOTIFY_CHANNEL, end_attempt, set_desired, start_attempt, transition
from workloads.states import FINAL, HOLDS_CLAIM, REASONS, TRANSITIONS, Desired, Phase, Reason

pytestmark = pytest.mark.django_db

ALLOWED = {
    "Queued": {"Admitted", "Suspended", "Cancelled", "Failed"},
    "Admitted": {"Starting", "Running", "Stopping", "Succeeded", "Failed"},
    "Starting": {"Admitted", "Running", "Stopping", "Succeeded", "Failed"},
    "Running": {"Admitted", "Starting", "Stopping", "Succeeded", "Failed"},
    "Stopping": {"Queued", "Admitted", "Suspended", "Cancelled", "Succeeded", "Failed"},
    "Suspended": {"Queued", "Cancelled"},
    "Succeeded": set(),
    "Failed": set(),
    "Cancelled": set(),
}
PAIRS = [(source, target) for source in Phase for target in Phase]


def a_reason(phase: Phase) -> Reason:
    return min(REASONS[phase])


def move(workload, to, reason=None, **values):
    values = {"message": "because", "actor": "tests", "now": clock.now(), **values}
    stopping_to = Phase.CANCELLED if to is Phase.STOPPING else None
    return transition(workload, to=to, reason=reason or a_reason(to), stopping_to=stopping_to, **values)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda phase: phase.value)
def test_every_move_is_either_in_the_table_or_refused_without_a_trace(source, target):
    workload = put_in(make_workload(), source, message="before", reason=a_reason(source))
    legal = target.value in ALLOWED[source.value] or (source == target and ALLOWED[source.value])
    if not legal:
        with pytest.raises(InvalidTransition, match=f"{source}.*{target}"):
            move(workload, target)
        workload.refresh_from_db()
        assert (workload.phase, workload.message) == (source, "before")
        assert workload.events.count() == 1
        return
    assert move(workload, target)
    workload.refresh_from_db()
    assert workload.phase == target
    assert workload.events.count() == (1 if source == target else 2)
    if source != target:
        event = workload.events.latest("id")
        assert (event.from_phase, event.to_phase, event.actor) == (source, target, "tests")


@pytest.mark.parametrize("phase", Phase)
def test_a_reason_is_accepted_only_in_the_phases_it_belongs_to(phase):
    start = next(source for source in Phase if phase in TRANSITIONS[source])
    refuses = put_in(make_workload(), start)
    for reason in Reason:
        if reason in REASONS[phase]:
            assert move(put_in(make_workload(), start), phase, reason), reason
        else:
            with pytest.raises(InvalidTransition, match="is no reason"):
                move(refuses, phase, reason)


def test_every_phase_can_be_reached_and_every_reason_is_used():
    assert {target for targets in TRANSITIONS.values() for target in targets} == set(Phase)
    assert {reason for reasons in REASONS.values() for reason in reasons} == set(Reason)
    assert {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED} == FINAL
    assert not FINAL & HOLDS_CLAIM
    assert set(states.PRIORITY_VALUE) == set(states.Priority)


def test_a_refresh_of_the_same_words_writes_nothing_and_one_of_the_message_alone_no_event():
    workload = make_workload()
    before = clock.now() + timedelta(hours=1)
    assert move(workload, Phase.QUEUED, Reason.WAITING_FOR_QUOTA, now=before)
    assert not move(workload, Phase.QUEUED, Reason.WAITING_FOR_QUOTA, now=before + timedelta(1))
    assert move(workload, Phase.QUEUED, Reason.WAITING_FOR_QUOTA, message="9 of 8", now=before + timedelta(1))
    workload.refresh_from_db()
    assert (workload.since, workload.message) == (before, "9 of 8")
    assert workload.events.count() == 2


def test_a_changed_reason_starts_the_clock_anew_and_leaves_an_event():
    workload = make_workload()
    later = clock.now() + timedelta(minutes=5)
    move(workload, Phase.QUEUED, Reason.EXCEEDS_MAX_QUOTA, now=later)
    workload.refresh_from_db()
    assert workload.since == later
    assert workload.events.latest("id").reason == "ExceedsMaxQuota"


def test_a_move_from_a_phase_that_has_changed_meanwhile_is_stale():
    workload = make_workload()
    other = Workload.objects.get(pk=workload.pk)
    move(other, Phase.ADMITTED)
    with pytest.raises(StaleWorkload):
        move(workload, Phase.CANCELLED)
    assert Workload.objects.get(pk=workload.pk).phase == "Admitted"
    assert workload.events.count() == 2


def test_milestones_tell_when_it_was_admitted_first_ran_and_ended():
    start = clock.now()
    workload = make_workload(now=start)
    times = [start + timedelta(minutes=minute) for minute in range(12)]
    steps = [
        (Phase.ADMITTED, Reason.CREATING),
        (Phase.RUNNING, Reason.PROGRESSING),
        (Phase.STOPPING, Reason.SPOT_RECLAIMED),
        (Phase.QUEUED, Reason.SPOT_RECLAIMED),
        (Phase.ADMITTED, Reason.CREATING),
        (Phase.RUNNING, Reason.PROGRESSING),
        (Phase.SUCCEEDED, Reason.COMPLETED),
    ]
    admitted = []
    for at, (phase, reason) in zip(times, steps, strict=False):
        move(workload, phase, reason, now=at)
        workload.refresh_from_db()
        admitted.append(workload.admitted_at)
    assert admitted[0] == times[0]
    assert admitted[3] is None
    assert workload.admitted_at == times[4]
    assert workload.started_at == times[1]
    assert workload.finished_at == times[6]
    assert workload.queued_at == start, "an interruption keeps the place in the queue"
    assert workload.stopping_to == ""


@pytest.mark.parametrize("phase", sorted(FINAL))
def test_what_is_final_takes_no_wish_and_has_an_end_or_the_database_refuses_it(phase):
    workload = put_in(make_workload(), phase)
    for desired in Desired:
        with pytest.raises(InvalidTransition):
            set_desired(workload, desired=desired, now=clock.now())
    with pytest.raises(IntegrityError, match="workload_final_has_end"), transaction.atomic():
        Workload.objects.filter(pk=workload.pk).update(finished_at=None)


@pytest.mark.parametrize("phase", sorted(FINAL))
@pytest.mark.parametrize("target", ["Queued", "Running", "Suspended"])
def test_the_database_itself_lets_nothing_final_come_back(phase, target):
    workload = put_in(make_workload(), phase)
    with pytest.raises(IntegrityError, match="final"), transaction.atomic():
        Workload.objects.filter(pk=workload.pk).update(phase=target)
    assert Workload.objects.get(pk=workload.pk).phase == phase


def test_a_submission_is_its_row_and_its_event_and_no_savepoint_around_them():
    first = make_workload()
    with CaptureQueriesContext(connection) as made:
        make_workload(team=first.team, owner=first.owner, flavor=first.flavor)
    row, event = (query["sql"] for query in made.captured_queries)
    assert row.startswith('INSERT INTO "workloads_workload"')
    assert "INSERT INTO workloads_workloadevent" in event


def test_a_cancellation_cannot_be_taken_back():
    workload = make_workload()
    set_desired(workload, desired=Desired.CANCEL, now=clock.now())
    for desired in Desired:
        with pytest.raises(InvalidTransition):
            set_desired(workload, desired=desired, now=clock.now())


def test_a_name_is_taken_while_its_workload_lives_and_free_after_its_end():
    first = make_workload(name="resnet")
    again = {"name": "resnet", "team": first.team, "owner": first.owner}
    with pytest.raises(NameTaken, match="resnet"), transaction.atomic():
        make_workload(**again)
    make_workload(**again, kind="endpoint")
    make_workload(name="resnet")
    put_in(first, Phase.SUSPENDED)
    with pytest.raises(NameTaken), transaction.atomic():
        make_workload(**again)
    put_in(first, Phase.CANCELLED)
    second = make_workload(**again)
    assert second.phase == "Queued"
    with pytest.raises(IntegrityError), transaction.atomic():
        Workload.objects.filter(pk=first.pk).update(phase="Queued")


def test_units_without_a_flavor_are_refused_by_the_database():
    with pytest.raises(IntegrityError, match="workload_units_need_flavor"), transaction.atomic():
        make_workload(units=1)


def test_half_a_lock_is_refused_by_the_database():
    workload = make_workload()
    with pytest.raises(IntegrityError, match="workload_lock_paired"), transaction.atomic():
        Workload.objects.filter(pk=workload.pk).update(lock_expires_at=clock.now())


def test_a_second_open_attempt_is_refused_by_the_database():
    workload = make_workload()
    start_attempt(workload, object_name="a", token_digest="", now=clock.now())
    with pytest.raises(IntegrityError, match="attempt_one_open"), transaction.atomic():
        start_attempt(workload, object_name="b", token_digest="", now=clock.now())


def test_an_ended_attempt_adds_its_seconds_once_started_and_forgets_its_token():
    workload = make_workload()
    start = clock.now()
    for seconds in (None, 90, 30):
        attempt = start_attempt(workload, object_name="a", token_digest="digest", now=start)
        attempt.started_at = start if seconds else None
        ended = start + timedelta(seconds=seconds or 500)
        end_attempt(attempt, phase=Phase.FAILED, reason="x", message="", exit_code=1, ended_at=ended)
        assert attempt.run_token_digest == ""
    workload.refresh_from_db()
    assert workload.used_seconds == 120
    assert workload.attempt_number == 3


def connection_parameters() -> dict[str, str]:
    """How psycopg itself reaches the database of the tests."""
    settings = connection.get_connection_params()
    return {key: settings[key] for key in ("host", "port", "dbname", "user", "password") if key in settings}


@pytest.mark.django_db(transaction=True)
def test_listeners_hear_of_a_move_only_when_it_is_committed():
    workload = make_workload()
    with psycopg.connect(**connection_parameters(), autocommit=True) as listener:
        listener.execute(f"LISTEN {NOTIFY_CHANNEL}")
        with transaction.atomic():
            move(workload, Phase.ADMITTED)
            transaction.set_rollback(True)
        workload.refresh_from_db()
        with transaction.atomic():
            move(workload, Phase.QUEUED, Reason.WAITING_FOR_QUOTA)
            assert list(listener.notifies(timeout=0.1)) == []
        told = [json.loads(notice.payload) for notice in listener.notifies(timeout=30, stop_after=1)]
    assert told == [
        {
            "workload": str(workload.public_id),
            "kind": "training-run",
            "team": workload.team.slug,
            "phase": "Queued",
            "reason": "WaitingForQuota",
            "event": WorkloadEvent.objects.latest("pk").pk,
        }
    ]
    assert WorkloadEvent.objects.filter(workload=workload).count() == 2


@pytest.mark.django_db(transaction=True)
def test_listeners_hear_the_number_of_each_of_many_moves_and_none_of_what_moves_nothing():
    workloads = [make_workload() for _ in range(3)]
    with psycopg.connect(**connection_parameters(), autocommit=True) as listener:
        listener.execute(f"LISTEN {NOTIFY_CHANNEL}")
        now = clock.now()
        moves = [
            Move(each.pk, Phase.QUEUED, Reason.WAITING_FOR_QUOTA, f"behind {number}")
            for number, each in enumerate(workloads)
        ]
        with transaction.atomic():
            move_queued(workloads=workloads, moves=moves, actor="tests", now=now)
        told = [json.loads(notice.payload) for notice in listener.notifies(timeout=30, stop_after=3)]
        move(workloads[0], Phase.QUEUED, Reason.WAITING_FOR_QUOTA, message="other words")
        (unmoved,) = listener.notifies(timeout=30, stop_after=1)
    rows = WorkloadEvent.objects.filter(reason="WaitingForQuota").order_by("pk")
    assert [(each["event"], each["workload"]) for each in told] == [
        (row.pk, str(row.workload.public_id)) for row in rows
    ]
    assert len(rows) == 3
    assert "event" not in json.loads(unmoved.payload)
