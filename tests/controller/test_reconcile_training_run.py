from __future__ import annotations

from datetime import timedelta

import pytest

from cluster import kinds
from controller.waiting_card import card_of
from foundation import clock
from jobs.services import update_training_run
from quotas.models import Claim, Quota
from teams.actors import Actor
from tests.waiting import until_equal
from workloads.models import NodeRecord, WorkloadEvent
from workloads.placement import takes_plain_pods

pytestmark = pytest.mark.django_db(transaction=True)


def phases(workload):
    return list(
        WorkloadEvent.objects.filter(workload=workload).order_by("id").values_list("to_phase", flat=True)
    )


@pytest.mark.parametrize(
    ("steered", "codes", "exits"),
    [
        ({"BED_EXIT_CODE": 3}, [], [3, 3]),
        ({"BED_EXIT_CODE": 3}, [3, 4], [3, 3]),
        ({"BED_EXIT_CODE": 3}, [4], [3]),
        # Without codes nothing that ran out of memory is tried again as it is; whoever names the code wants that.
        ({"BED_OOM": "true"}, [], [137]),
        ({"BED_OOM": "true"}, [137], [137, 137]),
    ],
)
def test_only_exit_codes_that_are_worth_it_are_tried_again(bench, steered, codes, exits):
    env = {"BED_RUN_SECONDS": 0, **steered}
    run = bench.submit(env=env, max_retries=1, retry={"exit_codes": codes})
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Failed", "OOMKilled" if "BED_OOM" in steered else "ApplicationError")
    assert [attempt.exit_code for attempt in run.attempts.all()] == exits
    assert Quota.objects.get().used == 0


def test_a_run_becomes_a_job_on_a_gpu_node_and_ends_with_its_cost(bench):
    run = bench.submit(env={"BED_RUN_SECONDS": 2})
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Succeeded", "Completed")
    assert phases(run)[:2] == ["Queued", "Admitted"]
    pod = run.pods.get()
    assert pod.node_name.startswith("a100")
    assert pod.units == 2
    seconds = int((pod.finished_at - pod.scheduled_at).total_seconds())
    entry = run.ledger.get(account__startswith="team:")
    assert entry.amount_micro_usd == 2 * seconds * 1_000_000
    assert Quota.objects.get().used == 0
    assert Claim.objects.get().state == "released"


def test_a_run_of_several_pods_claims_starts_pays_and_ends_as_one(bench):
    run = bench.submit(replicas=3, env={"BED_RUN_SECONDS": 2})
    assert (run.units, run.pod_count) == (6, 3)
    bench.turn(run)
    assert Quota.objects.get().used == 6
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Succeeded", "Completed")
    pods = list(run.pods.all())
    assert [pod.units for pod in pods] == [2, 2, 2]
    seconds = sum(int((pod.finished_at - pod.scheduled_at).total_seconds()) for pod in pods)
    entries = run.ledger.filter(account__startswith="team:").values_list("amount_micro_usd", flat=True)
    assert sum(entries) == 2 * seconds * 1_000_000
    assert Quota.objects.get().used == 0


def test_a_failing_gang_starts_again_as_a_whole_until_its_retries_are_used(bench):
    run = bench.submit(replicas=2, env={"BED_RUN_SECONDS": 1, "BED_EXIT_CODE": 3}, max_retries=1)
    bench.until(run, lambda run: run.is_final)
    assert run.phase == "Failed"
    assert [attempt.exit_code for attempt in run.attempts.all()] == [3, 3]
    assert run.pods.count() == 4
    assert Quota.objects.get().used == 0


def test_a_run_over_quota_waits_and_starts_when_the_first_ends(bench):
    first = bench.submit(name="first", gpus_per_replica=8, env={"BED_RUN_SECONDS": 1})
    second = bench.submit(name="second", gpus_per_replica=1, env={"BED_RUN_SECONDS": 0})
    bench.turn(first)
    bench.turn(second)
    assert (second.phase, second.reason) == ("Queued", "WaitingForQuota")
    assert "uses 8 of its 8" in second.message
    bench.until(first, lambda run: run.is_final)
    bench.until(second, lambda run: run.is_final)
    assert second.phase == "Succeeded"


def test_a_cancelled_run_ended_when_its_pod_did_frees_its_quota_and_leaves_no_object(bench):
    run = bench.running()
    bench.cancel(run)
    bench.until(run, lambda run: run.is_final, seconds=90)
    assert run.phase == "Cancelled"
    assert Quota.objects.get().used == 0
    assert bench.own(run, kinds.JOB) == bench.own(run, kinds.POD) == []
    (pod,), (attempt,) = run.pods.all(), run.attempts.all()
    assert run.finished_at == attempt.ended_at == pod.ended_at
    assert run.started_at == pod.started_at


def test_a_run_that_no_schedulable_node_can_take_waits_with_the_schedulers_own_words(bench):
    names = [
        row.name
        for row in NodeRecord.objects.filter(
            labels__contains={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
        )
    ]
    refs = [kinds.ObjectRef("v1", "Node", "", name) for name in names]
    try:
        for ref in refs:
            bench.client.patch_merge(ref, {"spec": {"unschedulable": True}})
        run = bench.submit()
        bench.until(run, lambda run: run.reason == "Unschedulable")
        assert run.phase == "Admitted"
        assert "unschedulable" in run.message
    finally:
        for ref in refs:
            bench.client.patch_merge(ref, {"spec": {"unschedulable": None}})


def test_a_run_without_gpus_that_no_node_has_room_for_says_which_node_has_how_much(bench):
    """One fills each node that takes such pods, which have sixteen cores; the last has its pod made and waits."""
    plain = {"flavor": None, "gpus_per_replica": 0, "cpu": "10"}
    for node in NodeRecord.objects.all():
        if takes_plain_pods(node.facts):
            bench.until(bench.submit(name=f"on-{node.name}", **plain), lambda run: run.phase == "Running")
    run = bench.submit(name="last", **plain)
    bench.until(run, lambda run: run.reason == "Unschedulable")
    assert run.phase == "Admitted"
    card = card_of(run, named=frozenset(), now=clock.now())
    assert (card.verdict.outcome, card.verdict.rule) == ("wait", "blocks")
    assert "This run needs 10 cores on one node; cpu-" in card.verdict.message
    assert [dict(offer.lever.change) for offer in card.offers] == [{"cpu": "6"}]


def test_a_run_whose_job_is_deleted_by_somebody_else_fails_and_says_so(bench):
    run = bench.running(env={"BED_STOP_SECONDS": 1})
    (job,) = bench.own(run, kinds.JOB)
    bench.delete(kinds.JOB, job)
    bench.until(run, lambda run: run.is_final, seconds=90)
    assert (run.phase, run.reason) == ("Failed", "DeletedExternally")
    assert Quota.objects.get().used == 0


def test_a_longer_time_limit_reaches_the_running_job(bench):
    run = bench.running()
    update_training_run(
        run=run.training_run,
        priority=None,
        time_limit_seconds=7200,
        actor=Actor.of_user(bench.member),
        now=clock.now(),
    )
    bench.turn(run)
    (job,) = bench.own(run, kinds.JOB)
    assert job["spec"]["activeDeadlineSeconds"] > 7200
    assert run.time_limit_seconds == 7200
    assert run.observed_generation == run.generation
    assert run.phase == "Running"


def test_a_run_that_uses_up_its_time_limit_is_stopped_and_fails_with_that_reason(bench):
    run = bench.running()
    run.attempts.update(started_at=clock.now() - timedelta(seconds=601))
    bench.until(run, lambda run: run.is_final, seconds=90)
    assert (run.phase, run.reason) == ("Failed", "DeadlineExceeded")
    assert Quota.objects.get().used == 0


def test_a_run_that_ends_while_nobody_looks_began_and_ended_when_its_pod_did(bench):
    run = bench.submit(env={"BED_RUN_SECONDS": 1})
    bench.until(run, lambda run: run.attempts.filter(ended_at=None).exclude(object_uid="").exists())
    assert run.started_at is None
    phase = lambda: [pod["status"].get("phase") for pod in bench.own(run, kinds.POD)]  # noqa: E731
    until_equal(phase, ["Succeeded"], 60)
    bench.until(run, lambda run: run.is_final)
    (pod,), (attempt,) = run.pods.all(), run.attempts.all()
    assert (run.started_at, run.finished_at) == (pod.started_at, pod.finished_at)
    assert (attempt.started_at, attempt.ended_at) == (pod.scheduled_at, pod.finished_at)
    assert run.used_seconds == (pod.finished_at - pod.scheduled_at).total_seconds()
    assert run.events.order_by("id").last().at > pod.finished_at, "when it was found out is the event's time"
