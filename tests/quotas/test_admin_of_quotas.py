"""Quotas in the admin console: limits through services, with a trail; what admission wrote only to look at."""

from __future__ import annotations

import pytest
from django.test import Client

from foundation import clock
from policy.verdicts import Outcome, PreemptionCause, Verdict
from quotas.changes import LimitChange, apply_changes
from quotas.decisions import Receipt, record
from quotas.limits import create_cohort, set_policy
from quotas.models import (
    Claim,
    Cohort,
    CohortUsage,
    Decision,
    Pool,
    Preemption,
    Quota,
    QuotaChange,
    QuotaChangeSet,
    QuotaRequest,
    TeamPolicy,
)
from quotas.services import claim
from teams.models import AuditEvent
from tests.effort import spread
from tests.factories.catalogue import SETUP, make_flavor, make_node, make_quota
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_team, make_user
from workloads.states import Reason

pytestmark = pytest.mark.django_db

WRITABLE = [Quota, TeamPolicy, Cohort]
LOOKED_AT = [CohortUsage, QuotaChangeSet, QuotaChange, QuotaRequest, Claim, Preemption, Decision, Pool]


@pytest.fixture
def manager() -> Client:
    client = Client()
    client.force_login(make_user("manager", quota_manager=True))
    return client


@pytest.fixture
def rows():
    """One row at least of everything."""
    now, flavor = clock.now(), make_flavor()
    make_node()
    cohort = create_cohort(name="research", parent=None, actor=SETUP, now=now)
    member = make_member(team=make_team("vision", cohort_name=cohort.name))
    quota = make_quota(member.team, flavor)
    set_policy(team=member.team, changes={"weight": 2}, actor=SETUP, now=now)
    change = LimitChange(member.team, flavor, "on-demand", {"nominal": 9})
    apply_changes(changes=[change], reason="more of them", evicts=False, actor=SETUP, now=now)
    QuotaRequest.objects.create(
        team=member.team, flavor=flavor, capacity_type="on-demand", units=1, until=now, reason="x",
        requested_by=member.user, requested_at=now,
    )  # fmt: skip
    run = make_run(member.team, member.user, flavor=flavor)
    claim(workload=run, quota=quota, units=1, now=now)
    verdict = Verdict(Outcome.ADMIT, Reason.CREATING, "It fits.", "fits")
    record(receipts=[Receipt(run, verdict)], snapshot=None, now=now)
    Preemption.objects.create(
        workload=run, cause=PreemptionCause.QUOTA_REDUCED.value, message="A quota was cut.", at=now
    )


def url(model, rest=""):
    return f"/admin/quotas/{model._meta.model_name}/{rest}"


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("model", spread([*WRITABLE, *LOOKED_AT], usual=4))
def test_lists_and_rows_open_for_a_quota_manager(manager, model):
    row = model.objects.first()
    assert manager.get(url(model)).status_code == 200
    assert manager.get(url(model, f"{row.pk}/change/")).status_code == 200


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("model", spread(LOOKED_AT, usual=3))
def test_what_admission_wrote_is_only_looked_at(manager, model):
    row = model.objects.first()
    before = list(model.objects.values())
    assert manager.get(url(model, "add/")).status_code == 403
    assert manager.post(url(model, f"{row.pk}/change/"), {"reason": "mine", "units": 5}).status_code == 403
    assert manager.post(url(model, f"{row.pk}/delete/"), {"post": "yes"}).status_code == 403
    assert list(model.objects.values()) == before


@pytest.mark.usefixtures("rows")
def test_a_change_set_shows_its_changes(manager):
    made = QuotaChangeSet.objects.get()
    html = manager.get(url(QuotaChangeSet, f"{made.pk}/change/")).content.decode()
    assert "more of them" in html
    assert "a100-40gb" in html
    assert QuotaChange.objects.filter(change_set=made).count() == 1


def limits(**values):
    empty = dict.fromkeys(("borrowing_limit", "lending_limit", "user_limit", "max_time_limit_seconds"), "")
    return {"nominal": 8, "reason": "half a year", **empty, **values}


@pytest.mark.usefixtures("rows")
def test_limits_are_set_with_a_reason(manager):
    page = url(Quota, f"{Quota.objects.get().pk}/change/")
    assert manager.post(page, limits(borrowing_limit=3, user_limit=2)).status_code == 302
    quota = Quota.objects.get()
    assert (quota.nominal, quota.borrowing_limit, quota.lending_limit, quota.user_limit) == (8, 3, None, 2)
    assert QuotaChange.objects.first().reason == "half a year"
    assert manager.post(page, limits(reason="")).status_code == 200  # the form again, with what is missing
    refused = manager.post(page, limits(nominal=4, lending_limit=5, reason="kept as it was typed"))
    assert list(refused.context["adminform"].form.errors) == ["lending_limit"]
    assert "kept as it was typed" in refused.content.decode()
    assert Quota.objects.get().nominal == 8


@pytest.mark.usefixtures("rows")
def test_a_quota_is_made_and_taken_away(manager):
    team, flavor = make_team("speech"), make_flavor("t4", product=None)
    values = limits(team=team.pk, flavor=flavor.pk, capacity_type="spot")
    assert manager.post(url(Quota, "add/"), values).status_code == 302
    made = Quota.objects.get(team=team)
    assert (made.nominal, made.capacity_type) == (8, "spot")
    assert manager.post(url(Quota, f"{made.pk}/delete/"), {"post": "yes"}).status_code == 302
    assert not Quota.objects.filter(team=team).exists()


@pytest.mark.usefixtures("rows")
def test_a_teams_rules_are_changed_with_a_trail(manager):
    policy = TeamPolicy.objects.get()
    values = {"weight": 5, "high_priority": "members", "shows_name": "on"}
    assert manager.post(url(TeamPolicy, f"{policy.pk}/change/"), values).status_code == 302
    policy.refresh_from_db()
    assert (policy.weight, policy.high_priority, policy.shows_name) == (5, "members", True)
    assert AuditEvent.objects.filter(actor_label="manager", action="team.policy").count() == 1
    assert manager.post(url(TeamPolicy, f"{policy.pk}/delete/"), {"post": "yes"}).status_code == 403


@pytest.mark.usefixtures("rows")
def test_cohorts_are_made_moved_and_deleted_and_never_below_themselves(manager):
    research = Cohort.objects.get()
    assert manager.post(url(Cohort, "add/"), {"name": "language", "parent": research.pk}).status_code == 302
    language = Cohort.objects.get(name="language")
    assert language.parent == research
    refused = manager.post(url(Cohort, f"{research.pk}/change/"), {"parent": language.pk}, follow=True)
    assert "cycle" in refused.content.decode()
    assert Cohort.objects.get(name="research").parent is None
    kept = manager.post(url(Cohort, f"{research.pk}/delete/"), {"post": "yes"}, follow=True)
    assert Cohort.objects.count() == 2, kept
    assert manager.post(url(Cohort, f"{language.pk}/delete/"), {"post": "yes"}).status_code == 302
    assert list(Cohort.objects.values_list("name", flat=True)) == ["research"]


@pytest.mark.parametrize("model", spread([*WRITABLE, *LOOKED_AT], usual=3))
def test_a_lead_has_no_business_there(model):
    client = Client()
    client.force_login(make_member("lead").user)
    assert client.get(url(model)).status_code == 302
