"""Claims, limits and releases in any order, against a model that counts anew every time; and the leak detector."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from foundation import clock
from foundation.errors import Invalid
from quotas.errors import QuotaExceeded
from quotas.limits import move_cohort, set_cohort_limits
from quotas.models import Claim, ClaimState, Cohort, CohortUsage, Quota
from quotas.queries import leaks
from quotas.services import Wanted, activate, claim, claim_many, release, set_firm
from tests.effort import SOAK, drawn
from tests.factories.catalogue import SETUP
from tests.factories.teams import make_team
from tests.factories.workloads import put_in
from tests.quotas.hall import ON_DEMAND, Hall, cohort_of, free, join_cohort, run_all
from workloads.models import Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db

EXAMPLES, STEPS = drawn(usual=5, soak=1500), drawn(usual=50, soak=120)
STEPS_MIN = EXAMPLES * STEPS // 2
TEAMS = ("ants", "bees", "cats", "dogs")
COHORTS = ("low", "side", "top")


# --- the model


@dataclass
class Run:
    """What a workload holds: of its units `lent` live on headroom, `headroom` are for pods that do not run."""

    team: str
    units: int
    headroom: int = 0
    lent: int = 0


@dataclass
class Side:
    """A team or a cohort."""

    parent: str = ""
    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass
class Model:
    """Kueue's rules as one would say them, with nothing remembered that can be counted."""

    sides: dict[str, Side] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)

    def below(self, name):
        return [other for other, side in self.sides.items() if side.parent == name]

    def path(self, name):
        return [name, *self.path(self.sides[name].parent)] if name else []

    def guaranteed(self, name):
        return self.sides[name].nominal + sum(self.lends(other) for other in self.below(name))

    def lends(self, name):
        limit, all_of_it = self.sides[name].lending, self.guaranteed(name)
        return all_of_it if limit is None else min(limit, all_of_it)

    def local(self, name):
        return self.guaranteed(name) - (self.lends(name) if self.sides[name].parent else 0)

    def most(self, name):
        side = self.sides[name]
        if not side.parent:
            return self.guaranteed(name)
        limit = self.most(side.parent) + self.local(name)
        return limit if side.borrowing is None else min(limit, self.guaranteed(name) + side.borrowing)

    def used(self, name):
        own = sum(run.units - run.lent for run in self.runs.values() if run.team == name)
        return own + sum(max(0, self.used(other) - self.local(other)) for other in self.below(name))

    def headroom(self, team):
        return sum(run.headroom for run in self.runs.values() if run.team == team)

    def lent(self, team):
        return sum(run.lent for run in self.runs.values() if run.team == team)

    def take(self, runs):
        """True, and they run, if nobody whose use grows uses more than its most."""
        before = {name: self.used(name) for name in self.sides}
        lent_before = {name: self.lent(name) for name in self.sides}
        self.runs |= runs
        grown = [name for name in self.sides if self.used(name) > before[name]]
        lent = [name for name in self.sides if self.lent(name) > lent_before[name]]
        if all(self.used(name) <= self.most(name) for name in grown) and all(
            self.lent(name) <= self.headroom(name) for name in lent
        ):
            return True
        for key in runs:
            del self.runs[key]
        return False

    def give(self, key):
        """It ends; what lived on headroom that went with it holds units of its own, the oldest first."""
        team = self.runs.pop(key).team
        excess = max(0, self.lent(team) - self.headroom(team))
        for run in self.runs.values():
            part = min(run.lent, excess) if run.team == team else 0
            run.lent, excess = run.lent - part, excess - part

    def firm(self, key, units):
        """How many units are still lent."""
        run = self.runs[key]
        wanted = max(0, run.units - units)
        idle = self.headroom(run.team) - self.lent(run.team)
        run.headroom = max(wanted, run.headroom - idle)
        return run.headroom - wanted

    def allowed(self, name):
        """Who uses more than its most, after a cut, may go on with that and no more."""
        return max(self.most(name), self.used(name))


# --- the machine


class World:
    """Rows that every example starts from; each takes back what it did."""

    def __init__(self):
        self.hall = Hall(6, slug=TEAMS[0])
        self.teams = {TEAMS[0]: self.hall.team} | {name: make_team(name) for name in TEAMS[1:]}
        top = cohort_of("top")
        self.cohorts = {"top": top, "low": cohort_of("low", parent=top), "side": cohort_of("side")}
        self.quotas = {name: self.hall.limit(team, nominal=6) for name, team in self.teams.items()}
        for name, cohort in zip(TEAMS, ("low", "low", "top", ""), strict=True):
            join_cohort(self.teams[name], cohort)

    @staticmethod
    def model():
        model = Model({name: Side(nominal=6) for name in TEAMS} | {name: Side() for name in COHORTS})
        for name, parent in (("ants", "low"), ("bees", "low"), ("cats", "top"), ("low", "top")):
            model.sides[name].parent = parent
        return model


teams, cohorts = st.sampled_from(TEAMS), st.sampled_from(COHORTS)
sizes, limits = st.integers(1, 5), st.none() | st.integers(0, 6)


RULES = set()


def step(**draws):
    """A rule that notes that it was taken: each example leaves some of them out."""

    def noted(function):
        @wraps(function)
        def taken(self, **values):
            type(self).taken.add(function.__name__)
            return function(self, **values)

        RULES.add(function.__name__)
        return rule(**draws)(taken)

    return noted


class ClaimsAndLimits(RuleBasedStateMachine):
    world: World
    steps = 0
    taken = set()

    def __init__(self):
        super().__init__()
        self.block = transaction.atomic()
        self.block.__enter__()
        self.model = World.model()
        self.workloads = {}
        self.now = clock.now()

    def teardown(self):
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)

    def fresh(self, team, units):
        workload = self.world.hall.workload(units, team=self.world.teams[team])
        self.workloads[workload.pk] = workload
        return workload

    def do(self, attempt):
        """Whether it was granted; nothing of a refusal stays."""
        try:
            attempt()
        except QuotaExceeded:
            self.taken.add("refused")
            return False
        return True

    def one(self, data):
        return data.draw(st.sampled_from(sorted(self.model.runs)))

    def endpoints(self):
        return sorted(key for key, run in self.model.runs.items() if run.headroom)

    @step(team=teams, units=sizes)
    def claim_one(self, team, units):
        workload = self.fresh(team, units)
        quota = self.world.quotas[team]
        granted = self.do(lambda: claim(workload=workload, quota=quota, units=units, now=self.now))
        assert granted == self.model.take({workload.pk: Run(team, units)})

    @step(wanted=st.lists(st.tuples(teams, sizes), min_size=1, max_size=4))
    def claim_some(self, wanted):
        rows = {self.fresh(team, units).pk: Run(team, units) for team, units in wanted}
        asked = [Wanted(key, self.world.quotas[run.team].pk, run.units) for key, run in rows.items()]
        granted = self.do(lambda: claim_many(wanted=asked, now=self.now))
        assert granted == self.model.take(rows)

    @step(team=teams, units=sizes, data=st.data())
    def claim_for_an_endpoint(self, team, units, data):
        headroom = units - data.draw(st.integers(0, units))
        workload, quota = self.fresh(team, units), self.world.quotas[team]
        granted = self.do(
            lambda: claim(workload=workload, quota=quota, units=units, now=self.now, headroom=headroom)
        )
        assert granted == self.model.take({workload.pk: Run(team, units, headroom=headroom)})

    @precondition(lambda self: self.endpoints())
    @step(data=st.data(), over=st.booleans())
    def claim_headroom(self, data, over):
        """Of a team that has some, a part of what is idle, or more."""
        team = self.model.runs[data.draw(st.sampled_from(self.endpoints()))].team
        idle = self.model.headroom(team) - self.model.lent(team)
        units = idle + 1 if over else data.draw(st.integers(1, max(1, idle)))
        workload, quota = self.fresh(team, units), self.world.quotas[team]
        granted = self.do(lambda: claim(workload=workload, quota=quota, units=units, now=self.now, lent=True))
        assert granted == self.model.take({workload.pk: Run(team, units, lent=units)})

    @precondition(lambda self: self.model.runs)
    @step(data=st.data(), team=teams, units=sizes)
    def change_nothing(self, data, team, units):
        """Claim for one that has a claim; and die before it is committed."""
        key = self.one(data)
        quota = self.world.quotas[self.model.runs[key].team]
        held = Claim.objects.get(workload=key, state=ClaimState.RESERVED, purpose="workload")
        assert claim(workload=self.workloads[key], quota=quota, units=5, now=self.now) == held
        with transaction.atomic():
            self.do(lambda: self.world.hall.claim(units, quota=self.world.quotas[team]))
            transaction.set_rollback(True)

    @precondition(lambda self: self.model.runs)
    @step(data=st.data(), times=st.integers(1, 2))
    def finish(self, data, times):
        key = self.one(data)
        for time in range(times):
            assert release(workload=self.workloads[key], now=self.now) is (time == 0)
        self.model.give(key)

    @precondition(lambda self: len(self.model.runs) > 2)
    @step(count=st.integers(1, 3))
    def finish_the_oldest(self, count):
        for key in sorted(self.model.runs)[:count]:
            assert release(workload=self.workloads[key], now=self.now)
            self.model.give(key)

    @precondition(lambda self: self.endpoints())
    @step(data=st.data())
    def finish_an_endpoint(self, data):
        key = data.draw(st.sampled_from(self.endpoints()))
        assert release(workload=self.workloads[key], now=self.now)
        self.model.give(key)

    @precondition(lambda self: self.endpoints())
    @step(data=st.data(), units=st.integers(0, 6), fully=st.booleans())
    def scale(self, data, units, fully):
        key = data.draw(st.sampled_from(self.endpoints()))
        units = self.model.runs[key].units if fully else units
        short = set_firm(workload=self.workloads[key], units=units, now=self.now)
        assert short == self.model.firm(key, units)

    @step(team=teams, nominal=st.integers(0, 3))
    def cut(self, team, nominal):
        self._resize(team, nominal, None, None)

    @step(team=teams, nominal=st.integers(0, 9), borrowing=limits, lending=limits)
    def resize(self, team, nominal, borrowing, lending):
        self._resize(team, nominal, borrowing, lending)

    def _resize(self, team, nominal, borrowing, lending):
        values = {"nominal": nominal, "borrowing_limit": borrowing, "lending_limit": lending}
        try:
            self.world.hall.limit(self.world.teams[team], **values)
        except Invalid:
            assert (lending or 0) > nominal
            return
        side = self.model.sides[team]
        side.nominal, side.borrowing, side.lending = nominal, borrowing, lending

    @step(team=teams, cohort=st.sampled_from((*COHORTS, "")))
    def join(self, team, cohort):
        join_cohort(self.world.teams[team], cohort)
        if self.model.sides[team].parent != cohort:
            self.model.sides[team].parent = cohort

    @step(cohort=cohorts, parent=st.sampled_from((*COHORTS, "")))
    def move(self, cohort, parent):
        above = self.world.cohorts.get(parent)
        try:
            move_cohort(cohort=self.world.cohorts[cohort], parent=above, actor=SETUP, now=self.now)
        except Invalid:
            assert cohort in self.model.path(parent)
            return
        if self.model.sides[cohort].parent != parent:
            self.model.sides[cohort].parent = parent

    @step(cohort=cohorts, borrowing=limits, lending=limits)
    def bound(self, cohort, borrowing, lending):
        set_cohort_limits(
            cohort=self.world.cohorts[cohort],
            flavor=self.world.hall.flavor,
            capacity_type=ON_DEMAND,
            borrowing_limit=borrowing,
            lending_limit=lending,
            reason="x",
            actor=SETUP,
            now=self.now,
        )
        side = self.model.sides[cohort]
        if (side.borrowing, side.lending) != (borrowing, lending):
            side.borrowing, side.lending = borrowing, lending

    @invariant()
    def counters_are_what_the_model_counts(self):
        type(self).steps += 1
        model = self.model
        columns = ("team__slug", "used", "local", "ceiling", "grandfathered", "headroom", "lent_headroom")
        for name, used, local, ceiling, grandfathered, headroom, lent in Quota.objects.values_list(*columns):
            assert (used, headroom, lent) == (model.used(name), model.headroom(name), model.lent(name)), name
            assert (local, ceiling) == (model.local(name), model.most(name)), name
            assert max(ceiling, grandfathered) == model.allowed(name), name

    @invariant()
    def cohorts_are_what_the_model_counts(self):
        model = self.model
        columns = ("cohort__name", "guaranteed", "used", "ceiling", "grandfathered")
        kept = {name: values for name, *values in CohortUsage.objects.values_list(*columns)}
        for name in COHORTS:
            guaranteed, used, ceiling, grandfathered = kept.get(name, [0, 0, 0, 0])
            assert (guaranteed, used, ceiling) == (
                model.guaranteed(name),
                model.used(name),
                model.most(name),
            ), name
            assert max(ceiling, grandfathered) == model.allowed(name), name

    @invariant()
    def nothing_leaks(self):
        assert leaks().counters_off == 0


@pytest.mark.matrix
@pytest.mark.timeout(7200 if SOAK else 400)
def test_whatever_happens_in_whatever_order_counters_are_what_is_held_and_nobody_is_over():
    ClaimsAndLimits.world = World()
    ClaimsAndLimits.steps, ClaimsAndLimits.taken = 0, set()
    run_state_machine_as_test(
        ClaimsAndLimits,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=not SOAK,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert ClaimsAndLimits.steps >= STEPS_MIN
    assert ClaimsAndLimits.taken == RULES | {"refused"}


# --- the detector


@pytest.fixture
def hall():
    return Hall(8)


def found():
    seen = leaks()
    return seen.claims_without_workload, seen.workloads_without_claim, seen.counters_off


def test_nothing_is_found_while_all_is_well(hall):
    cohort = cohort_of()
    join_cohort(hall.team, cohort.name)
    other = hall.member(cohort, nominal=2)
    hall.claim(4, headroom=2)
    hall.claim(2, lent=True)
    hall.claim(5, quota=other)
    held = hall.claim(1)
    run_all()
    activate(workload=held.workload, now=clock.now())
    free(held)
    put_in(held.workload, Phase.SUCCEEDED)
    assert found() == (0, 0, 0)


def test_a_claim_whose_workload_is_gone_from_the_cluster_is_found(hall):
    held = hall.claim(1)
    assert found() == (1, 0, 0)
    run_all()
    assert found() == (0, 0, 0)
    put_in(held.workload, Phase.FAILED)
    assert found() == (1, 0, 0)


def test_a_workload_that_runs_without_a_claim_is_found(hall):
    put_in(hall.workload(2), Phase.RUNNING)
    put_in(hall.workload(0), Phase.RUNNING)
    assert found() == (0, 2, 0)


@pytest.mark.parametrize(
    "harm",
    [
        lambda: Quota.objects.update(used=3),
        lambda: Quota.objects.update(headroom=1),
        lambda: Quota.objects.update(headroom=2, lent_headroom=1),
        lambda: Claim.objects.update(units=1),
        lambda: Claim.objects.update(lent=True),
        lambda: CohortUsage.objects.update(used=1),
        lambda: CohortUsage.objects.all().delete(),
        lambda: Quota.objects.update(local=6),
    ],
)
def test_a_counter_that_is_not_the_sum_of_its_claims_is_found(hall, harm):
    join_cohort(hall.team, cohort_of().name)
    hall.claim(2)
    run_all()
    assert found() == (0, 0, 0)
    harm()
    assert found()[2] > 0
    assert Cohort.objects.count() == Workload.objects.count() == 1
