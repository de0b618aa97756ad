"""Cohorts: what is lent, what is borrowed, and how both follow every change. Kueue's arithmetic."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from quotas.errors import QuotaExceeded
from quotas.limits import create_cohort, delete_cohort, move_cohort, rebalance, set_cohort_limits
from quotas.models import Cohort, CohortUsage, Pool, Quota, QuotaChange
from quotas.queries import team_quotas
from quotas.services import Wanted, claim_many
from teams.actors import Actor
from teams.models import AuditEvent, Team
from teams.services import create_team, update_team
from tests.factories.catalogue import SETUP
from tests.factories.teams import make_team, make_user
from tests.quotas.hall import (
    ON_DEMAND,
    Hall,
    cohort_of,
    counters_are_right,
    free,
    join_cohort,
    limits_and_use,
    usage_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def hall():
    return Hall(8)


@pytest.fixture
def research(hall):
    """A cohort with the hall's team (8)."""
    cohort = cohort_of("research")
    join_cohort(hall.team, "research")
    return cohort


@pytest.fixture
def tree(hall, research):
    """A root, below which are research and vision, and the quota (6) of a team of vision."""
    root = cohort_of("root")
    vision = cohort_of("vision", parent=root)
    other = hall.member(vision, nominal=6)
    move_cohort(cohort=research, parent=root, actor=SETUP, now=clock.now())
    return root, vision, other


def limit_cohort(hall, cohort, *, borrowing=None, lending=None, actor=SETUP, reason="because"):
    return set_cohort_limits(
        cohort=cohort,
        flavor=hall.flavor,
        capacity_type=ON_DEMAND,
        borrowing_limit=borrowing,
        lending_limit=lending,
        reason=reason,
        actor=actor,
        now=clock.now(),
    )


# --- borrowing


def test_a_team_borrows_what_the_others_of_its_cohort_do_not_use(hall, research):
    other = hall.member(research, nominal=4)
    assert usage_of(research) == (12, 12, 0, 0)
    hall.claim(8)
    hall.claim(3)
    assert limits_and_use(hall.quota) == (0, 12, 11)
    hall.claim(1, quota=other)
    for quota in (hall.quota, other):
        with pytest.raises(QuotaExceeded):
            hall.claim(1, quota=quota)
    # A refusal by the cohort, after the team's own quota had room, leaves all as it was.
    assert limits_and_use(other) == (0, 12, 1)
    assert usage_of(research) == (12, 12, 12, 0)
    assert counters_are_right()


def test_what_is_given_back_lowers_the_cohort_by_its_overflow(hall, research):
    hall.limit(lending_limit=3)
    hall.member(research, nominal=4)
    assert limits_and_use(hall.quota) == (5, 12, 0)
    small, big = hall.claim(4), hall.claim(4)
    assert usage_of(research)[2] == 3
    free(big)
    assert usage_of(research)[2] == 0
    free(small)
    assert usage_of(research) == (7, 7, 0, 0)
    assert counters_are_right()


def test_a_lending_limit_keeps_the_rest_for_the_team_itself(hall, research):
    hall.limit(lending_limit=2)
    other = hall.member(research, nominal=4)
    hall.claim(6, quota=other)
    with pytest.raises(QuotaExceeded):
        hall.claim(1, quota=other)
    hall.claim(6)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    assert counters_are_right()


def test_a_borrowing_limit_holds_however_much_is_lent(hall, research):
    other = hall.member(research, nominal=4, borrowing_limit=2)
    hall.claim(6, quota=other)
    with pytest.raises(QuotaExceeded):
        hall.claim(1, quota=other)
    assert limits_and_use(other) == (0, 6, 6)


def test_many_claims_of_several_teams_are_counted_in_their_cohort_once(
    hall, research, django_assert_max_num_queries
):
    other = hall.member(research, nominal=4)
    rows = [hall.workload(2) for _ in range(5)] + [hall.workload(1, team=other.team) for _ in range(2)]
    quotas = [hall.quota] * 5 + [other] * 2
    wanted = [Wanted(row.pk, quota.pk, row.units) for row, quota in zip(rows, quotas, strict=True)]
    with django_assert_max_num_queries(8):
        claim_many(wanted=wanted, now=clock.now())
    assert usage_of(research) == (12, 12, 12, 0)
    more = hall.workload(1)
    with pytest.raises(QuotaExceeded):
        claim_many(wanted=[Wanted(more.pk, hall.quota.pk, 1)], now=clock.now())
    assert counters_are_right()


def test_a_cohort_of_another_flavor_or_capacity_type_lends_nothing(hall, research):
    other = make_team(cohort_name="research")
    hall.limit(other, nominal=50, capacity_type="spot")
    hall.claim(8)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    assert CohortUsage.objects.count() == 2


# --- trees


def test_cohorts_lend_to_each_other_below_one_parent(hall, research, tree):
    root, vision, other = tree
    assert usage_of(root)[:2] == (14, 14)
    hall.claim(14)
    assert [usage_of(each)[2] for each in (research, vision, root)] == [14, 0, 14]
    with pytest.raises(QuotaExceeded):
        hall.claim(1, quota=other)
    assert counters_are_right()


def test_limits_of_a_cohort_bound_what_passes_its_parent(hall, research, tree):
    _, vision, other = tree
    limit_cohort(hall, research, borrowing=3)
    limit_cohort(hall, vision, lending=2)
    hall.claim(10)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    hall.claim(4, quota=other)
    with pytest.raises(QuotaExceeded):
        hall.claim(1, quota=other)
    assert counters_are_right()


def test_a_cohort_that_leaves_its_parent_keeps_what_runs_and_borrows_nothing_more(hall, research, tree):
    root, _, _ = tree
    small, big = hall.claim(3), hall.claim(8)
    moved = move_cohort(cohort=research, parent=None, actor=SETUP, now=clock.now())
    assert moved.parent is None
    assert usage_of(research) == (8, 8, 11, 11)
    assert usage_of(root) == (6, 6, 0, 0)
    assert hall.facts() == (8, 11, 11, -3)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    free(small)
    assert usage_of(research) == (8, 8, 8, 8)
    free(big)
    assert usage_of(research) == (8, 8, 0, 0)
    assert counters_are_right()


def test_no_cohort_is_ever_below_itself(hall):
    top = cohort_of("top")
    middle = cohort_of("middle", parent=top)
    bottom = cohort_of("bottom", parent=middle)
    for cohort, parent in ((top, bottom), (top, middle), (middle, bottom), (top, top)):
        with pytest.raises(Invalid) as refused:
            move_cohort(cohort=cohort, parent=parent, actor=SETUP, now=clock.now())
        (problem,) = refused.value.errors
        assert (problem.field, problem.code) == ("parent", "cycle")
    assert dict(Cohort.objects.values_list("name", "parent__name")) == {
        "top": None,
        "middle": "top",
        "bottom": "middle",
    }


# --- who is in it


def test_a_team_brings_its_quota_and_its_use_and_takes_them_along(hall, research):
    other = hall.member(research, nominal=2)
    hall.claim(7)
    assert usage_of(research)[2] == 7
    join_cohort(hall.team, "")
    assert usage_of(research) == (2, 2, 0, 0)
    assert limits_and_use(hall.quota) == (8, 8, 7)
    hall.claim(2, quota=other)
    join_cohort(hall.team, "research")
    assert usage_of(research) == (10, 10, 9, 0)
    assert limits_and_use(hall.quota) == (0, 10, 7)
    assert counters_are_right()


def test_a_borrower_that_leaves_keeps_what_runs(hall, research):
    hall.member(research, nominal=4)
    hall.claim(10)
    other = cohort_of("other")
    join_cohort(hall.team, "other")
    assert hall.facts() == (8, 10, 10, -2)
    assert usage_of(other) == (8, 8, 10, 10)
    assert usage_of(research) == (4, 4, 0, 0)
    assert counters_are_right()


def test_a_lender_that_leaves_makes_those_who_borrowed_use_too_much(hall, research):
    lender = hall.member(research, nominal=4)
    held = hall.claim(10)
    join_cohort(lender.team, "")
    assert usage_of(research) == (8, 8, 10, 10)
    assert hall.facts()[2] == 10
    hall.claim(4, quota=lender)
    free(held)
    assert usage_of(research) == (8, 8, 0, 0)
    assert counters_are_right()


def test_there_is_no_cohort_but_those_that_were_made(hall):
    with pytest.raises(Invalid) as refused:
        join_cohort(hall.team, "nowhere")
    assert (refused.value.errors[0].field, refused.value.code) == ("cohort", "unknown_cohort")
    with pytest.raises(Invalid):
        create_team(actor=SETUP, slug="newcomers", name="x", cohort_name="nowhere", now=clock.now())
    assert Team.objects.get().cohort_name == ""
    assert not AuditEvent.objects.filter(action="team.update").exists()


def test_a_name_that_changes_nothing_about_cohorts_derives_nothing(
    hall, research, django_assert_max_num_queries
):
    with django_assert_max_num_queries(6):
        update_team(
            actor=SETUP, team=hall.team, changes={"name": "New", "cohort_name": "research"}, now=clock.now()
        )


def test_whatever_moves_makes_its_pools_due_and_its_verdicts_old(hall, research):
    hall.limit(make_team(), nominal=3, capacity_type="spot")
    before = dict(Pool.objects.values_list("capacity_type", "revision"))
    Pool.objects.update(due_at=None)
    join_cohort(hall.team, "")
    after = dict(Pool.objects.values_list("capacity_type", "revision"))
    assert after[ON_DEMAND] > before[ON_DEMAND]
    assert after["spot"] == before["spot"]
    assert list(Pool.objects.filter(due_at__isnull=False).values_list("capacity_type", flat=True)) == [
        ON_DEMAND
    ]


def test_what_is_derived_is_not_lost_by_deriving_it_again(hall, research):
    hall.member(research, nominal=4, lending_limit=1)
    hall.claim(8)
    before = list(Quota.objects.values()), list(CohortUsage.objects.values())
    rebalance(cohort_names=["research"], flavor_id=hall.flavor.pk, capacity_type=ON_DEMAND)
    assert (list(Quota.objects.values()), list(CohortUsage.objects.values())) == before
    CohortUsage.objects.update(used=0, guaranteed=0)
    assert not counters_are_right()
    rebalance(cohort_names=["research"], flavor_id=hall.flavor.pk, capacity_type=ON_DEMAND)
    assert (list(Quota.objects.values()), list(CohortUsage.objects.values())) == before


# --- what is refused


@pytest.mark.parametrize("name", ["", "Upper", "-x", "x-", "a b", "a" * 64, "x\n", "ä"])
def test_a_malformed_name_is_refused(name):
    with pytest.raises(Invalid) as refused:
        cohort_of(name)
    assert refused.value.errors[0].field == "name"


def test_a_name_is_taken_once(research):
    with pytest.raises(Conflict):
        cohort_of("research")


def test_a_cohort_with_members_stays(hall, research):
    child = cohort_of("child", parent=research)
    with pytest.raises(Conflict):
        delete_cohort(cohort=research, actor=SETUP, now=clock.now())
    join_cohort(hall.team, "")
    with pytest.raises(Conflict):
        delete_cohort(cohort=research, actor=SETUP, now=clock.now())
    delete_cohort(cohort=child, actor=SETUP, now=clock.now())
    delete_cohort(cohort=research, actor=SETUP, now=clock.now())
    assert not Cohort.objects.exists()
    with pytest.raises(NotFound):
        delete_cohort(cohort=child, actor=SETUP, now=clock.now())
    actions = AuditEvent.objects.filter(target_kind="cohort").values_list("action", flat=True)
    assert sorted(actions) == ["cohort.create"] * 2 + ["cohort.delete"] * 2


@pytest.mark.parametrize(
    "values", [{"borrowing": -1}, {"lending": 1.5}, {"borrowing": 1_000_001}, {"lending": True}]
)
def test_limits_of_a_cohort_are_whole_and_in_range(hall, research, values):
    with pytest.raises(Invalid) as refused:
        limit_cohort(hall, research, **values)
    assert refused.value.errors[0].field == f"{next(iter(values))}_limit"


def test_limits_of_a_cohort_say_who_and_why_once(hall, research):
    limit_cohort(hall, research, borrowing=3, reason="one room")
    limit_cohort(hall, research, borrowing=3, reason="again")
    (change,) = QuotaChange.objects.filter(team_slug="")
    assert change.before == {"cohort": "research", "borrowing_limit": None, "lending_limit": None}
    assert change.after == {"cohort": "research", "borrowing_limit": 3, "lending_limit": None}
    assert (change.reason, change.actor) == ("one room", "system:tests")
    assert AuditEvent.objects.filter(action="cohort.limits").count() == 1


def test_only_managers_touch_cohorts(hall, research):
    somebody, nobody = Actor.of_user(make_user()), Actor(user=None, label="anonymous")
    for actor in (somebody, nobody):
        for attempt in (
            lambda actor=actor: create_cohort(name="x", parent=None, actor=actor, now=clock.now()),
            lambda actor=actor: move_cohort(cohort=research, parent=None, actor=actor, now=clock.now()),
            lambda actor=actor: delete_cohort(cohort=research, actor=actor, now=clock.now()),
            lambda actor=actor: limit_cohort(hall, research, borrowing=1, actor=actor),
        ):
            with pytest.raises(NotAllowed):
                attempt()
    manager = Actor.of_user(make_user(quota_manager=True))
    assert create_cohort(name="x", parent=research, actor=manager, now=clock.now()).parent == research


# --- what is shown


def test_a_teams_figures_say_what_it_borrows_and_lends(hall, research):
    idle, busy = hall.member(research, nominal=6, slug="idle"), hall.member(research, nominal=2, slug="busy")
    hall.claim(2, quota=busy)
    hall.claim(12)
    hall.workload(3)
    (mine,) = team_quotas(hall.team)
    assert (mine.borrowed, mine.lent, mine.pending) == (4, 0, 12 + 3)  # nobody has started the claimed one
    assert (mine.ceiling, mine.available, mine.over_use, mine.cohort) == (16, 2, 0, "research")
    (theirs,) = team_quotas(idle.team)
    assert (theirs.borrowed, theirs.lent, theirs.available) == (0, 4, 2)
    (full,) = team_quotas(busy.team)
    assert (full.borrowed, full.lent, full.available) == (0, 0, 2)


def test_what_is_lent_is_shared_by_all_who_have_it_to_lend(hall, research):
    others = [hall.member(research, nominal=nominal) for nominal in (5, 3, 3)]
    hall.claim(13)
    lent = [team_quotas(each.team)[0].lent for each in others]
    assert sum(lent) == 5
    assert all(0 <= part <= 3 for part in lent)
    assert lent == [2, 2, 1]


def test_the_figures_of_a_team_alone_are_its_own(hall):
    hall.claim(6)
    hall.limit(nominal=4)
    (mine,) = team_quotas(hall.team)
    assert (mine.borrowed, mine.lent, mine.ceiling, mine.available, mine.over_use) == (2, 0, 4, -2, 2)
    assert mine.cohort == ""
