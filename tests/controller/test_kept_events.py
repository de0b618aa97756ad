"""Events of Kubernetes are kept as rows: those of teams' objects and warnings of nodes, each once, however often it is told."""

from __future__ import annotations

from typing import Any

import pytest

from controller.watch.events import record_events
from foundation import clock
from tests.factories.teams import make_team
from tests.pod_samples import T0, T1, T2, moment
from workloads.models import EventRecord

pytestmark = pytest.mark.django_db


def event(uid: str, *, namespace: str = "team-vision", kind: str = "Pod", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": uid, "creationTimestamp": T0},
        "involvedObject": {"kind": kind, "namespace": namespace, "name": "a-1", "uid": "uid-a-1"},
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "type": "Warning",
        "reportingComponent": "default-scheduler",
        "firstTimestamp": T0,
        "lastTimestamp": T1,
        "count": 2,
    } | more


def keep(*events: dict[str, Any]) -> int:
    return record_events(events, cluster="default", now=clock.now())


@pytest.fixture(autouse=True)
def vision():
    return make_team("vision")


def test_an_event_of_a_teams_object_is_kept_with_its_count_and_its_times():
    assert keep(event("e1")) == 1
    row = EventRecord.objects.get()
    assert (row.object_kind, row.object_name, row.object_uid, row.namespace) == (
        "Pod",
        "a-1",
        "uid-a-1",
        "team-vision",
    )
    assert (row.reason, row.source, row.count, row.warning) == (
        "FailedScheduling",
        "default-scheduler",
        2,
        True,
    )
    assert (row.first_at, row.last_at) == (moment(T0), moment(T1))


def test_told_again_it_is_one_row_and_an_older_telling_changes_nothing():
    keep(event("e1"))
    assert keep(event("e1", count=5, lastTimestamp=T2)) == 1
    assert keep(event("e1")) == 0
    assert keep(event("e1", count=5, lastTimestamp=T2)) == 0
    row = EventRecord.objects.get()
    assert (row.count, row.last_at) == (5, moment(T2))


def test_the_new_style_with_a_series_is_read():
    keep(
        event(
            "e1",
            count=None,
            firstTimestamp=None,
            lastTimestamp=None,
            eventTime=T0,
            series={"count": 7, "lastObservedTime": T2},
        )
    )
    row = EventRecord.objects.get()
    assert (row.count, row.first_at, row.last_at) == (7, moment(T0), moment(T2))


def test_of_other_namespaces_nothing_is_kept_and_of_nodes_only_warnings():
    keep(
        event("other", namespace="kube-system"),
        event("deceiving", namespace="team-nobody"),
        event("calm", namespace="", kind="Node", type="Normal"),
        event("node", namespace="", kind="Node", reason="XidError"),
    )
    assert [row.reason for row in EventRecord.objects.all()] == ["XidError"]


def test_a_team_of_an_existing_namespace_has_its_events_kept():
    make_team("speech", namespace="ml-speech")
    keep(event("mine", namespace="ml-speech"), event("not", namespace="team-speech"))
    assert [row.uid for row in EventRecord.objects.all()] == ["mine"]


def test_many_are_written_in_as_many_statements_as_one(django_assert_num_queries):
    with django_assert_num_queries(3):
        keep(*(event(f"e{index}") for index in range(50)))
    with django_assert_num_queries(2):
        assert keep(*(event(f"e{index}") for index in range(50))) == 0
