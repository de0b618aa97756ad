"""What managers decide about a team: limits of quotas, its rules, its queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from quotas.errors import QuotaExceeded
from quotas.limits import LIMITS, limits_of, remove_quota, set_policy, start_queue, stop_queue
from quotas.models import Pool, Quota, QuotaChange, TeamPolicy
from quotas.queries import hit_rate, policy_of
from teams.actors import Actor
from teams.models import AuditEvent, Membership
from teams.services import delete_team
from tests.factories.catalogue import SETUP
from tests.factories.teams import make_member, make_team, make_user
from tests.factories.workloads import make_workload
from tests.quotas.hall import Hall, cohort_of, join_cohort, limits_and_use, usage_of

pytestmark = pytest.mark.django_db

OPEN = {"borrowing_limit": None, "lending_limit": None, "user_limit": None, "max_time_limit_seconds": None}


@pytest.fixture
def hall():
    return Hall(8)


# --- limits


def test_a_change_of_some_limits_leaves_the_others(hall):
    hall.limit(borrowing_limit=2, user_limit=4)
    hall.limit(nominal=12, lending_limit=5)
    hall.limit(user_limit=None, max_time_limit_seconds=3600)
    quota = Quota.objects.get()
    assert limits_of(quota) == {
        "nominal": 12,
        "borrowing_limit": 2,
        "lending_limit": 5,
        "user_limit": None,
        "max_time_limit_seconds": 3600,
    }


def test_every_change_is_kept_once_with_all_limits_before_and_after(hall):
    hall.limit(user_limit=4, reason="fair")
    audited = AuditEvent.objects.count()
    hall.limit(user_limit=4, reason="again, which changes nothing")
    assert AuditEvent.objects.count() == audited
    change, made = QuotaChange.objects.all()
    assert made.before is None
    assert made.after == {"nominal": 8, **OPEN}
    assert change.before == {"nominal": 8, **OPEN}
    assert change.after == {"nominal": 8, **OPEN, "user_limit": 4}
    assert (change.reason, change.actor, change.old_nominal, change.new_nominal) == (
        "fair",
        "system:tests",
        8,
        8,
    )
    event = AuditEvent.objects.filter(action="quota.changed").latest("id")
    assert (event.before, event.after, event.team_slug, event.reason) == (
        {"user_limit": None},
        {"user_limit": 4},
        hall.team.slug,
        "fair",
    )


def test_a_team_without_a_cohort_keeps_limits_that_have_no_effect(hall):
    hall.limit(borrowing_limit=50, lending_limit=2)
    assert limits_and_use(hall.quota) == (8, 8, 0)
    hall.claim(8)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)


def test_a_lending_limit_goes_down_with_the_quota_and_is_never_set_above_it(hall):
    hall.limit(lending_limit=6)
    hall.limit(nominal=4)
    assert Quota.objects.get().lending_limit == 4
    for limits in ({"lending_limit": 5}, {"nominal": 3, "lending_limit": 4}):
        with pytest.raises(Invalid) as refused:
            hall.limit(**limits)
        assert (refused.value.errors[0].field, refused.value.code) == ("lending_limit", "above_nominal")
    hall.limit(nominal=10, lending_limit=9)
    assert Quota.objects.get().lending_limit == 9


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_no_whole_number_in_range_is_refused_by_name(hall, name):
    before = list(Quota.objects.values())
    for value in (-1, 1.5, 2.0, "4", True, 10**10, 2**63, float("nan")):
        with pytest.raises(Invalid) as refused:
            hall.limit(**{name: value})
        assert refused.value.errors[0].field == name, value
    assert list(Quota.objects.values()) == before
    assert QuotaChange.objects.count() == 1


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"nominal": None}, "nominal"),
        ({"nominal": 1_000_001}, "nominal"),
        ({"used": 0}, "used"),
        ({"max_time_limit_seconds": 0}, "max_time_limit_seconds"),
    ],
)
def test_what_is_no_limit_is_refused_by_name(hall, limits, field):
    with pytest.raises(Invalid) as refused:
        hall.limit(**limits)
    assert refused.value.errors[0].field == field


def test_a_new_quota_needs_its_units_a_capacity_type_and_a_reason(hall):
    for values, field in (
        ({"user_limit": 3, "capacity_type": "spot"}, "nominal"),
        ({"nominal": 3, "capacity_type": "reserved"}, "capacity"),
        ({"nominal": 3, "reason": " "}, "reason"),
    ):
        with pytest.raises(Invalid) as refused:
            hall.limit(**values)
        assert refused.value.errors[0].field == field
    assert Quota.objects.count() == 1


def test_only_managers_change_limits(hall):
    member = make_member("lead", team=hall.team)
    for actor in (Actor.of_user(member.user), Actor(user=None, label="anonymous")):
        with pytest.raises(NotAllowed):
            hall.limit(nominal=9, actor=actor)
        with pytest.raises(NotAllowed):
            remove_quota(quota=hall.quota, reason="x", actor=actor, now=clock.now())
    for roles in ({"quota_manager": True}, {"platform_admin": True}):
        hall.limit(nominal=9, actor=Actor.of_user(make_user(**roles)))
    assert hall.facts()[0] == 9


def test_a_person_who_is_named_like_a_part_of_the_portal_is_still_a_person(hall):
    user = make_user()
    with pytest.raises(NotAllowed):
        hall.limit(nominal=9, actor=Actor(user=user, label="system:tests"))


def test_a_change_makes_the_pool_due_and_its_verdicts_old(hall):
    Pool.objects.update(due_at=None)
    before, now = Pool.objects.get().revision, clock.now()
    hall.limit(nominal=9, now=now)
    hall.limit(nominal=9, now=now + timedelta(seconds=5))
    pool = Pool.objects.get()
    assert (pool.due_at, pool.revision) == (now, before + 1)


def test_a_team_with_a_quota_stays(hall):
    with pytest.raises(Conflict):
        delete_team(actor=SETUP, team=hall.team, now=clock.now())


def test_a_quota_is_removed_once(hall):
    remove_quota(quota=hall.quota, reason="unused", actor=SETUP, now=clock.now())
    remove_quota(quota=hall.quota, reason="unused", actor=SETUP, now=clock.now())
    assert not Quota.objects.exists()
    gone = QuotaChange.objects.first()
    assert (gone.before["nominal"], gone.after, gone.quota) == (8, None, None)
    assert (gone.old_nominal, gone.new_nominal) == (8, None)
    assert QuotaChange.objects.count() == 2


# --- rules of a team


def test_a_team_has_the_defaults_until_somebody_changes_them(hall):
    assert (policy_of(hall.team).weight, policy_of(hall.team).high_priority) == (1, "leads")
    assert not TeamPolicy.objects.exists()
    changes = {"weight": 3, "high_priority": "quota-managers", "shows_name": True}
    Pool.objects.update(due_at=None)
    policy = set_policy(team=hall.team, changes=changes, actor=SETUP, now=clock.now())
    assert (policy.weight, policy_of(hall.team).shows_name) == (3, True)
    assert Pool.objects.get().due_at is not None
    events = AuditEvent.objects.filter(action="team.policy")
    set_policy(team=hall.team, changes=changes, actor=SETUP, now=clock.now())
    assert [(each.before, each.after) for each in events] == [
        ({"weight": 1, "high_priority": "leads", "shows_name": False}, changes)
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", 0),
        ("weight", -1),
        ("weight", 1.5),
        ("weight", True),
        ("weight", 10**9),
        ("high_priority", "everybody"),
        ("high_priority", None),
        ("shows_name", "yes"),
        ("queue_stopped_at", None),
    ],
)
def test_a_wrong_rule_is_refused_by_name(hall, name, value):
    with pytest.raises(Invalid) as refused:
        set_policy(team=hall.team, changes={name: value}, actor=SETUP, now=clock.now())
    assert refused.value.errors[0].field == name
    assert not TeamPolicy.objects.exists()


def test_a_lead_sets_no_weight(hall):
    lead = Actor.of_user(make_member("lead", team=hall.team).user)
    with pytest.raises(NotAllowed):
        set_policy(team=hall.team, changes={"weight": 2}, actor=lead, now=clock.now())


# --- its queue


def test_a_queue_is_stopped_with_a_reason_and_started_again(hall):
    lead = make_member("lead", team=hall.team).user
    now = clock.now()
    with pytest.raises(Conflict):
        start_queue(team=hall.team, actor=SETUP, now=now)
    with pytest.raises(Invalid):
        stop_queue(team=hall.team, reason="", actor=SETUP, now=now)
    stop_queue(team=hall.team, reason="maintenance", actor=Actor.of_user(lead), now=now)
    policy = policy_of(hall.team)
    assert (policy.queue_stopped_at, policy.queue_stopped_by, policy.queue_stop_reason) == (
        now,
        lead,
        "maintenance",
    )
    with pytest.raises(Conflict):
        stop_queue(team=hall.team, reason="again", actor=SETUP, now=now)
    Pool.objects.update(due_at=None)
    start_queue(team=hall.team, actor=SETUP, now=now)
    policy = policy_of(hall.team)
    assert (policy.queue_stopped_at, policy.queue_stopped_by, policy.queue_stop_reason) == (None, None, "")
    assert Pool.objects.get().due_at is not None
    events = AuditEvent.objects.filter(action__startswith="queue.").order_by("id")
    assert [(each.action, each.reason) for each in events] == [
        ("queue.stop", "maintenance"),
        ("queue.start", ""),
    ]


@pytest.mark.parametrize(
    ("role", "error"), [("member", NotAllowed), ("viewer", NotAllowed), (None, NotFound)]
)
def test_only_leads_and_managers_stop_a_queue(hall, role, error):
    user = make_user()
    if role:
        make_member(Membership.Role(role), team=hall.team, user=user)
    for attempt in (
        lambda: stop_queue(team=hall.team, reason="x", actor=Actor.of_user(user), now=clock.now()),
        lambda: start_queue(team=hall.team, actor=Actor.of_user(user), now=clock.now()),
    ):
        with pytest.raises(error):
            attempt()
    with pytest.raises(NotAllowed):
        stop_queue(team=hall.team, reason="x", actor=Actor(user=None, label="anonymous"), now=clock.now())
    stop_queue(
        team=hall.team, reason="x", actor=Actor.of_user(make_user(quota_manager=True)), now=clock.now()
    )


# --- how good estimates were


def test_the_hit_rate_is_of_estimates_whose_workload_started_within_a_month(hall):
    now = clock.now()
    assert hit_rate(now=now) is None
    for hit, days, team in (
        (True, 1, hall.team),
        (False, 2, hall.team),
        (True, 3, make_team()),
        (False, 31, hall.team),
    ):
        workload = make_workload(team=team, owner=hall.owner)
        workload.start_estimates.create(
            team=team, queued_at=now, made_at=now, started_at=now - timedelta(days=days), hit=hit
        )
    unknown = make_workload(team=hall.team, owner=hall.owner)
    unknown.start_estimates.create(team=hall.team, queued_at=now, made_at=now, started_at=now)
    assert hit_rate(now=now) == pytest.approx(2 / 3)
    assert hit_rate(team=hall.team, now=now) == pytest.approx(1 / 2)


def test_the_sum_that_a_tree_is_promised_fits_its_counters(hall):
    cohort = cohort_of()
    teams = [make_team(cohort_name=cohort.name) for _ in range(4)]
    # As much as two thousand teams of the largest quotas have.
    Quota.objects.bulk_create(Quota(team=team, flavor=hall.flavor, nominal=500_000_000) for team in teams)
    hall.limit(nominal=0)
    join_cohort(hall.team, cohort.name)
    with pytest.raises(Invalid) as refused:
        hall.limit(nominal=1)
    assert (refused.value.errors[0].field, refused.value.code) == ("nominal", "out_of_range")
    assert usage_of(cohort)[0] == 2_000_000_000
    assert hall.facts()[0] == 0
