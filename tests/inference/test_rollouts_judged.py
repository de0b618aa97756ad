"""What the pods of a new revision say about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inference.rollouts import Bounds, RolloutOutcome, judge
from tests.tables import each_row
from workloads.pods.observation import PodFacts, RolloutFacts

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BOUNDS = Bounds(load=100, image_pull=200, schedule=300, downtime=40)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def rollout(**fields):
    given = {"revision": 2, "updated": 1, "ready": 0, "total": 2, "old": 2, "complete": False, **fields}
    return RolloutFacts(**given)


def pod(reason="Loading", *, since=0, scheduled=True, **fields):
    given = {
        "uid": "u",
        "name": "new",
        "node": "n",
        "phase": "Running",
        "ready": False,
        "restarts": 0,
        "scheduled_at": ago(since) if scheduled else None,
        "started_at": None,
        "finished_at": None,
        "deletion_at": None,
        "exit_code": None,
        "reason": reason,
        "message": "why.",
        "resource_version": "1",
        "revision": 2,
        "waiting_since": ago(since),
        **fields,
    }
    return PodFacts(**given)


def refused(text, since):
    return rollout(updated=0, refused=text, refused_at=ago(since))


@each_row(
    ("facts", "pods", "outcome", "look_in"),
    [
        (rollout(complete=True, ready=2, updated=2, old=0), [], "live", None),
        (rollout(complete=True, total=0, updated=0, old=0), [], "going", None),
        (rollout(), [pod()], "going", None),
        (rollout(), [pod(since=5000)], "going", None),
        (rollout(), [pod("ImagePullFailed", since=199)], "going", 1),
        (rollout(), [pod("ImagePullFailed", since=200)], "failed", None),
        (rollout(), [pod("Restarting", since=99, restarts=2, blocked=True)], "going", 1),
        (rollout(), [pod("Restarting", since=100, restarts=2, blocked=True)], "failed", None),
        (rollout(), [pod("Loading", since=100, restarts=1)], "failed", None),
        (rollout(), [pod("Initializing", since=100, blocked=True)], "failed", None),
        (rollout(), [pod("Unschedulable", since=299, scheduled=False)], "going", 1),
        (rollout(), [pod("Unschedulable", since=300, scheduled=False)], "no-room", None),
        (rollout(), [pod("Restarting", since=999, restarts=9, revision=1)], "going", None),
        (rollout(), [pod("Restarting", since=999, restarts=9, ready=True)], "going", None),
        (rollout(), [pod("Restarting", since=999, restarts=9, deletion_at=NOW)], "going", None),
        (rollout(stuck=True), [pod(since=999)], "failed", None),
        (rollout(stuck=True), [pod("Unschedulable", since=9, scheduled=False)], "no-room", None),
        (refused("violates PodSecurity", 59), [], "going", 1),
        (refused("violates PodSecurity", 60), [], "failed", None),
        (refused("exceeded quota: gpus", 299), [], "going", 1),
        (refused("exceeded quota: gpus", 300), [], "no-room", None),
    ],
)
def test_a_revision_is_judged_by_its_own_pods(facts, pods, outcome, look_in):
    found = judge(facts, pods, BOUNDS, now=NOW)
    assert (found.outcome.value, found.look_in) == (outcome, look_in)


def test_the_fault_is_told_where_another_pod_has_no_room():
    pods = [pod("Unschedulable", since=900, scheduled=False), pod("Restarting", since=900, restarts=1)]
    found = judge(rollout(), pods, BOUNDS, now=NOW)
    assert (found.outcome, found.message) == (
        RolloutOutcome.FAILED,
        "Pod new was not ready for 100 seconds. why.",
    )


@pytest.mark.parametrize(
    ("down", "outcome", "look_in"), [(39, "going", 1), (40, "failed", None), (None, "going", None)]
)
def test_the_announced_downtime_is_kept(down, outcome, look_in):
    since = None if down is None else ago(down)
    found = judge(rollout(old=0), [pod()], BOUNDS, now=NOW, down_since=since)
    assert (found.outcome.value, found.look_in) == (outcome, look_in)


def test_what_is_due_next_says_when_to_look_again():
    pods = [pod("ImagePullFailed", since=150), pod("Restarting", since=30, restarts=1)]
    assert judge(rollout(), pods, BOUNDS, now=NOW).look_in == 50


def test_what_a_pod_did_before_this_revision_had_it_is_not_this_revisions_fault():
    old = pod("Loading", since=100_000, restarts=1)
    assert judge(rollout(), [old], BOUNDS, now=NOW, began=ago(99)).outcome is RolloutOutcome.GOING
    assert judge(rollout(), [old], BOUNDS, now=NOW, began=ago(100)).outcome is RolloutOutcome.FAILED


def test_a_pod_that_was_ready_has_its_budget_from_when_it_ceased_to_be():
    def restarted(seconds):
        return pod("Restarting", since=100_000, restarts=1, unready_at=ago(seconds))

    assert judge(rollout(), [restarted(99)], BOUNDS, now=NOW).look_in == 1
    found = judge(rollout(), [restarted(100)], BOUNDS, now=NOW)
    assert (found.outcome, found.message) == (
        RolloutOutcome.FAILED,
        "Pod new was not ready for 100 seconds. why.",
    )
