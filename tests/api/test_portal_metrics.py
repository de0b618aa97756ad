"""What the portal tells Prometheus of its supply, its queue and its own work."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.db import transaction
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from cluster.errors import ClusterRejected, ClusterUnavailable
from controller import measures
from controller.admission import scheduler
from costs.models import LedgerEntry
from foundation import clock
from foundation.http import metrics
from quotas import services, snapshots
from quotas.models import Claim, Pool
from teams.actors import Actor
from teams.models import Team
from teams.services import begin_closing, end_closing
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.submitted import make_run, move
from tests.factories.teams import make_member, make_team, make_user
from workloads.errors import StaleWorkload
from workloads.models import WatchCursor, Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db


def samples(name):
    """The values of a metric by its labels, in the order of their names."""
    cache.clear()
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        tuple(text for _, text in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_units_are_held_reserved_or_awaited_by_team_and_flavor():
    member, flavor = make_member(), make_flavor("a100")
    make_node()
    quota = make_quota(member.team, flavor, 64)
    slug, now = member.team.slug, clock.now()
    for name, units, active in (("held", 2, True), ("reserved", 3, False)):
        run = make_run(member.team, member.user, flavor=flavor, name=name, gpus_per_replica=units)
        services.claim(workload=run, quota=quota, units=units, now=now)
        if active:
            services.activate(workload=run, now=now)
            move(run, Phase.RUNNING)
        else:
            move(run, Phase.ADMITTED)
    waiting = make_run(member.team, member.user, flavor=flavor, name="waiting", gpus_per_replica=4)
    Workload.objects.filter(pk=waiting.pk).update(queued_at=now - timedelta(seconds=90))
    Claim.objects.filter(workload__name="held").update(headroom=1)
    by = ("on-demand", "a100", slug)
    assert samples("portal_gpus_held") == {by: 1}
    assert samples("portal_gpus_reserved") == {by: 4}
    assert samples("portal_gpus_waiting") == {by: 4}
    assert samples("portal_queue_length") == {by[:2]: 1}
    ((_, seconds),) = samples("portal_queue_oldest_wait_seconds").items()
    assert 90 <= seconds < 600


def test_each_watch_has_its_age_and_what_was_never_seen_has_none():
    now = clock.now()
    WatchCursor.objects.create(kind="pods", seen_at=now - timedelta(seconds=400))
    WatchCursor.objects.create(kind="nodes")
    ((labels, age),) = samples("portal_watch_age_seconds").items()
    assert labels == ("default", "pods")
    assert 400 <= age < 1000


def test_a_ledger_that_does_not_add_up_is_told():
    assert samples("portal_ledger_difference_micro_usd") == {(): 0}
    now = clock.now()
    with transaction.atomic():
        LedgerEntry.objects.create(
            transaction_id=uuid4(), account="team:x", started_at=now, ended_at=now, units=1, amount_micro_usd=7, posted_at=now
        )  # fmt: skip
        assert samples("portal_ledger_difference_micro_usd") == {(): 7}
        # The database takes no such posting.
        transaction.set_rollback(True)


def test_the_oldest_closing_under_way_has_its_age_and_what_is_closed_has_none():
    assert samples("portal_closing_oldest_seconds") == {(): 0}
    now = clock.now()
    admin = Actor.of_user(make_user(platform_admin=True))
    for seconds in (700, 4000):
        begin_closing(team=make_team(), reason="Over.", actor=admin, now=now - timedelta(seconds=seconds))
    ((_, age),) = samples("portal_closing_oldest_seconds").items()
    assert 4000 <= age < 4600
    for team in Team.objects.all():
        end_closing(team=team, actor=admin, now=now)
    assert samples("portal_closing_oldest_seconds") == {(): 0}


def test_without_estimates_nothing_is_said_of_them():
    assert samples("portal_estimates_held_ratio") == {}


def counted(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("error", "its"),
    [
        (ClusterUnavailable("away"), "unavailable"),
        (ClusterRejected("no", status=403), "rejected"),
        (StaleWorkload("taken over"), "stale"),
        (ZeroDivisionError(), "fault"),
    ],
)
def test_a_reconcile_that_fails_is_counted_in_its_class(error, its):
    before = counted("portal_reconcile_errors_total", **{"class": its})
    measures.reconcile_failed(error)
    assert counted("portal_reconcile_errors_total", **{"class": its}) == before + 1


def test_every_figure_is_told_before_there_are_rows():
    known = {family.name for family in metrics.scraped_figures()}
    assert {"portal_gpus_held", "portal_watch_age_seconds", "portal_heartbeat_age_seconds"} <= known
    told = {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert known <= told


@pytest.mark.django_db(transaction=True)
def test_a_pass_and_an_admission_are_timed():
    member, flavor = make_member(), make_flavor("a100")
    make_node()
    make_quota(member.team, flavor, 8)
    run = make_run(member.team, member.user, flavor=flavor)
    passes = counted("portal_pass_seconds_count")
    pool = snapshots.pool_for(flavor=flavor, capacity_type="on-demand")
    Pool.objects.update(due_at=clock.now())
    assert scheduler.pass_over(pool, now=clock.now()) == 1
    assert counted("portal_pass_seconds_count") > passes
    assert counted("portal_admission_seconds_count", flavor="a100", capacity="on-demand") >= 1
    run.refresh_from_db()
    assert run.phase == Phase.ADMITTED
