"""Who is first in line, and who must not block the others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.admission import scheduler
from foundation import clock
from jobs.models import TrainingRun
from jobs.specs import TrainingRunSpec
from policy import judge
from policy.judge import plan
from quotas import snapshots
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.teams import make_member
from tests.factories.workloads import make_workload, put_in
from workloads.locks import lock
from workloads.models import Workload
from workloads.states import Desired, Phase, Priority, Reason

pytestmark = pytest.mark.django_db

NOW = clock.now()


class Line:
    def __init__(self, nominal=8):
        member = make_member()
        self.team, self.owner, self.flavor = member.team, member.user, make_flavor()
        self.quota = make_quota(self.team, self.flavor, nominal)
        make_node(units=8)

    def stand(self, name, units=1, *, seconds=0, priority=Priority.NORMAL, time_limit_seconds=600, **changes):
        """A queued run that came `seconds` after the start."""
        at = NOW + timedelta(seconds=seconds)
        workload = make_workload(
            name=name,
            team=self.team,
            owner=self.owner,
            flavor=self.flavor,
            units=units,
            priority=priority,
            time_limit_seconds=time_limit_seconds,
            now=at,
        )
        spec = TrainingRunSpec.from_json(
            {"name": name, "image": "i", "flavor": self.flavor.name, "gpus_per_replica": units}
        )
        TrainingRun.objects.create(workload=workload, spec=spec.to_json())
        return put_in(workload, Phase.QUEUED, **changes) if changes else workload

    def names(self, now=NOW):
        """Those in line in the order of their turns."""
        snapshot = snapshots.pool_snapshot_of(flavor=self.flavor, capacity_type="on-demand", now=now)
        names = {str(row.public_id): row.name for row in Workload.objects.all()}
        return [names[each] for each in plan(snapshot).order]

    def admit(self, workload, now=NOW):
        Workload.objects.filter(pk=workload.pk).update(
            next_reconcile_at=now, lock_token=None, lock_expires_at=None
        )
        locked = lock(public_id=workload.public_id, now=now)
        if locked is None:
            return None
        with self.committing(execute=True):
            return scheduler.admit(locked, now=now)


@pytest.fixture
def line(django_capture_on_commit_callbacks):
    line = Line()
    line.committing = django_capture_on_commit_callbacks
    return line


def test_priority_comes_first_and_then_the_time_in_the_queue_and_then_the_row(line):
    line.stand("low-early", seconds=0, priority=Priority.LOW)
    line.stand("normal-late", seconds=9)
    line.stand("normal-early", seconds=1)
    line.stand("high-late", seconds=20, priority=Priority.HIGH)
    line.stand("low-late", seconds=30, priority=Priority.LOW)
    for number in range(3):
        line.stand(f"same-{number}", seconds=30, priority=Priority.LOW)
    first = ["high-late", "normal-early", "normal-late", "low-early", "low-late"]
    assert line.names() == [*first, "same-0", "same-1", "same-2"]


def test_position_counts_those_who_are_really_before_it(line):
    line.admit(line.stand("running", 8))
    line.stand("high", seconds=5, priority=Priority.HIGH)
    mine = line.stand("mine", seconds=3)
    line.stand("later", seconds=4)
    snapshot = snapshots.pool_snapshot_of(
        flavor=mine.flavor, capacity_type=mine.capacity_type, now=NOW, focus=mine
    )
    assert judge.position(snapshot, str(mine.public_id)) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": Reason.EXCEEDS_MAX_QUOTA.value},
        {"reason": Reason.NO_MATCHING_FLAVOR.value},
        {"reason": Reason.BACKOFF_WAITING.value, "rests_until": NOW + timedelta(seconds=60)},
        {"desired": Desired.CANCEL.value},
        {"desired": Desired.SUSPEND.value},
    ],
)
def test_who_cannot_start_does_not_block_those_behind(line, changes):
    line.stand("first", 8, **changes)
    second = line.stand("second", 8, seconds=1)
    assert line.names() == ["second"]
    assert line.admit(second).admitted


def test_after_its_rest_it_has_its_place_again(line):
    rest = NOW + timedelta(seconds=60)
    line.stand("first", reason=Reason.BACKOFF_WAITING.value, rests_until=rest)
    line.stand("second", seconds=1)
    assert line.names(now=rest) == ["first", "second"]


def test_teams_do_not_wait_for_each_other(line):
    make_node("a100-1", units=8)
    line.stand("first", 8)
    other = make_member()
    make_quota(other.team, line.flavor, 8)
    line.team, line.owner = other.team, other.user
    assert line.admit(line.stand("theirs", 8, seconds=9)).admitted


def test_a_pass_admits_everybody_who_fits_whoever_asked_for_it(line):
    first, second = line.stand("first", 2), line.stand("second", 2, seconds=1)
    assert line.admit(second).admitted
    line.quota.refresh_from_db()
    assert line.quota.used == 4
    first.refresh_from_db()
    assert (first.phase, first.next_reconcile_at) == ("Admitted", NOW), "else its GPUs would stand idle"


def test_a_quota_that_was_taken_away_makes_it_wait_and_not_fail(line):
    mine = line.stand("mine")
    line.quota.changes.all().delete()
    line.quota.delete()
    judgement = line.admit(mine)
    mine.refresh_from_db()
    assert (mine.phase, mine.reason) == ("Queued", "NoMatchingFlavor")
    assert "no quota" in judgement.message
