"""When a pod had ended that vanished without saying so: by its object, by its node, and in whatever order these are told."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from cluster import kinds
from controller.reconcile import sightings
from controller.reconcile.lifetimes import attempt_ended
from controller.reconcile.sightings import miss_pods, see_ends, see_pods
from controller.watch.objects import ObjectSink
from costs.ledger.check import check_all
from costs.ledger.services import record_usage, settle
from costs.models import UsageInterval
from costs.reports.queries import ledger_difference
from foundation import clock
from tests.factories.catalogue import make_flavor, make_price, make_quota
from tests.factories.submitted import make_pod as plain_pod
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_team
from workloads.models import Attempt, NodeRecord, ObjectRecord, PodRecord, WatchCursor
from workloads.observations import PodSeen, record_object
from workloads.pods.observation import Observation
from workloads.states import Reason

pytestmark = pytest.mark.django_db

START = clock.now().replace(microsecond=0) - timedelta(hours=1)


def at(seconds):
    return START + timedelta(seconds=seconds)


def text(seconds):
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def run():
    flavor, team = make_flavor(), make_team()
    make_quota(team, flavor, 8)
    make_price()
    made = make_run(team, make_member(team=team).user, flavor=flavor)
    type(made).objects.filter(pk=made.pk).update(attempt_number=1, observed_at=at(10))
    made.refresh_from_db()
    return made


@pytest.fixture
def pod(run):
    made = plain_pod(run, units=2, created_at=at(0), name="train-0", resource_version="5")
    PodRecord.objects.filter(pk=made.pk).update(scheduled_at=at(0), started_at=at(1))
    made = PodRecord.objects.select_related("workload__flavor", "workload__team").get(pk=made.pk)
    record_usage(made, now=at(10))
    WatchCursor.objects.create(cluster="default", kind="Pod", seen_at=at(20), listed_at=at(0))
    return made


def job(run, *, conditions=(), uid="job-1", version="9", attempt="1", **status):
    labels = {"mlportal.dev/attempt": attempt}
    metadata = {"uid": uid, "name": "train", "namespace": run.team.namespace_name, "resourceVersion": version,
                "creationTimestamp": text(0), "labels": labels}  # fmt: skip
    told = [
        {"type": kind, "status": "True", "lastTransitionTime": text(seconds)} for kind, seconds in conditions
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "status": {"conditions": told, **status},
    }


def end_of(pod):
    pod.refresh_from_db()
    usage = UsageInterval.objects.get(pod_uid=pod.uid)
    assert usage.ended_at == pod.ended_at, "what is charged is what the row says"
    return pod.ended_at, pod.certain_until, pod.bounded_by


def missed(pod, seconds=600):
    miss_pods(
        [PodRecord.objects.select_related("workload__flavor").get(pk=pod.pk)], as_of="50", now=at(seconds)
    )


def test_what_nothing_bounds_ends_when_it_was_first_missed_and_is_certain_until_the_last_sight(pod):
    missed(pod)
    assert end_of(pod) == (at(600), at(20), "")


def test_a_later_look_at_its_workload_is_a_sight_too(pod, run):
    type(run).objects.filter(pk=run.pk).update(observed_at=at(45))
    missed(pod)
    assert end_of(pod) == (at(600), at(45), "")


@pytest.mark.parametrize(
    "told",
    [
        {"completionTime": text(120), "conditions": [("Complete", 121)]},
        {"conditions": [("Complete", 120)]},
        {"conditions": [("Failed", 120), ("SuccessCriteriaMet", 60)]},
        {"conditions": [("Running", 5), ("Succeeded", 120)]},
    ],
)
def test_the_end_of_its_object_is_its_own_whatever_is_known_first(pod, run, told):
    ended = job(run, **told)

    def object_is_recorded():
        see_ends([(ended, run)], now=at(600))
        record_object(ended, workload=run, cluster="default", now=at(600))

    for order in permutations([object_is_recorded, object_is_recorded, lambda: missed(pod)]):
        ObjectRecord.objects.filter(workload=run).delete()
        PodRecord.objects.filter(pk=pod.pk).update(
            gone_at=None, seen_until=None, bounded_at=None, bounded_by=""
        )
        record_usage(PodRecord.objects.select_related("workload__flavor").get(pk=pod.pk), now=at(600))
        for happens in order:
            happens()
        assert end_of(pod) == (at(120), at(120), "job-completion")
    assert ledger_difference() == 0


def test_what_is_evidenced_is_not_shortened_by_an_object_that_ended_before(pod, run):
    """An operator may say that it is over while its pods still stop."""
    see_ends([(job(run, conditions=[("Failed", 12)]), run)], now=at(600))
    record_object(job(run, conditions=[("Failed", 12)]), workload=run, cluster="default", now=at(600))
    missed(pod)
    assert end_of(pod) == (at(20), at(20), "job-completion")


@pytest.mark.parametrize(
    "told",
    [
        {"attempt": "2", "conditions": [("Complete", 120)]},
        {"conditions": [("Complete", -5)]},
        {"conditions": [("Progressing", 120), ("Suspended", 120)]},
    ],
)
def test_an_object_of_another_attempt_or_that_has_not_ended_bounds_nothing(pod, run, told):
    missed(pod)
    see_ends([(job(run, **told), run)], now=at(600))
    record_object(job(run, **told), workload=run, cluster="default", now=at(600))
    missed(pod)
    assert end_of(pod) == (at(600), at(20), "")


def test_a_pod_ends_no_later_than_its_node(pod):
    node = NodeRecord.objects.create(cluster="default", uid="n", name=pod.node_name, resource_version="1",
                                     created_at=at(-100), gone_at=at(300))  # fmt: skip
    missed(pod)
    assert end_of(pod) == (at(300), at(20), "node-gone"), "and until then it is not certain"
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=None, bounded_at=None, bounded_by="")
    NodeRecord.objects.filter(pk=node.pk).update(created_at=at(-300), gone_at=at(-200))
    missed(pod)
    assert end_of(pod)[2] == "", "that was another node of this name"


def collected(pod, *, seconds, exit_code=None):
    """The pod as its garbage collector leaves it; with an exit code, its container had said that it ended."""
    ended = [{"name": "main", "state": {"terminated": {"exitCode": exit_code, "finishedAt": text(seconds)}}}]
    marked = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    metadata = {"uid": pod.uid, "name": pod.name, "namespace": pod.namespace, "resourceVersion": "9",
                "creationTimestamp": text(0), "deletionTimestamp": text(seconds),
                "labels": {"mlportal.dev/attempt": "1"}}  # fmt: skip
    limits = {pod.workload.flavor.resource: "2"}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": pod.node_name,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {
            "phase": "Failed",
            "conditions": [{**marked, "lastTransitionTime": text(seconds)}],
            "containerStatuses": ended if exit_code is not None else [],
        },
    }


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
@pytest.mark.parametrize("exit_code", [None, 137])
def test_a_pod_that_was_collected_since_its_node_has_gone_ended_with_the_node(pod, run, gone, exit_code):
    """The collector comes most of a minute later. What the container itself said goes before everything."""
    NodeRecord.objects.create(cluster="default", uid="n", name=pod.node_name, resource_version="1",
                              created_at=at(-100), gone_at=at(3_700))  # fmt: skip
    # A container that was started again had ended too; an operator says early that all is over, and a Job was deleted.
    PodRecord.objects.filter(pk=pod.pk).update(exit_code=1, deletion_at=at(3_600))
    record_object(job(run, conditions=[("Succeeded", 100)]), workload=run, cluster="default", now=at(100))
    settle(record_usage(pod, now=at(3_750)), now=at(3_750))
    see_pods(
        [PodSeen(collected(pod, seconds=3_760, exit_code=exit_code), run)], cluster="default", now=at(3_761)
    )
    if gone:
        again = collected(pod, seconds=3_760, exit_code=exit_code)
        again["metadata"]["resourceVersion"] = "10"
        see_pods([PodSeen(again, run)], cluster="default", now=at(3_762), gone=True)
    ended = at(3_700) if exit_code is None else at(3_760)
    assert end_of(pod)[:2] == (ended, ended), "it is paid by who used it"
    attempt = Attempt.objects.create(
        workload=run, number=1, object_name="train", started_at=at(1), created_at=at(0)
    )
    observation = Observation(stage="failed", reason=Reason.NODE_LOST, message="", finished_at=at(3_760))
    assert attempt_ended(attempt, observation, now=at(3_800)) == ended
    assert check_all(now=at(7_300)) == []


def test_a_pod_that_was_collected_while_nobody_watched_its_node_ended_when_it_was_collected(pod, run):
    see_pods([PodSeen(collected(pod, seconds=360), run)], cluster="default", now=at(361))
    assert end_of(pod)[0] == at(360)


def test_what_the_pod_says_of_its_own_end_goes_before_everything(pod, run):
    missed(pod)
    see_ends([(job(run, conditions=[("Complete", 120)]), run)], now=at(600))
    PodRecord.objects.filter(pk=pod.pk).update(finished_at=at(90))
    record_usage(PodRecord.objects.select_related("workload__flavor").get(pk=pod.pk), now=at(600))
    assert end_of(pod)[:2] == (at(90), at(90))


def test_a_time_at_which_it_was_to_be_gone_is_an_end_that_is_told(pod):
    PodRecord.objects.filter(pk=pod.pk).update(deletion_at=at(200))
    missed(pod)
    assert end_of(pod) == (at(200), at(200), "")


def test_a_pod_that_is_there_again_is_bounded_by_nothing(pod, run):
    missed(pod)
    see_ends([(job(run, conditions=[("Complete", 120)]), run)], now=at(600))
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=None)
    record_usage(PodRecord.objects.select_related("workload__flavor").get(pk=pod.pk), now=at(600))
    assert end_of(pod)[:2] == (None, None)


class Dies(Exception):
    pass


def test_that_its_object_ended_and_what_the_pod_cost_are_one_step(pod, run, monkeypatch):
    missed(pod)
    ended = job(run, conditions=[("Complete", 120)])
    ended["metadata"]["labels"] |= {
        "app.kubernetes.io/managed-by": "ml-portal", "mlportal.dev/workload-id": str(run.public_id)
    }  # fmt: skip

    def die(*_args, **_kwargs):
        raise Dies

    with monkeypatch.context() as patched:
        patched.setattr(sightings, "record_usages", die)
        with pytest.raises(Dies):
            ObjectSink(kinds.JOB).seen([ended], cluster="default", now=at(600), gone=False)
    assert end_of(pod)[0] == at(600)
    assert not ObjectRecord.objects.filter(uid="job-1").exists(), "a list will tell it again"
    ObjectSink(kinds.JOB).seen([ended], cluster="default", now=at(600), gone=False)
    assert end_of(pod)[0] == at(120)
