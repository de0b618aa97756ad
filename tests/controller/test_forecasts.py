"""First answers written down and scored; latest answers of long queues kept for cards."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.core.cache import cache

from controller.admission import forecasts, scheduler
from controller.waiting_card import card_of
from foundation import clock
from policy.estimates import EXACT_MOST, RUN_FORWARD
from quotas.limits import start_queue, stop_queue
from quotas.models import Pool, StartEstimate
from quotas.queries import hit_rate
from tests.controller.looks import look
from tests.factories.catalogue import SETUP, make_flavor, make_node, make_quota
from tests.factories.leases import overtaken
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import make_workload, put_in
from workloads.models import Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600


@pytest.fixture(autouse=True)
def kept(servers):
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def now():
    with clock.freeze(clock.now()) as at:
        yield at or clock.now()


@pytest.fixture
def full(now):
    """A node of eight and a quota of eight, both held by one run with an hour to go."""
    team, flavor = make_team("vision"), make_flavor()
    make_node("a100-0", units=8)
    make_quota(team, flavor, 8)
    holder = make_workload(team=team, flavor=flavor, units=8, time_limit_seconds=HOUR)
    assert look(holder).admitted
    return holder


def wait(holder: Workload, count: int) -> list[Workload]:
    owner = make_user()
    return [
        make_workload(team=holder.team, owner=owner, flavor=holder.flavor, units=8, time_limit_seconds=HOUR)
        for _ in range(count)
    ]


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=clock.now().tzinfo)


def test_the_first_answer_is_written_once_and_scored_when_it_starts(full, now):
    (run,) = wait(full, 1)
    assert forecasts.estimate_starts(now=now) == 1
    assert forecasts.estimate_starts(now=now) == 0
    row = StartEstimate.objects.get(workload=run)
    assert row.p90 == (now + timedelta(seconds=HOUR)).replace(microsecond=0)
    assert (row.started_at, row.hit, row.unknown_because) == (None, None, "")
    assert hit_rate(now=now) is None

    started = now + timedelta(minutes=20)
    scheduler.release(full, now=started)
    assert scheduler.pass_over(Pool.objects.get(), now=started) == 1
    row.refresh_from_db()
    assert (row.started_at, row.hit) == (started, True)
    assert hit_rate(now=started) == 1.0


def test_who_starts_after_its_p90_was_promised_too_much(full, now):
    (run,) = wait(full, 1)
    forecasts.estimate_starts(now=now)
    late = now + timedelta(hours=2)
    scheduler.release(full, now=late)
    scheduler.pass_over(Pool.objects.get(), now=late)
    assert StartEstimate.objects.get(workload=run).hit is False
    assert hit_rate(now=late) == 0.0


def test_only_what_is_new_is_written(full, now):
    wait(full, 2)
    assert forecasts.estimate_starts(now=now) == 2
    wait(full, 3)
    assert forecasts.estimate_starts(now=now + timedelta(seconds=30)) == 3
    assert StartEstimate.objects.count() == 5


def test_a_card_of_a_long_queue_shows_what_was_found_for_all_of_it(full, now, monkeypatch):
    monkeypatch.setattr(forecasts, "EXACT_MOST", 4)
    runs = wait(full, 6)
    own_work = card_of(runs[5], named=frozenset(), now=now, with_levers=False).estimate
    assert own_work.basis == RUN_FORWARD
    forecasts.estimate_starts(now=now)
    kept = card_of(runs[5], named=frozenset(), now=now, with_levers=False).estimate
    assert kept.basis == f"{RUN_FORWARD}, at {now:%H:%M:%S} UTC"
    assert (kept.p50, kept.p90) == (own_work.p50, own_work.p90)
    assert moment(kept.p90) == (now + timedelta(hours=6)).replace(microsecond=0)


def test_what_was_kept_is_never_in_the_past(full, now, monkeypatch):
    monkeypatch.setattr(forecasts, "EXACT_MOST", 1)
    runs = wait(full, 2)
    forecasts.estimate_starts(now=now)
    late = now + timedelta(minutes=90)
    start = card_of(runs[0], named=frozenset(), now=late, with_levers=False).estimate
    assert start.basis != RUN_FORWARD
    assert start.p50 == start.p90 == int(late.timestamp())


def test_who_has_just_come_to_a_long_queue_is_not_left_without_an_answer(full, now, monkeypatch):
    monkeypatch.setattr(forecasts, "EXACT_MOST", 1)
    wait(full, 2)
    forecasts.estimate_starts(now=now)
    (new,) = wait(full, 1)
    start = card_of(new, named=frozenset(), now=now, with_levers=False).estimate
    assert (start.basis, start.p90) == (RUN_FORWARD, int(now.timestamp()) + 3 * HOUR)


def test_a_short_queue_is_never_answered_from_what_was_kept(full, now):
    runs = wait(full, 3)
    assert len(runs) <= EXACT_MOST
    forecasts.estimate_starts(now=now)
    assert card_of(runs[0], named=frozenset(), now=now, with_levers=False).estimate.basis == RUN_FORWARD


@pytest.fixture
def long_queue(full, now, monkeypatch):
    """Two wait, which is long here, and what was found for them is kept."""
    monkeypatch.setattr(forecasts, "EXACT_MOST", 1)
    runs = wait(full, 2)
    forecasts.estimate_starts(now=now)
    assert basis_of(runs[1], now) != RUN_FORWARD
    return runs


def basis_of(run: Workload, now: datetime) -> str:
    run.refresh_from_db()
    return card_of(run, named=frozenset(), now=now, with_levers=False).estimate.basis


@pytest.mark.parametrize(
    "changes",
    [
        lambda run: make_quota(run.team, run.flavor, 16),
        lambda run: make_node("a100-1", units=8),
        lambda run: Workload.objects.filter(pk=run.pk).update(time_limit_seconds=HOUR // 2),
    ],
    ids=["its quota", "the nodes", "its time limit"],
)
def test_what_was_kept_is_not_used_once_something_has_changed(long_queue, now, changes):
    changes(long_queue[1])
    assert basis_of(long_queue[1], now) == RUN_FORWARD


@pytest.mark.parametrize(
    "written",
    [
        "words",
        [1],
        {"facts": 1},
        {"starts": []},
        {"starts": {"each": ["stay", 1, 1]}},
        {"starts": {"each": [[], "1", 1]}},
        {"starts": {"each": [[], 10**30, 10**30]}},
        {"at": -(10**30)},
    ],
)
def test_whatever_somebody_wrote_into_the_cache_the_card_is_shown(long_queue, now, written):
    run = long_queue[1]
    key = forecasts._key(run.flavor_id, run.capacity_type)
    if isinstance(written, dict):
        starts = written.get("starts")
        if isinstance(starts, dict):
            written = {"starts": {str(run.public_id): starts["each"]}}
        written = cache.get(key) | written
    cache.set(key, written)
    assert basis_of(run, now) == RUN_FORWARD


def test_what_was_kept_is_not_used_once_the_place_is_another(long_queue, now):
    first, second = long_queue
    Workload.objects.filter(pk=second.pk).update(priority="high")
    assert basis_of(second, now) == basis_of(first, now) == RUN_FORWARD


def test_who_was_free_to_start_or_could_not_is_judged_anew(full, now, monkeypatch):
    """A stopped queue and a pass that has not been made yet are of this moment: nothing of that is kept."""
    monkeypatch.setattr(forecasts, "EXACT_MOST", 1)
    runs = wait(full, 2)
    stop_queue(team=full.team, reason="maintenance", actor=SETUP, now=now)
    forecasts.estimate_starts(now=now)
    start_queue(team=full.team, actor=SETUP, now=now)
    start = card_of(runs[0], named=frozenset(), now=now, with_levers=False).estimate
    assert (start.basis, start.unknown_because) == (RUN_FORWARD, None)


def test_who_could_start_at_once_was_promised_nothing(now):
    team, flavor = make_team("vision"), make_flavor()
    make_node("a100-0", units=8)
    make_quota(team, flavor, 8)
    make_workload(team=team, flavor=flavor, units=8, time_limit_seconds=HOUR)
    assert forecasts.estimate_starts(now=now) == 0
    Pool.objects.update(due_at=now)
    scheduler.pass_over(Pool.objects.get(), now=now + timedelta(seconds=3))
    assert hit_rate(now=now + timedelta(seconds=3)) is None


def test_a_stay_that_was_broken_off_is_not_scored_with_the_next_one(full, now):
    (run,) = wait(full, 1)
    forecasts.estimate_starts(now=now)
    later = now + timedelta(hours=5)
    Workload.objects.filter(pk=run.pk).update(queued_at=later)
    assert forecasts.estimate_starts(now=later - timedelta(hours=4, minutes=50)) == 1
    (row,) = StartEstimate.objects.all()
    assert row.queued_at == later
    scheduler.release(full, now=later)
    scheduler.pass_over(Pool.objects.get(), now=later)
    row.refresh_from_db()
    assert row.started_at == later


def test_who_gives_up_after_its_p90_was_promised_too_much(full, now):
    early, late = wait(full, 2)
    forecasts.estimate_starts(now=now)
    for run, after in ((early, 30), (late, 150)):
        put_in(run, Phase.CANCELLED)
        forecasts.estimate_starts(now=now + timedelta(minutes=after))
    (row,) = StartEstimate.objects.all()
    assert (row.workload_id, row.hit, row.started_at) == (late.pk, False, None)
    assert hit_rate(now=now + timedelta(minutes=150)) == 0.0


def test_a_job_that_was_overtaken_judges_nobody(full, now):
    (late,) = wait(full, 1)
    forecasts.estimate_starts(now=now)
    put_in(late, Phase.CANCELLED)
    with overtaken("estimates"):
        forecasts.estimate_starts(now=now + timedelta(days=1))
    assert StartEstimate.objects.get().hit is None


def test_without_the_cache_each_card_does_its_own_work(full, now, monkeypatch, settings):
    monkeypatch.setattr(forecasts, "EXACT_MOST", 1)
    settings.CACHES = {
        "default": {**settings.CACHES["default"], "LOCATION": "unix:///nonexistent/valkey.sock?db=0"}
    }
    runs = wait(full, 2)
    assert forecasts.estimate_starts(now=now) == 2
    start = card_of(runs[1], named=frozenset(), now=now, with_levers=False).estimate
    assert (start.basis, start.p90) == (RUN_FORWARD, int(now.timestamp()) + 2 * HOUR)
