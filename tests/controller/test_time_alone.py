"""What happens by itself with time: a pass has named the moment, and the sweep keeps it on a cluster that is quiet."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from datetime import timedelta
from uuid import UUID

import pytest
import redis
from django.conf import settings

from controller import tasks, wakeups
from controller.admission import scheduler
from controller.closing import CLOSE_TASK
from controller.reconcile.reconciler import reconcile
from foundation import clock
from foundation.models import PlatformSettings
from jobs.sweeps.services import advance_sweep
from jobs.sweeps.wakeups import ADVANCE_TASK
from quotas.models import Pool, Preemption, Quota, QuotaRequest
from quotas.requests import approve_request, request_quota
from teams.actors import Actor
from tests.factories.teams import make_user
from tests.waiting import until
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)

only_devcluster = pytest.mark.parametrize("client", ["devcluster"], indirect=True)
SWEEP_SECONDS = settings.CELERY_BEAT_SCHEDULE["sweep-due-workloads"]["schedule"]


class Quiet:
    """Beat and worker, and nobody who does anything: the sweep at its pace, and whatever it sends."""

    def __init__(self, client, servers):
        self.client = client
        self.broker = redis.Redis.from_url(settings.REDIS_URL)
        self.broker.flushdb()

    def work(self):
        """Carry out every message that waits."""
        while found := self._messages():
            for task, wanted in found:
                if task == wakeups.RECONCILE_TASK:
                    reconcile(public_id=UUID(wanted["workload_id"]), client=self.client, now=clock.now())
                elif task == wakeups.PASS_TASK:
                    pool = Pool.objects.select_related("flavor")
                    flavor_id, capacity_type = wanted["flavor_id"], wanted["capacity_type"]
                    found = pool.get(flavor=flavor_id, capacity_type=capacity_type)
                    scheduler.pass_over(found, now=clock.now())
                elif task == CLOSE_TASK:
                    tasks.close_team(**wanted)
                elif task == ADVANCE_TASK:
                    advance_sweep(sweep_id=UUID(wanted["sweep_id"]), now=clock.now())

    def _messages(self):
        found = []
        for key in self.broker.scan_iter(_type="list"):
            while raw := self.broker.rpop(key):
                message = json.loads(raw)
                found.append((message["headers"]["task"], json.loads(b64decode(message["body"]))[1]))
        return found

    def step(self, at):
        """What a sweep and a worker would do at that moment."""
        with clock.freeze(at):
            for pool in Pool.objects.select_related("flavor").filter(due_at__lte=at):
                scheduler.pass_over(pool, now=at)
            for public_id in Workload.objects.filter(next_reconcile_at__lte=at).values_list(
                "public_id", flat=True
            ):
                reconcile(public_id=public_id, client=self.client, now=at)

    def tick(self):
        tasks.sweep_due_workloads()
        self.work()

    def until(self, done, *, seconds):
        """Tick after tick by the real clock; the moment at which it was done."""

        def ticked():
            self.tick()
            return done() and clock.now()

        return until(ticked, seconds, where_all_stand, longest=SWEEP_SECONDS)


def where_all_stand() -> str:
    """Each workload in a line, for a test that waited in vain."""
    rows = Workload.objects.order_by("pk").values_list("name", "phase", "reason", "message")
    return "\n".join(["", *(" ".join(row) for row in rows)])


@pytest.fixture
def quiet(client, servers):
    return Quiet(client, servers)


def lend(bench, neighbours, *, left):
    """The borrower runs on what both teams own, the owner waits for its part, and the minimum run time ends in `left` seconds.

    When that time is over, and who waits.
    """
    PlatformSettings.objects.update(minimum_run_seconds=7200)
    runs = [
        bench.submit(name=name, gpus_per_replica=8, time_limit_seconds=7200) for name in ("first", "second")
    ]
    for each in runs:
        bench.until(each, lambda run: run.phase == "Running")
    started = min(each.attempts.get().started_at for each in runs)
    needy = neighbours.submit_owner()
    bench.turn(needy)
    assert needy.reason == "WaitingForQuota"
    minimum = int((clock.now() - started).total_seconds()) + left
    PlatformSettings.objects.update(minimum_run_seconds=minimum)
    return started + timedelta(seconds=minimum), needy


def test_lent_quota_comes_back_by_itself_with_the_next_sweep(bench, neighbours, quiet, capsys):
    over, needy = lend(bench, neighbours, left=4)
    asked = quiet.until(Preemption.objects.exists, seconds=40)
    late = (asked - over).total_seconds()
    with capsys.disabled():
        sys.stdout.write(f"\nasked to leave {late:.1f} s after the minimum run time was over\n")
    assert late >= 0
    quiet.until(lambda: Workload.objects.get(pk=needy.pk).phase == "Running", seconds=60)
    assert Quota.objects.get(team=neighbours.owner).used == 8


@only_devcluster
def test_the_pool_is_due_when_the_minimum_run_time_is_over_and_not_before(bench, neighbours, quiet):
    over, _ = lend(bench, neighbours, left=1800)
    # A pass at least once a minute, as shares change; none of those does anything.
    for minute in range(1, 30):
        quiet.step(over - timedelta(minutes=30) + timedelta(minutes=minute))
    assert not Preemption.objects.exists()
    due = Pool.objects.get().due_at
    assert timedelta(0) <= due - over + timedelta(seconds=1) <= timedelta(seconds=2)
    quiet.step(due + timedelta(seconds=SWEEP_SECONDS))
    assert Preemption.objects.count() == 1


@only_devcluster
def test_quota_that_was_given_until_a_date_returns_at_that_moment_and_its_owner_has_it_back(
    bench, neighbours, quiet
):
    neighbours.limit(neighbours.owner, nominal=8, borrowing_limit=0)
    neighbours.limit(neighbours.borrower, nominal=8, borrowing_limit=0)
    now = clock.now()
    asked = request_quota(
        team=neighbours.borrower,
        flavor=bench.flavor,
        capacity_type="on-demand",
        units=8,
        until=now + timedelta(hours=2),
        reason="a deadline",
        actor=Actor.of_user(bench.member),
        now=now,
    )
    manager = make_user(quota_manager=True)
    approve_request(request=asked, comment="", actor=Actor.of_user(manager), now=now)
    quiet.tick()
    assert Pool.objects.get().due_at == asked.until, "nobody waits: there is nothing else to do before"
    quiet.step(asked.until + timedelta(seconds=SWEEP_SECONDS))
    assert QuotaRequest.objects.get().state == "returned"
    assert Quota.objects.get(team=neighbours.borrower).nominal == 8


@only_devcluster
def test_a_rest_ends_with_the_sweep_after_it(bench, quiet):
    soon = clock.now() + timedelta(seconds=30)
    rests = bench.submit(name="rests")
    Workload.objects.filter(pk=rests.pk).update(rests_until=soon, next_reconcile_at=clock.now())
    quiet.step(clock.now())
    rests.refresh_from_db()
    assert (rests.phase, rests.next_reconcile_at) == ("Queued", soon)
    quiet.step(soon + timedelta(seconds=SWEEP_SECONDS))
    rests.refresh_from_db()
    assert rests.phase != "Queued"


@only_devcluster
def test_who_waits_is_looked_at_again_although_nothing_made_the_pool_due(bench, quiet):
    bench.running(name="first", gpus_per_replica=8, time_limit_seconds=7200)
    Pool.objects.update(due_at=None)
    waits = bench.submit(name="waits")
    bench.turn(waits)
    assert waits.reason == "WaitingForQuota"
    due = Pool.objects.get().due_at
    assert due is not None
    assert due <= clock.now() + scheduler.AGAIN
