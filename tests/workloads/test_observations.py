"""Rows of what the API server showed: what money is made of is never lost again."""

from __future__ import annotations

import itertools
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.names import DEFAULT_CLUSTER
from tests.effort import drawn
from tests.factories.catalogue import make_flavor
from tests.factories.workloads import make_workload
from workloads import observations
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord, ObjectRecord, PodRecord
from workloads.observations import PodSeen, mark_pods_missing
from workloads.podrequests import gpus_of_pod, others_of_pod
from workloads.strays import workloads_of

pytestmark = pytest.mark.django_db

record_pods, record_object, record_node, record_node_pool, record_foreign_pod = (
    partial(record, cluster=DEFAULT_CLUSTER)
    for record in (
        observations.record_pods,
        observations.record_object,
        observations.record_node,
        observations.record_node_pool,
        observations.record_foreign_pod,
    )
)


def record_pod(manifest, *, workload, **seen):
    record_pods([PodSeen(manifest, workload)], **seen)
    return PodRecord.objects.select_related("workload__flavor").get(uid=manifest["metadata"]["uid"])


T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)


def text(seconds):
    return (T0 + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def run():
    return make_workload(flavor=make_flavor(), units=2)


def pod(version=1, **changes):
    """A pod that was just made."""
    manifest = {
        "metadata": {
            "uid": "u1", "name": "train-1", "namespace": "team-x", "resourceVersion": str(version),
            "creationTimestamp": text(0), "labels": {"mlportal.dev/attempt": "3"},
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip
    manifest["metadata"] |= changes.pop("metadata", {})
    manifest["spec"] |= changes.pop("spec", {})
    manifest["status"] |= changes
    return manifest


def scheduled(version=2, **changes):
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": text(5)}]
    return pod(version, spec={"nodeName": "a100-0"}, conditions=conditions, **changes)


def running(version=3):
    state = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": text(9)}}}
    manifest = scheduled(version, phase="Running", containerStatuses=[state])
    manifest["status"]["conditions"].append(
        {"type": "Ready", "status": "True", "lastTransitionTime": text(9)}
    )
    return manifest


def failed(version=4, code=3):
    ended = {"exitCode": code, "reason": "Error", "startedAt": text(9), "finishedAt": text(60)}
    status = {"name": "main", "restartCount": 1, "state": {"terminated": ended}}
    return scheduled(version, phase="Failed", containerStatuses=[status])


MONEY = ("scheduled_at", "started_at", "finished_at", "deletion_at", "exit_code", "units", "node_name")


def money(record=None):
    record = record or PodRecord.objects.get()
    return {name: getattr(record, name) for name in MONEY}


ENDED = {
    "scheduled_at": at(5),
    "started_at": at(9),
    "finished_at": at(60),
    "deletion_at": None,
    "exit_code": 3,
    "units": 2,
    "node_name": "a100-0",
}


def test_a_pod_is_followed_from_its_making_to_its_end(run):
    for manifest, phase in (
        (pod(), "Pending"),
        (scheduled(), "Pending"),
        (running(), "Running"),
        (failed(), "Failed"),
    ):
        record = record_pod(manifest, workload=run, now=at(100))
        assert record.phase == phase
    assert money() == ENDED
    assert (record.attempt, record.restarts, record.reason, record.ready) == (3, 1, "Error", False)
    assert record.ended_at == at(60)


def test_a_pod_that_succeeds_has_exit_code_zero(run):
    record_pod(running(), workload=run, now=at(20))
    assert record_pod(failed(4, code=0), workload=run, now=at(100)).exit_code == 0


def poorer():
    bare = pod(1)
    bare["status"] = {"phase": "Failed"}
    no_spec = failed(2)
    del no_spec["spec"]
    no_status = failed(3)
    del no_status["status"]
    return [bare, no_spec, no_status, pod(1), scheduled(), running()]


@settings(max_examples=drawn(usual=30, soak=600), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(range(6)), max_size=6), st.lists(st.sampled_from(range(6)), max_size=6))
def test_older_poorer_and_repeated_descriptions_lose_nothing_that_decides_money(run, before, after):
    PodRecord.objects.all().delete()
    others = poorer()
    for index in before:
        record_pod(deepcopy(others[index]), workload=run, now=at(100))
    record_pod(failed(), workload=run, now=at(100))
    for index in after:
        record_pod(deepcopy(others[index]), workload=run, now=at(100))
    assert money() == ENDED


def test_what_is_gone_stays_gone_since_it_was_first_missed(run):
    record_pod(running(), workload=run, now=at(20))
    record_pod(running(), workload=run, now=at(30), gone=True)
    record_pod(running(), workload=run, now=at(40), gone=True)
    record = record_pod(running(), workload=run, now=at(50))
    assert (record.gone_at, record.ended_at, record.ready) == (at(30), at(30), False)


def test_a_pod_that_is_seen_after_it_was_missed_is_there_again(run):
    """Whoever missed it had an older list, or was told wrongly."""
    (row,) = missed(record_pod(running(3), workload=run, now=at(20)), as_of="8", now=at(30))
    assert (row.gone_at, row.ended_at, row.ready) == (at(30), at(30), False)
    assert record_pod(running(3), workload=run, now=at(40), as_of="7").gone_at == at(30), "an older list"
    assert record_pod(running(3), workload=run, now=at(40), as_of="8").gone_at == at(30), (
        "the list that lacked it"
    )
    row = record_pod(running(3), workload=run, now=at(50), as_of="9")
    assert (row.gone_at, row.ended_at, row.ready, row.resource_version) == (None, None, True, "3")


def test_a_change_of_a_pod_that_was_missed_brings_it_back_and_an_end_says_when_it_was(run):
    missed(record_pod(running(3), workload=run, now=at(20)), as_of="8", now=at(90))
    assert record_pod(running(9), workload=run, now=at(95)).gone_at is None
    missed(PodRecord.objects.get(), as_of="10", now=at(99))
    row = record_pod(failed(11), workload=run, now=at(100))
    assert (row.gone_at, row.ended_at, row.phase) == (None, at(60), "Failed")


def test_what_a_watch_says_was_deleted_does_not_come_back_by_what_was_seen_before(run):
    record_pod(running(3), workload=run, now=at(20))
    record_pod(running(9), workload=run, now=at(30), gone=True)
    for version, as_of in (("3", ""), ("5", ""), ("3", "8")):
        assert record_pod(running(version), workload=run, now=at(40), as_of=as_of).gone_at == at(30)


def test_an_older_description_changes_nothing(run):
    """A list that began before the last change ends after it."""
    record_pod(running(30), workload=run, now=at(20))
    before = PodRecord.objects.values().get()
    waiting = scheduled(9, metadata={"labels": {"mlportal.dev/attempt": "1"}}, message="pulling")
    record_pod(waiting, workload=run, now=at(21))
    assert PodRecord.objects.values().get() == before


def test_versions_that_are_no_numbers_only_differ(run):
    record_pod(running("abc"), workload=run, now=at(20))
    assert record_pod(failed("abd"), workload=run, now=at(30)).phase == "Failed"


def missed(*rows, as_of, now):
    return mark_pods_missing(rows, as_of=as_of, now=now)


def test_a_pod_that_was_told_to_go_and_vanished_ends_at_the_earlier_time(run):
    record_pod(running(), workload=run, now=at(20))
    told = {**running(), "metadata": pod(4, metadata={"deletionTimestamp": text(25)})["metadata"]}
    (record,) = missed(record_pod(told, workload=run, now=at(21)), as_of="8", now=at(80))
    assert (record.deletion_at, record.gone_at, record.ended_at) == (at(25), at(80), at(25))


@pytest.mark.parametrize(("grace", "asked"), [(15, 10), (0, 25), (None, 25)])
def test_a_pod_begins_to_stop_when_it_is_deleted_and_not_when_its_grace_period_ends(run, grace, asked):
    metadata = {"deletionTimestamp": text(25), "deletionGracePeriodSeconds": grace}
    told = {**running(), "metadata": pod(4, metadata=metadata)["metadata"]}
    record = record_pod(told, workload=run, now=at(11))
    assert (record.deletion_asked_at, record.deletion_at, record.stops_from) == (at(asked), at(25), at(asked))


def test_only_rows_that_nobody_has_written_since_are_marked_gone(run):
    read = record_pod(running(3), workload=run, now=at(20))
    record_pod(running(4), workload=run, now=at(21))
    assert missed(read, as_of="8", now=at(30)) == []
    assert PodRecord.objects.get().gone_at is None


def test_many_pods_are_recorded_in_as_many_statements_as_one(run):
    def described(count, version):
        manifests = [running(version) for _ in range(count)]
        for number, manifest in enumerate(manifests):
            manifest["metadata"] = manifest["metadata"] | {"uid": f"{count}-{number}"}
        return [PodSeen(manifest, run) for manifest in manifests]

    numbers = []
    for count, version in itertools.product((1, 40), (3, 4)):
        with CaptureQueriesContext(connection) as queries:
            assert len(record_pods(described(count, version), now=at(20))) == count
        numbers.append(len(queries))
    assert numbers[:2] == numbers[2:]
    assert PodRecord.objects.filter(resource_version="4", phase="Running").count() == 41


def test_an_evicted_pod_without_container_statuses_ends_with_its_last_condition(run):
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(5)},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": text(42)},
        {"type": "Ready", "status": "False", "lastTransitionTime": text(43)},
    ]
    evicted = pod(7, phase="Failed", reason="Evicted", message="low on memory", conditions=conditions)
    record = record_pod(evicted, workload=run, now=at(100))
    assert (record.finished_at, record.reason, record.message) == (at(43), "Evicted", "low on memory")
    assert record.exit_code is None


def test_a_pod_that_failed_without_any_time_ends_when_it_is_gone(run):
    record = record_pod(pod(2, phase="Failed"), workload=run, now=at(100))
    assert record.ended_at is None
    assert record_pod(pod(2, phase="Failed"), workload=run, now=at(120), gone=True).ended_at == at(120)


@pytest.mark.parametrize(
    ("containers", "units"),
    [
        ([{"limits": {"nvidia.com/gpu": "2"}}, {"limits": {"nvidia.com/gpu": "3"}}], 5),
        ([{"limits": {"nvidia.com/gpu": "2"}}, {"limits": {"cpu": "1"}}, {}], 2),
        ([{"limits": {"nvidia.com/mig-1g.10gb": "4"}}], 0),
        ([{"limits": {"nvidia.com/gpu": "1k"}}], 1000),
        ([{}], 0),
        ([], 0),
    ],
)
def test_units_of_the_runs_own_resource_are_counted_over_all_containers(run, containers, units):
    spec = {"containers": [{"name": f"c{index}", "resources": each} for index, each in enumerate(containers)]}
    assert record_pod(pod(spec=spec), workload=run, now=at(1)).units == units


def test_the_worst_exit_code_of_several_containers_is_kept_and_the_last_end(run):
    def ended(code, finish):
        state = {"exitCode": code, "reason": f"E{code}", "startedAt": text(9), "finishedAt": text(finish)}
        return {"name": f"c{code}", "restartCount": 0, "state": {"terminated": state}}

    manifest = scheduled(4, phase="Failed", containerStatuses=[ended(0, 90), ended(137, 60), ended(1, 70)])
    record = record_pod(manifest, workload=run, now=at(100))
    assert (record.exit_code, record.reason, record.finished_at) == (137, "E137", at(90))


@pytest.mark.parametrize("attempt", [None, "", "first", "-1", "9" * 30])
def test_a_label_that_somebody_else_spoilt_stops_nobody(run, attempt):
    labels = {} if attempt is None else {"mlportal.dev/attempt": attempt}
    assert record_pod(pod(metadata={"labels": labels}), workload=run, now=at(1)).attempt == 0


@pytest.mark.parametrize("value", ["", "garbage", "0" * 40, "00000000-0000-0000-0000-000000000000"])
def test_an_object_with_a_foreign_or_spoilt_id_is_nobodys(value):
    labels = {"app.kubernetes.io/managed-by": "ml-portal", "mlportal.dev/workload-id": value}
    assert workloads_of([{"metadata": {"labels": labels}}]) == [None]


def test_the_id_counts_only_beside_the_portals_own_mark(run, django_assert_num_queries):
    named = {"mlportal.dev/workload-id": str(run.public_id)}
    own = {"labels": {**named, "app.kubernetes.io/managed-by": "ml-portal"}}
    objects = [
        {"labels": named},
        {},
        {**own, "namespace": run.team.namespace_name},
        {**own, "namespace": "team-other"},
    ]
    with django_assert_num_queries(1):
        assert workloads_of([{"metadata": each} for each in objects]) == [None, None, run, None]


def node(**changes):
    return {
        "metadata": {"uid": "n1", "name": "a100-0", "resourceVersion": "1", "creationTimestamp": text(0)},
        "spec": {},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "96", "nvidia.com/gpumem": "40k", **changes.pop("allocatable", {})},
            "conditions": [{"type": "Ready", "status": changes.pop("ready", "True")}],
        },
        **changes,
    }  # fmt: skip


def test_a_node_is_described_by_whole_units_of_what_it_offers():
    record = record_node(node(), now=at(1))
    assert record.allocatable == {"nvidia.com/gpu": 8, "nvidia.com/gpumem": 40_000}
    assert record.ready
    assert not record_node(node(ready="Unknown"), now=at(2)).ready
    assert record_node(node(spec={"unschedulable": True}), now=at(3)).unschedulable
    assert NodeRecord.objects.count() == 1


def test_a_node_that_comes_back_is_there_again():
    assert record_node(node(), now=at(1), gone=True).gone_at == at(1)
    assert record_node(node(), now=at(2)).gone_at is None


def test_an_object_that_was_deleted_is_not_there_again_because_an_older_event_comes_late(run):
    manifest = {"apiVersion": "batch/v1", "kind": "Job", **pod()}
    record_object(manifest, workload=run, now=at(1))
    record_object(manifest, workload=run, now=at(2), gone=True)
    record_object(manifest, workload=run, now=at(3))
    assert ObjectRecord.objects.get().gone_at == at(2)


def asks(units, resource="nvidia.com/gpu", **values):
    return {"name": "c", "resources": {"limits": {resource: str(units), "cpu": "2"}}, **values}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [asks(2), asks(3)]}, 5),
        ({"containers": [asks(2)], "initContainers": [asks(4), asks(1)]}, 4),
        ({"containers": [asks(3), asks(2)], "initContainers": [asks(4)]}, 5),
        ({"containers": [asks(2)], "initContainers": [asks(1, **SIDECAR), asks(2)]}, 3),
        ({"containers": [asks(1)], "initContainers": [asks(1, **SIDECAR), asks(4)]}, 5),
        ({"containers": [asks(1)], "initContainers": [asks(4), asks(1, **SIDECAR)]}, 4),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}]}, 2),
        ({"containers": [asks(0), {}, {"resources": None}]}, 0),
        ({}, 0),
    ],
)
def test_a_pod_holds_what_its_containers_ask_for_together_or_one_init_container_alone(spec, expected):
    assert gpus_of_pod(spec) == ({"nvidia.com/gpu": expected} if expected else {})


def test_of_each_resource_the_largest_moment_counts():
    slices = "nvidia.com/mig-1g.10gb"
    spec = {"containers": [asks(2), asks(1, slices)], "initContainers": [asks(3), asks(4, slices)]}
    assert gpus_of_pod(spec) == {"nvidia.com/gpu": 3, slices: 4}
    assert gpus_of_pod({"containers": [asks(1, "vpc.amazonaws.com/efa")]}) == {}


def wants(cpu, memory, **values):
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **values}


GIB = 1024**3


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [wants("500m", "1Gi"), wants("0.25", "512Mi")]}, 750, GIB * 3 // 2),
        ({"containers": [wants("1", "1Gi")], "initContainers": [wants("2", "512Mi")]}, 2000, GIB),
        ({"containers": [wants("1", "1Gi")], "initContainers": [wants("1", "1Gi", **SIDECAR)]}, 2000, 2 * GIB),
        ({"containers": [wants("1", "1Gi")], "overhead": {"cpu": "250m", "memory": "120Mi"}}, 1250, GIB + 120 * 1024**2),
        ({"containers": [wants("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}}, 3000, GIB),
        ({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "3Gi"}}}]}, 2000, 3 * GIB),
        ({"containers": [wants("0.0001", "1")]}, 1, 1),
        ({"containers": [{}]}, 0, 0),
    ],
)  # fmt: skip
def test_cpu_and_memory_of_a_pod_are_counted_as_the_scheduler_does(spec, cpu, memory):
    found = others_of_pod(spec)
    assert (found.get("cpu", 0), found.get("memory", 0)) == (cpu, memory)


def test_what_a_pod_of_the_portal_takes_besides_gpus_is_kept_and_not_forgotten(run):
    limits = {"nvidia.com/gpu": "1", "cpu": "1500m", "memory": "2Gi", "ephemeral-storage": "10G"}
    record = record_pod(
        pod(spec={"containers": [{"name": "c", "resources": {"limits": limits}}]}), workload=run, now=at(1)
    )
    assert (record.cpu_millicores, record.memory_bytes, record.storage_bytes) == (1500, 2 * GIB, 10**10)
    record = record_pod(pod(version=2, spec={"nodeName": "n", "containers": []}), workload=run, now=at(2))
    assert (record.cpu_millicores, record.memory_bytes, record.storage_bytes) == (1500, 2 * GIB, 10**10)


def test_a_pod_of_others_without_gpus_takes_what_a_gpu_needs_beside_it():
    agent = pod(phase="Running", spec={"nodeName": "t4-0", "containers": [wants("250m", "2Gi")]})
    assert record_foreign_pod(agent, now=at(1)) == {"t4-0"}
    assert record_foreign_pod(agent, now=at(2)) == set()
    found = ForeignPod.objects.get()
    assert (found.requests, found.cpu_millicores, found.memory_bytes) == ({}, 250, 2 * GIB)
    assert record_foreign_pod(agent, now=at(3), gone=True) == {"t4-0"}
    assert not ForeignPod.objects.exists()


def other(phase="Running", node="a100-0", units=2):
    return pod(phase=phase, spec={"nodeName": node, "containers": [asks(units)]})


def test_a_pod_of_others_is_known_while_it_holds_gpus_of_a_node():
    assert record_foreign_pod(other("Pending", node=""), now=at(1)) == set()
    assert not ForeignPod.objects.exists()
    assert record_foreign_pod(other("Pending"), now=at(2)) == {"a100-0"}
    assert record_foreign_pod(other(), now=at(3)) == set(), "nothing that anybody waits for"
    found = ForeignPod.objects.get()
    assert (found.requests, found.node_name, found.seen_at) == ({"nvidia.com/gpu": 2}, "a100-0", at(2))
    # Only after it was made anew under the same identity, which no API server does.
    assert record_foreign_pod(other(node="a100-1", units=4), now=at(4)) == {"a100-0", "a100-1"}
    assert record_foreign_pod(other("Succeeded", node="a100-1"), now=at(5)) == {"a100-1"}
    assert record_foreign_pod(other("Succeeded", node="a100-1"), now=at(6)) == set()
    assert not ForeignPod.objects.exists()


@pytest.mark.parametrize("end", [{"gone": True}, {}])
def test_a_pod_of_others_that_goes_is_forgotten(end):
    record_foreign_pod(other(), now=at(1))
    assert record_foreign_pod(other("Running" if end else "Failed"), now=at(2), **end) == {"a100-0"}
    assert not ForeignPod.objects.exists()


def test_a_node_pool_is_described_by_what_its_nodes_may_be_and_whole_gpus():
    manifest = {
        "metadata": {"uid": "p1", "name": "gpus"},
        "spec": {
            "limits": {"cpu": "1k", "memory": "1Ti", "nvidia.com/gpu": "1k"},
            "template": {
                "metadata": {"labels": {"team": "x"}},
                "spec": {"requirements": [{"key": "a", "operator": "Exists"}], "taints": [{"key": "b"}]},
            },
        },
        "status": {"resources": {"nvidia.com/gpu": "16", "pods": "100"}},
    }
    record = record_node_pool(manifest, now=at(1))
    assert (record.limits, record.in_use) == ({"nvidia.com/gpu": 1000}, {"nvidia.com/gpu": 16})
    assert (record.labels, record.taints) == ({"team": "x"}, [{"key": "b"}])
    assert record.requirements == [{"key": "a", "operator": "Exists"}]
    bare = record_node_pool({"metadata": {"uid": "p1", "name": "gpus"}}, now=at(2))
    assert (bare.limits, bare.in_use, bare.requirements, bare.observed_at) == ({}, {}, [], at(2))
    assert NodePoolRecord.objects.count() == 1
