"""Members ask for more until a date, managers answer, and it returns by itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from quotas.changes import undo_changes
from quotas.models import Quota, QuotaChange, QuotaRequest
from quotas.requests import (
    approve_request,
    deny_request,
    preview_request,
    request_quota,
    return_due,
    withdraw_request,
)
from quotas.tasks import return_requests
from teams.actors import Actor
from teams.models import AuditEvent
from tests.factories.leases import run_out, taken_over
from tests.factories.teams import make_member, make_user
from tests.quotas.hall import ON_DEMAND, Hall
from tests.waiting import result_of

pytestmark = pytest.mark.django_db

NOW = clock.now()
UNTIL = NOW + timedelta(days=7)


class Desk:
    """A team with 8, a member who asks and a manager who answers."""

    def __init__(self):
        self.hall = Hall(8)
        self.team = self.hall.team
        self.member = Actor.of_user(make_member("member", team=self.team).user)
        self.manager = Actor.of_user(make_user(quota_manager=True))

    def ask(self, units=4, *, actor=None, **values):
        fields = {"capacity_type": ON_DEMAND, "until": UNTIL, "reason": "a paper", "now": NOW, **values}
        return request_quota(
            team=self.team, flavor=self.hall.flavor, units=units, actor=actor or self.member, **fields
        )

    def approve(self, asked, **values):
        fields = {"comment": "good luck", "actor": self.manager, "now": NOW, **values}
        return approve_request(request=asked, **fields)

    def deny(self, asked, **values):
        fields = {"comment": "no room", "actor": self.manager, "now": NOW, **values}
        return deny_request(request=asked, **fields)

    @property
    def nominal(self):
        return Quota.objects.get(team=self.team, capacity_type=ON_DEMAND).nominal


@pytest.fixture
def desk():
    return Desk()


def state_of(asked):
    return QuotaRequest.objects.get(pk=asked.pk).state


def test_what_is_approved_is_on_top_until_its_date_and_returns_once(desk):
    asked = desk.ask(4)
    assert (asked.state, desk.nominal) == ("pending", 8)
    desk.approve(asked)
    assert desk.nominal == 12
    assert return_due(now=UNTIL - timedelta(seconds=1)) == 0
    assert return_due(now=UNTIL) == 1
    assert return_due(now=UNTIL + timedelta(days=1)) == 0
    done = QuotaRequest.objects.get()
    assert (done.state, done.returned_at, done.decided_by, done.comment) == (
        "returned",
        UNTIL,
        desk.manager.user,
        "good luck",
    )
    assert desk.nominal == 8
    back, given = QuotaChange.objects.order_by("-pk")[:2]
    assert (given.old_nominal, given.new_nominal, given.actor) == (8, 12, desk.manager.label)
    assert "a paper" in given.reason
    assert (back.old_nominal, back.new_nominal, back.actor) == (12, 8, "system:quota-requests")
    actions = AuditEvent.objects.filter(target_kind="quota-request").order_by("id")
    assert [each.action.partition(".")[2] for each in actions] == ["create", "approve", "return"]


def test_what_was_approved_is_a_change_set_and_taken_back_it_does_not_return_again(desk):
    asked = desk.approve(desk.ask(4))
    given = asked.change_set
    assert (given.changes.get().new_nominal, given.actor) == (12, desk.manager.label)
    undo_changes(change_set=given, reason="Too much.", actor=desk.manager, now=UNTIL - timedelta(days=1))
    asked.refresh_from_db()
    assert (asked.state, asked.returned_at, desk.nominal) == ("returned", UNTIL - timedelta(days=1), 8)
    assert return_due(now=UNTIL) == 0
    assert desk.nominal == 8


def test_the_preview_of_a_request_is_what_approving_it_does(desk):
    asked = desk.ask(4)
    row = preview_request(request=asked, now=UNTIL - timedelta(days=1)).rows[0]
    assert (row.before.quota.nominal, row.after.quota.nominal, desk.nominal) == (8, 12, 8)
    assert state_of(asked) == "pending"


def test_what_managers_changed_meanwhile_stays(desk):
    desk.approve(desk.ask(4))
    desk.hall.limit(nominal=20)
    return_due(now=UNTIL)
    assert desk.nominal == 16


def test_nothing_returns_below_nothing(desk):
    desk.approve(desk.ask(4))
    desk.hall.limit(nominal=3)
    assert return_due(now=UNTIL) == 1
    assert desk.nominal == 0


def test_what_runs_goes_on_when_quota_returns(desk):
    desk.approve(desk.ask(4))
    desk.hall.claim(11)
    return_due(now=UNTIL)
    assert desk.hall.facts() == (8, 11, 11, -3)


def test_a_request_may_make_a_quota_which_ends_at_nothing(desk):
    desk.approve(desk.ask(3, capacity_type="spot"))
    assert Quota.objects.get(capacity_type="spot").nominal == 3
    return_due(now=UNTIL)
    assert Quota.objects.get(capacity_type="spot").nominal == 0


def test_a_quota_that_is_gone_has_nothing_to_return(desk):
    desk.approve(desk.ask(3, capacity_type="spot"))
    Quota.objects.get(capacity_type="spot").delete()
    assert return_due(now=UNTIL) == 1
    assert not Quota.objects.filter(capacity_type="spot").exists()


def test_two_requests_add_up_and_return_each_at_its_own_date(desk):
    desk.approve(desk.ask(4))
    desk.approve(desk.ask(2, until=UNTIL + timedelta(days=1)))
    assert desk.nominal == 14
    return_due(now=UNTIL)
    assert desk.nominal == 10
    return_due(now=UNTIL + timedelta(days=1))
    assert desk.nominal == 8


def test_what_nobody_answered_by_its_date_expires(desk):
    asked = desk.ask()
    assert return_due(now=UNTIL) == 0
    assert state_of(asked) == "expired"
    with pytest.raises(Conflict):
        desk.approve(asked)
    assert desk.nominal == 8


def test_a_request_is_answered_once(desk):
    asked = desk.ask()
    desk.approve(asked)
    for answer in (desk.approve, desk.deny):
        with pytest.raises(Conflict) as refused:
            answer(asked)
        assert refused.value.code == "decided_already"
    with pytest.raises(Conflict):
        withdraw_request(request=asked, actor=desk.member, now=NOW)
    assert desk.nominal == 12


@pytest.mark.django_db(transaction=True)
def test_of_two_managers_who_approve_at_once_one_is_told_that_it_is_done(desk):
    asked = desk.ask()
    start = threading.Barrier(2)

    def approve():
        start.wait(30)
        try:
            return desk.approve(asked).state
        except Conflict as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        answers = [result_of(each) for each in [pool.submit(approve) for _ in range(2)]]
    assert sorted(answers) == ["approved", "decided_already"]
    assert desk.nominal == 12


def test_a_denied_or_withdrawn_request_gives_nothing(desk):
    denied, withdrawn = desk.ask(), desk.ask()
    assert desk.deny(denied).comment == "no room"
    withdraw_request(request=withdrawn, actor=desk.member, now=NOW)
    assert (state_of(denied), state_of(withdrawn)) == ("denied", "withdrawn")
    assert return_due(now=UNTIL) == 0
    assert desk.nominal == 8


@pytest.mark.parametrize("units", [0, -1, 1.5, "4", True, None, 1_000_001])
def test_units_are_positive_whole_numbers(desk, units):
    with pytest.raises(Invalid) as refused:
        desk.ask(units)
    assert refused.value.errors[0].field == "units"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"until": NOW}, "until"),
        ({"until": NOW - timedelta(days=1)}, "until"),
        ({"until": NOW + timedelta(days=367)}, "until"),
        ({"capacity_type": "reserved"}, "capacity"),
        ({"reason": " "}, "reason"),
    ],
)
def test_a_wrong_request_is_refused_by_name(desk, values, field):
    with pytest.raises(Invalid) as refused:
        desk.ask(**values)
    assert refused.value.errors[0].field == field
    assert not QuotaRequest.objects.exists()


def test_what_came_too_late_is_not_given(desk):
    asked = desk.ask()
    with pytest.raises(Invalid) as refused:
        desk.approve(asked, now=UNTIL)
    assert refused.value.errors[0].field == "until"
    assert state_of(asked) == "pending"


def test_more_than_a_quota_may_be_is_not_given(desk):
    asked = desk.ask(1_000_000)
    with pytest.raises(Invalid) as refused:
        desk.approve(asked)
    assert refused.value.errors[0].field == "nominal"
    assert (state_of(asked), desk.nominal) == ("pending", 8)


def test_members_ask_managers_answer_and_who_asked_withdraws(desk):
    viewer = Actor.of_user(make_member("viewer", team=desk.team).user)
    stranger = Actor.of_user(make_user())
    lead = Actor.of_user(make_member("lead", team=desk.team).user)
    for actor, error in ((viewer, NotAllowed), (stranger, NotFound), (Actor.system("x"), NotAllowed)):
        with pytest.raises(error):
            desk.ask(actor=actor)
    asked = desk.ask(actor=lead)
    for actor in (viewer, stranger, lead, desk.member, Actor(user=None, label="anonymous")):
        with pytest.raises(NotAllowed):
            desk.approve(asked, actor=actor)
        with pytest.raises(NotAllowed):
            desk.deny(asked, actor=actor)
    for actor in (viewer, desk.member, desk.manager, Actor.system("x")):
        with pytest.raises(NotAllowed):
            withdraw_request(request=asked, actor=actor, now=NOW)
    withdraw_request(request=asked, actor=lead, now=NOW)
    assert state_of(asked) == "withdrawn"


def test_a_request_that_is_gone_is_answered_with_that(desk):
    asked = desk.ask()
    QuotaRequest.objects.all().delete()
    with pytest.raises(NotFound):
        desk.approve(asked)


def test_the_periodic_job_returns_what_is_due_and_two_of_it_do_it_once(desk):
    desk.approve(desk.ask(4))
    with clock.freeze(UNTIL):
        return_requests.run()
        run_out()
        return_requests.run()
    assert desk.nominal == 8
    assert QuotaChange.objects.filter(actor="system:quota-requests").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_periodic_job_that_is_overtaken_returns_no_more_and_fails_nobody(desk):
    for _ in range(3):
        desk.approve(desk.ask(4))
    with clock.freeze(UNTIL), taken_over("return-requests", after='UPDATE "quotas_quotarequest"'):
        return_requests.run()
    assert desk.nominal == 8 + 2 * 4


@pytest.mark.parametrize(
    ("constraint", "values"),
    [("quota_request_positive", {"units": 0}), ("quota_request_decided_by_somebody", {"state": "approved"})],
)
def test_each_rule_is_kept_by_the_database_itself(desk, constraint, values):
    desk.ask()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        QuotaRequest.objects.update(**values)


def test_a_quota_manager_gives_any_team_more_for_a_time(desk):
    """Nobody of the team has to ask: what a manager asks for themselves is approved by them, and ends as others do."""
    asked = desk.ask(4, actor=desk.manager)
    desk.approve(asked)
    assert desk.nominal == 12
    return_due(now=UNTIL)
    assert desk.nominal == 8
    with pytest.raises(NotFound):
        desk.ask(4, actor=Actor.of_user(make_user()))
