"""Changes of many quotas: previewed, applied together or not at all, and taken back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed
from quotas.changes import LimitChange, apply_changes, preview_changes, undo_changes
from quotas.limits import limits_of, remove_quota
from quotas.models import Cohort, CohortUsage, Pool, Preemption, Quota, QuotaChange, QuotaChangeSet
from teams.actors import Actor
from teams.models import AuditEvent
from tests.factories.catalogue import SETUP, make_node
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import put_in
from tests.quotas.hall import ON_DEMAND, Hall, cohort_of, counters_are_right, join_cohort
from workloads.models import Workload
from workloads.services import start_attempt
from workloads.states import Phase, Priority, Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def hall():
    make_node(units=16)
    return Hall(8)


def change(hall, team=None, *, capacity_type=ON_DEMAND, **limits):
    return LimitChange(team or hall.team, hall.flavor, capacity_type, limits)


def apply(*changes, evicts=False, actor=SETUP, reason="a new year"):
    return apply_changes(changes=changes, reason=reason, evicts=evicts, actor=actor, now=clock.now())


def preview(*changes, evicts=False):
    return preview_changes(changes=changes, evicts=evicts, now=clock.now())


def undo(change_set, *, actor=SETUP, reason="a mistake"):
    return undo_changes(change_set=change_set, reason=reason, actor=actor, now=clock.now())


def everything():
    """All that people decided and all that follows from it, but for the history."""
    derived = ("local", "ceiling", "used", "grandfathered")
    return (
        sorted(Quota.objects.values_list("team__slug", "capacity_type", *limits_of(Quota()), *derived)),
        sorted(CohortUsage.objects.values_list("cohort__name", "capacity_type", "guaranteed", *derived)),
    )


def running(hall, units, *, team=None, minutes=60, quota=None):
    """A preemptible run that started so long ago."""
    held = hall.claim(units, workload=hall.workload(units, team=team, preemptible=True), quota=quota)
    attempt = start_attempt(held.workload, object_name="x", token_digest="", now=clock.now())
    attempt.started_at = clock.now() - timedelta(minutes=minutes)
    attempt.save()
    return put_in(held.workload, Phase.RUNNING)


# --- all or nothing


def test_changes_are_applied_together_with_one_reason(hall):
    other = make_team()
    made = apply(change(hall, nominal=4, user_limit=2), change(hall, other, nominal=6, lending_limit=1))
    assert dict(Quota.objects.values_list("team", "nominal")) == {hall.team.pk: 4, other.pk: 6}
    assert (made.actor, made.reason, made.evicts) == ("system:tests", "a new year", False)
    rows = made.changes.order_by("pk")
    assert [(each.team_slug, each.reason, each.new_nominal) for each in rows] == [
        (hall.team.slug, "a new year", 4),
        (other.slug, "a new year", 6),
    ]
    assert AuditEvent.objects.filter(action="quota.changed", reason="a new year").count() == 2


def test_one_wrong_change_takes_all_of_them_back_and_is_named(hall):
    before = everything(), Pool.objects.get().revision
    with pytest.raises(Invalid) as refused:
        apply(change(hall, nominal=4), change(hall, make_team(), nominal=-1))
    assert refused.value.errors[0].field == "changes.1.nominal"
    with pytest.raises(Invalid) as refused:
        apply(change(hall, nominal=4), change(hall, make_team(), nominal=2, lending_limit=3))
    assert refused.value.errors[0].field == "changes.1.lending_limit"
    assert (everything(), Pool.objects.get().revision) == before
    assert not QuotaChangeSet.objects.exists()


def test_a_quota_is_changed_once_in_a_set(hall):
    with pytest.raises(Invalid) as refused:
        apply(change(hall, nominal=4), change(hall, user_limit=4))
    assert (refused.value.errors[0].field, refused.value.code) == ("changes.1", "duplicate")


@pytest.mark.parametrize("changes", [[], [{"nominal": 8}]])
def test_a_set_that_changes_nothing_is_refused(hall, changes):
    with pytest.raises(Invalid) as refused:
        apply(*(change(hall, **each) for each in changes))
    assert refused.value.code == "no_change"
    assert not QuotaChangeSet.objects.exists()


def test_only_managers_apply_and_undo(hall):
    made = apply(change(hall, nominal=4))
    somebody = Actor.of_user(make_user())
    with pytest.raises(NotAllowed):
        apply(change(hall, nominal=5), actor=somebody)
    with pytest.raises(NotAllowed):
        undo(made, actor=somebody)
    for reason in ("", "  "):
        with pytest.raises(Invalid):
            apply(change(hall, nominal=5), reason=reason)
        with pytest.raises(Invalid):
            undo(made, reason=reason)
    assert hall.facts()[0] == 4


# --- taken back


def test_a_set_is_undone_to_the_last_limit(hall):
    cohort = cohort_of()
    join_cohort(hall.team, cohort.name)
    other = hall.member(cohort, nominal=6, borrowing_limit=3, lending_limit=2)
    hall.claim(7)
    before = everything()
    made = apply(
        change(hall, nominal=2, max_time_limit_seconds=60, borrowing_limit=1),
        change(hall, other.team, nominal=1, lending_limit=None),
    )
    assert everything() != before
    back = undo(made)
    assert everything() == before
    assert (back.undoes, back.reason) == (made, "a mistake")
    assert counters_are_right()


def test_a_quota_that_the_set_made_goes_unless_it_was_claimed_from(hall):
    used, unused = make_team(), make_team()
    made = apply(change(hall, used, nominal=3), change(hall, unused, nominal=3, user_limit=1))
    hall.claim(2, quota=Quota.objects.get(team=used))
    undo(made)
    assert not Quota.objects.filter(team=unused).exists()
    assert hall.facts(Quota.objects.get(team=used)) == (0, 2, 2, -2)


def test_what_was_undone_is_undone_once_but_can_be_done_again(hall):
    team = make_team()
    made = apply(change(hall, nominal=3), change(hall, team, nominal=5, user_limit=2))
    after = everything()
    back = undo(made)
    with pytest.raises(Conflict) as refused:
        undo(made)
    assert refused.value.code == "undone_already"
    undo(back)
    assert everything() == after


def test_a_set_whose_quota_was_changed_since_stays(hall):
    made = apply(change(hall, nominal=4))
    hall.limit(nominal=5)
    hall.limit(nominal=4)
    with pytest.raises(Conflict) as refused:
        undo(made)
    assert refused.value.code == "changed_since"
    fresh = apply(change(hall, make_team(), nominal=4))
    remove_quota(quota=fresh.changes.get().quota, reason="x", actor=SETUP, now=clock.now())
    with pytest.raises(Conflict):
        undo(fresh)
    assert QuotaChange.objects.filter(change_set__undoes__isnull=False).count() == 0


# --- preview


def test_a_preview_changes_nothing(hall):
    def rows():
        return (
            everything(),
            QuotaChange.objects.count(),
            AuditEvent.objects.count(),
            list(Pool.objects.values()),
        )

    before = rows()
    preview(change(hall, nominal=3), change(hall, make_team(), nominal=4, capacity_type="spot"), evicts=True)
    assert rows()[0] == before[0]
    assert rows()[1] == before[1]
    assert rows()[3] == before[3]


def test_a_preview_shows_what_is_held_before_and_after(hall):
    hall.claim(6)
    other = make_team()
    seen = preview(change(hall, nominal=4), change(hall, other, nominal=3))
    ours, theirs = seen.rows
    assert (ours.before.quota.nominal, ours.before.available, ours.before.over_use) == (8, 2, 0)
    assert (ours.after.quota.nominal, ours.after.available, ours.after.over_use) == (4, -2, 2)
    assert theirs.before is None
    assert (theirs.after.quota.nominal, theirs.after.available) == (3, 3)


def test_a_preview_says_who_would_wait_and_who_would_start(hall):
    first = hall.workload(4)
    other = hall.limit(make_team(), nominal=1)
    second = hall.workload(3, team=other.team)
    seen = preview(change(hall, nominal=2), change(hall, other.team, nominal=3))
    assert [(each.workload, each.reason) for each in seen.waits] == [(first, "ExceedsMaxQuota")]
    assert "4" in seen.waits[0].message
    assert [each.workload for each in seen.starts] == [second]


def test_a_preview_counts_everybody_who_would_start_however_long_the_line_is(hall):
    for number in range(5):
        make_node(f"more-{number}", units=16)
    for _ in range(72):
        hall.workload(1)
    seen = preview(change(hall, nominal=80))
    assert (len(seen.starts), len(seen.waits)) == (64, 0), "of 72, eight fit before"
    for row in Workload.objects.all()[:3]:
        put_in(row, Phase.QUEUED, reason=Reason.EXCEEDS_MAX_QUOTA.value)
    assert len(preview(change(hall, nominal=80)).starts) == 64


def test_a_preview_says_whether_more_is_promised_than_exists(hall):
    make_node("a100-1", units=8)
    (now,) = preview(change(hall, nominal=24)).promised
    assert (now.before, now.after, now.exist, now.over) == (8, 24, 24, False)
    (now,) = preview(change(hall, nominal=25)).promised
    assert (now.after, now.exist, now.over) == (25, 24, True)
    assert now.revision == Pool.objects.get().revision


def test_a_preview_says_who_would_have_to_leave_and_applying_asks_them(hall):
    long, short = running(hall, 4, minutes=600), running(hall, 4, minutes=10)
    cut = change(hall, nominal=4)
    assert preview(cut).evicted == ()
    seen = preview(cut, evicts=True)
    assert [each.workload for each in seen.evicted] == [short]
    assert seen.evicted[0].lost_seconds == pytest.approx(600, abs=30)
    assert not Preemption.objects.exists()
    apply(cut, evicts=True)
    asked = Preemption.objects.get()
    assert (asked.workload, asked.cause, asked.ended_at) == (short, "QuotaReduced", None)
    assert "cut" in asked.message
    assert hall.facts()[2] == 8
    assert Workload.objects.get(pk=long.pk).preemptions.count() == 0


def test_without_eviction_everybody_goes_on(hall):
    running(hall, 8)
    apply(change(hall, nominal=1))
    assert not Preemption.objects.exists()
    assert hall.facts() == (1, 8, 8, -7)


@pytest.mark.django_db(transaction=True)
def test_who_is_asked_to_leave_is_looked_at_at_once(hall):
    victim = running(hall, 8)
    Workload.objects.update(next_reconcile_at=None)
    apply(change(hall, nominal=1), evicts=True)
    assert Workload.objects.get(pk=victim.pk).next_reconcile_at is not None


def test_a_lender_that_is_cut_lets_borrowers_leave_but_no_more_than_needed(hall):
    cohort = cohort_of()
    join_cohort(hall.team, cohort.name)
    lender = hall.member(cohort, nominal=8)
    runs = [running(hall, 4, minutes=minutes) for minutes in (50, 40, 30)]
    seen = preview(change(hall, lender.team, nominal=2), evicts=True)
    assert [each.workload for each in seen.evicted] == [runs[2]]
    third = hall.member(cohort, nominal=0)
    runs.append(running(hall, 4, team=third.team, quota=third, minutes=20))
    seen = preview(change(hall, lender.team, nominal=4), evicts=True)
    assert len(seen.evicted) == 1


def test_who_waits_before_and_after_is_in_neither_list(hall):
    hall.claim(8)
    hall.workload(4, priority=Priority.HIGH)
    seen = preview(change(hall, nominal=6))
    assert (seen.waits, seen.starts) == ((), ())
    assert Cohort.objects.count() == 0
