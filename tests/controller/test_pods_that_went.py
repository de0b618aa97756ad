"""A pod that started and is gone while its attempt goes on, as operators leave it that make another one."""

from __future__ import annotations

import pytest

from foundation import clock
from tests.factories.submitted import make_pod
from workloads.models import Workload

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


def lose(run, **facts):
    return make_pod(run, started_at=clock.now(), gone_at=clock.now(), **facts)


def test_the_gang_starts_again_as_a_whole_and_no_retry_is_used(bench):
    run = bench.running(replicas=2)
    lose(run, name="train-lost")
    bench.turn(run)
    assert (run.phase, run.stopping_to) == ("Stopping", "Admitted")
    assert "train-lost was deleted" in run.message
    bench.until(run, lambda each: each.phase == "Running" and each.attempt_number == 2)
    assert (run.retries_used, run.interruptions) == (0, 1)
    assert run.attempts.get(number=1).reason == "NodeLost"


@pytest.mark.parametrize(
    ("word", "capacity", "reason", "phase"),
    [
        ("EvictionByEvictionAPI", "on-demand", "NodeLost", "Admitted"),
        ("EvictionByEvictionAPI", "spot", "SpotReclaimed", "Queued"),
        ("DeletionByPodGC", "spot", "SpotReclaimed", "Queued"),
        ("PreemptionByScheduler", "on-demand", "Preempted", "Queued"),
    ],
)
def test_what_took_it_away_is_known_though_nobody_looked_in_time(bench, word, capacity, reason, phase):
    run = bench.running()
    Workload.objects.filter(pk=run.pk).update(capacity_type=capacity)
    run.refresh_from_db()
    lose(run, name="train-lost", disruption=word)
    bench.turn(run)
    assert (run.phase, run.reason, run.stopping_to) == ("Stopping", reason, phase)
    assert word in run.message


@pytest.mark.parametrize("facts", [{"phase": "Succeeded"}, {"started_at": None}])
def test_a_pod_that_ended_well_or_never_started_is_no_loss(bench, facts):
    run = bench.running()
    make_pod(run, **{"started_at": clock.now(), "gone_at": clock.now(), **facts})
    bench.turn(run)
    assert run.phase == "Running"
