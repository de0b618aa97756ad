"""Teams with quotas of one flavor, and as many workloads as wanted."""

from __future__ import annotations

from django.db.models import Sum

from foundation import clock
from quotas.limits import create_cohort
from quotas.models import Claim, ClaimState, Cohort, CohortUsage, Quota
from quotas.queries import leaks
from quotas.services import Wanted, claim, claim_many, release
from teams.services import update_team
from tests.factories.catalogue import SETUP, limit, make_flavor
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import make_workload, put_in
from workloads.models import Workload
from workloads.states import Phase

ON_DEMAND = "on-demand"


class Hall:
    """One flavor; its teams by slug, the first of them with a quota of `nominal`."""

    def __init__(self, nominal=8, *, slug=None):
        self.owner, self.flavor = make_user(), make_flavor()
        self.team = make_team(slug)
        self.quota = self.limit(self.team, nominal=nominal)

    def limit(self, team=None, *, reason="because", **values):
        return limit(team or self.team, self.flavor, reason=reason, **values)

    def member(self, cohort, *, slug=None, **limits):
        """A team in the cohort with a quota."""
        team = make_team(slug, cohort_name=cohort.name)
        return self.limit(team, **limits)

    def workload(self, units=1, *, team=None, **values):
        return make_workload(
            team=team or self.team, owner=self.owner, flavor=self.flavor, units=units, **values
        )

    def claim(self, units=1, *, quota=None, workload=None, now=None, **values):
        quota = quota or self.quota
        workload = workload or self.workload(units, team=quota.team)
        return claim(workload=workload, quota=quota, units=units, now=now or clock.now(), **values)

    def many(self, *units, quota=None, **values):
        """One claim_many of new workloads."""
        quota = quota or self.quota
        rows = [self.workload(each, team=quota.team) for each in units]
        wanted = [Wanted(row.pk, quota.pk, each, **values) for row, each in zip(rows, units, strict=True)]
        claim_many(wanted=wanted, now=clock.now())
        return rows

    def facts(self, quota=None):
        quota = Quota.objects.get(pk=(quota or self.quota).pk)
        return quota.nominal, quota.used, quota.grandfathered, quota.available


def cohort_of(name="research", parent=None):
    return create_cohort(name=name, parent=parent, actor=SETUP, now=clock.now())


def usage_of(cohort):
    """guaranteed, ceiling, used, grandfathered of the cohort's only row."""
    row = CohortUsage.objects.get(cohort=cohort)
    return row.guaranteed, row.ceiling, row.used, row.grandfathered


def limits_and_use(quota):
    """local, ceiling, used."""
    row = Quota.objects.get(pk=quota.pk)
    return row.local, row.ceiling, row.used


def free(held, now=None):
    return release(workload=held.workload, now=now or clock.now())


def join_cohort(team, name):
    return update_team(actor=SETUP, team=team, changes={"cohort_name": name}, now=clock.now())


def held_units(**values):
    held = Claim.objects.exclude(state=ClaimState.RELEASED).filter(**values)
    return held.aggregate(sum=Sum("units"))["sum"] or 0


def counters_are_right():
    return leaks().counters_off == 0


def run_all():
    """Let everybody who holds a claim run, as admission would have it."""
    for row in Workload.objects.filter(claims__state__in=[ClaimState.RESERVED, ClaimState.ACTIVE]).distinct():
        put_in(row, Phase.RUNNING)


__all__ = ["Cohort", "Hall", "cohort_of", "counters_are_right", "free", "held_units", "join_cohort"]
