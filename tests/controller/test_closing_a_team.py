"""A team that is closed while it works, lends and owes: what it has ends in order, and what it owes stays written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster import kinds
from cluster.labels import selector
from console import closing as commands
from controller import closing, tasks
from controller.reconcile import garbage
from costs.models import LedgerEntry, UsageInterval
from costs.reports.queries import ledger_difference
from foundation import clock
from quotas.limits import create_cohort
from quotas.models import Claim, ClaimState, Quota, QuotaChangeSet
from quotas.queries import leaks
from teams import services
from teams.actors import Actor
from teams.models import ApiToken, AuditEvent
from tests.controller import endpoints
from tests.controller.conftest import leave_nothing
from tests.controller.test_time_alone import Quiet
from tests.factories.catalogue import SETUP, limit
from tests.factories.leases import run_out
from tests.factories.teams import make_member, make_team, make_token, make_user
from tests.waiting import until
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)


class Lending:
    """The bench's team lends half of what it has to team borrower, which uses it; its own run and endpoint live."""

    def __init__(self, bench):
        self.bench, self.team = bench, bench.team
        create_cohort(name="research", parent=None, actor=SETUP, now=clock.now())
        self.root = make_user(platform_admin=True)
        self.borrower = make_team(f"b-{bench.team.slug}", cohort_name="research")
        self.guest = make_member(team=self.borrower).user
        services.update_team(
            actor=SETUP, team=bench.team, changes={"cohort_name": "research"}, now=clock.now()
        )
        limit(bench.team, bench.flavor, nominal=8, lending_limit=4)
        limit(self.borrower, bench.flavor, nominal=0)
        self.lent = bench.running(name="guest", team=self.borrower, member=self.guest, gpus_per_replica=4)
        self.run = bench.running(name="live")
        self.endpoint = endpoints.ready(bench).workload
        self.queued = bench.turn(bench.submit(name="queued", gpus_per_replica=4))
        make_token(bench.member, team=bench.team)

    def close(self):
        commands.close_team(
            team=self.team,
            confirm=self.team.slug,
            reason="The project is over.",
            actor=Actor.of_user(self.root),
            now=clock.now(),
        )
        self.team.refresh_from_db()

    def go_on(self, *, by=timedelta()):
        closed = closing.go_on(team=self.team, now=clock.now() + by)
        self.team.refresh_from_db()
        return closed

    def turn(self, *workloads):
        for workload in workloads:
            self.bench.until(workload, lambda row: row.is_final)

    def phases(self):
        rows = Workload.objects.filter(team=self.team).values_list("name", "phase", "desired")
        return {name: (phase, desired) for name, phase, desired in rows}


@pytest.fixture
def lending(bench):
    lending = Lending(bench)
    assert lending.queued.phase == "Queued"
    yield lending
    leave_nothing(bench.direct, lending.borrower.namespace_name)


def test_a_team_that_is_closed_ends_in_order_and_its_ledger_stays(lending):
    bench = lending.bench
    tasks.settle_due(now=clock.now() + timedelta(hours=2))
    before = list(LedgerEntry.objects.order_by("pk").values())
    lending.close()
    # Its own tokens at once; what waits and what ends by itself at the first look; what serves only after that.
    assert not ApiToken.objects.filter(team=lending.team, revoked_at__isnull=True).exists()
    assert not lending.go_on()
    assert lending.phases() == {
        "queued": ("Queued", "cancel"),
        "live": ("Running", "cancel"),
        "digits": ("Running", "run"),
    }
    lending.turn(lending.queued)
    assert lending.queued.phase == "Cancelled"
    bench.turn(lending.run)
    assert lending.run.phase == "Stopping"
    # The claim is held until the last pod is gone.
    assert Claim.objects.filter(workload=lending.run).exclude(state=ClaimState.RELEASED).exists()
    lending.turn(lending.run)
    assert not lending.go_on()
    assert lending.phases()["digits"] == ("Running", "cancel")
    lending.turn(lending.endpoint)
    assert lending.go_on()

    assert lending.team.state == "closed"
    assert {phase for phase, _ in lending.phases().values()} == {"Cancelled"}
    assert not Claim.objects.filter(team=lending.team).exclude(state=ClaimState.RELEASED).exists()
    assert not UsageInterval.objects.filter(team=lending.team, ended_at__isnull=True).exists()
    after = {entry["id"]: entry for entry in LedgerEntry.objects.values()}
    assert before
    assert [after[entry["id"]] for entry in before] == before
    assert ledger_difference() == 0
    garbage.delete_ended(bench.client, now=clock.now())
    for kind in (kinds.JOB, kinds.DEPLOYMENT, kinds.SERVICE):
        label = selector()
        found = bench.client.list(kind, namespace=lending.team.namespace_name, label_selector=label).items
        assert [item for item in found if not item["metadata"].get("deletionTimestamp")] == []


def test_what_it_lent_goes_on_and_falls_out_of_the_sum_of_its_cohort(lending):
    lending.close()
    lending.go_on()
    lending.turn(lending.queued, lending.run)
    lending.go_on()
    lending.turn(lending.endpoint)
    assert lending.go_on()
    own, others = (Quota.objects.get(team=team) for team in (lending.team, lending.borrower))
    assert (own.nominal, own.borrowing_limit, own.ceiling, own.used) == (0, 0, 0, 0)
    # Grandfathered: the borrower keeps what it has and gets no more.
    assert (others.used, others.ceiling, others.grandfathered) == (4, 0, 4)
    assert lending.bench.turn(lending.lent).phase == "Running"
    counts = leaks()
    assert (counts.claims_without_workload, counts.workloads_without_claim, counts.counters_off) == (0, 0, 0)
    # One change, which a quota manager can take back.
    made = QuotaChangeSet.objects.get(reason__contains="was closed")
    assert [change.before["nominal"] for change in made.changes.all()] == [8]


class _Died(BaseException):
    pass


def ends_by_itself(lending, quiet):
    """Nobody does anything but beat and worker."""

    def closed():
        run_out()
        tasks.close_teams()
        quiet.tick()
        lending.team.refresh_from_db()
        return lending.team.closed_at

    until(closed, 60, "it is closed by itself")
    assert {phase for phase, _ in lending.phases().values()} == {"Cancelled"}
    assert Quota.objects.get(team=lending.team).nominal == 0
    assert QuotaChangeSet.objects.filter(reason__contains="was closed").count() == 1
    assert AuditEvent.objects.filter(action="team.closed").count() == 1
    assert ledger_difference() == 0


def test_it_is_closed_by_itself_from_the_one_command_on(lending, servers):
    quiet = Quiet(lending.bench.client, servers)
    lending.close()
    # The message of the command itself, without any beat.
    quiet.work()
    assert lending.phases()["live"][1] == "cancel"
    ends_by_itself(lending, quiet)


@pytest.mark.matrix
@pytest.mark.parametrize("point", ["closing-begun", "closing-cancelled", "closing-quota-back"])
def test_a_process_that_dies_in_the_middle_leaves_what_the_next_goes_on_with(
    lending, servers, monkeypatch, point
):
    quiet, died = Quiet(lending.bench.client, servers), []

    def die(name):
        if name == point and not died:
            died.append(name)
            raise _Died

    for module in (closing, commands):
        monkeypatch.setattr(module, "crash_point", die)
    try:
        lending.close()
    except _Died:
        lending.team.refresh_from_db()
    else:
        while not died:
            try:
                assert not lending.go_on(), "it never came to that point"
            except _Died:
                break
            quiet.tick()
    # Whatever messages there were are lost with it.
    quiet.broker.flushdb()
    assert lending.team.closing_since
    ends_by_itself(lending, quiet)


def test_endpoints_do_not_wait_for_ever_for_a_run_that_does_not_end(lending):
    lending.close()
    lending.go_on()
    assert lending.phases()["digits"] == ("Running", "run")
    assert not lending.go_on(by=timedelta(hours=1))
    assert lending.phases()["digits"] == ("Running", "cancel")
    assert lending.run.is_final is False


@pytest.mark.matrix
def test_a_team_that_is_reopened_in_the_middle_goes_on_with_what_was_not_ended_yet(lending):
    lending.close()
    lending.go_on()
    commands.reopen_team(
        team=lending.team, reason="Too early.", actor=Actor.of_user(lending.root), now=clock.now()
    )
    lending.turn(lending.queued, lending.run)
    assert not lending.go_on()
    assert lending.team.state == "open"
    assert lending.phases()["digits"] == ("Running", "run")
    assert Quota.objects.get(team=lending.team).nominal == 8
    assert not closing.to_go_on_with().exists()
