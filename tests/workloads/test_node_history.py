"""The history of nodes: no gap, no second twice, and what nobody watched is marked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.names import DEFAULT_CLUSTER
from controller import retention
from tests.effort import drawn
from tests.factories.catalogue import SETUP, make_flavor
from workloads.catalogue import set_flavor
from workloads.models import NodeInterval, NodeRecord, WatchCursor
from workloads.nodes.history import evidenced_until, keep_histories, node_intervals
from workloads.observations import mark_node_gone, record_node

pytestmark = pytest.mark.django_db

GPU, PRODUCT = "nvidia.com/gpu", "NVIDIA-A100-SXM4-40GB"
T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def flavor():
    return make_flavor()


def watched(seconds):
    """Nodes are followed, and were seen last then."""
    WatchCursor.objects.update_or_create(
        cluster=DEFAULT_CLUSTER, kind="Node", defaults={"seen_at": at(seconds)}
    )


def node(version=1, *, usable=8, has=8, product=PRODUCT, made=0, uid="n1", **changes):
    amounts = {"cpu": "96", **({GPU: str(has)} if has else {})}
    usable = {**amounts, **({GPU: str(usable)} if has else {})}
    labels = {"nvidia.com/gpu.product": product} if product else {}
    metadata = {
        "uid": uid,
        "name": f"gpu-{uid}",
        "resourceVersion": str(version),
        "creationTimestamp": at(made).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "labels": labels,
    }
    return {"metadata": metadata | changes, "status": {"capacity": amounts, "allocatable": usable}}


def see(manifest, seconds, *, gone=False, followed=True):
    """Seen by a watch that follows, unless it did not."""
    if followed:
        watched(seconds)
    return record_node(
        manifest, cluster=DEFAULT_CLUSTER, now=at(seconds) + timedelta(milliseconds=700), gone=gone
    )


def told():
    """`(from, until, cards, offered)` in seconds since T0, and `?` where it is not certain."""
    return [
        (
            int((row.started_at - T0).total_seconds()),
            None if row.ended_at is None else int((row.ended_at - T0).total_seconds()),
            row.cards,
            row.offered,
            *([] if row.certain else ["?"]),
        )
        for row in NodeInterval.objects.of(DEFAULT_CLUSTER)
    ]


def change_flavor(seconds, name="a100-40gb", **values):
    facts = {
        "card": "a100-40gb",
        "resource": GPU,
        "gpu_fraction": "1",
        "memory_gib": 40,
        "sharing": "none",
        "node_selector": {"nvidia.com/gpu.product": [PRODUCT]},
        "tolerations": [],
        "capacity": {"on-demand": {}},
        "enabled": True,
    }
    return set_flavor(name=name, actor=SETUP, now=at(seconds), **(facts | values))


def test_a_new_node_counts_from_when_it_was_made_until_it_is_gone():
    see(node(), 1)
    assert told() == [(0, None, 8, 8)]
    see(node(9), 100, gone=True)
    assert told() == [(0, 100, 8, 8)]
    row = NodeInterval.objects.get(node_uid="n1")
    assert (row.card, row.capacity_type, row.node_name) == ("a100-40gb", "on-demand", "gpu-n1")
    assert row.resources == {GPU: {"units": 8, "fraction": "1"}}


def test_a_node_that_was_there_before_anybody_followed_nodes_counts_from_its_first_sight():
    see(node(), 500, followed=False)
    assert told() == [(500, None, 8, 8)]


def test_a_change_ends_one_row_and_begins_another_in_the_same_second():
    see(node(), 1)
    see(node(2, usable=7), 40)
    see(node(3), 90)
    assert told() == [(0, 40, 8, 8), (40, 90, 8, 7), (90, None, 8, 8)]
    assert NodeInterval.objects.get(offered_numerator=7).stranded == 1


def test_two_changes_within_a_second_leave_what_the_second_ended_with():
    see(node(), 1)
    see(node(2, usable=7), 40)
    see(node(3, usable=6), 40)
    assert told() == [(0, 40, 8, 8), (40, None, 8, 6)]


def test_a_heartbeat_and_a_cordon_write_nothing():
    see(node(), 1)
    cordoned = node(2) | {"spec": {"unschedulable": True}}
    with CaptureQueriesContext(connection) as queries:
        see(cordoned, 40)
    assert told() == [(0, None, 8, 8)]
    assert not any("nodeinterval" in query["sql"] for query in queries)


def test_cards_stay_when_a_node_loses_its_labels_and_nobody_is_offered_them():
    see(node(), 1)
    see(node(2, product=None), 50)
    assert told() == [(0, 50, 8, 8), (50, None, 8, 0)]
    see(node(3), 80)
    assert told()[1:] == [(50, 80, 8, 0), (80, None, 8, 8)]


def test_what_comes_up_in_pieces_has_its_cards_from_the_start():
    see(node(has=0, product=None), 0)
    see(node(2, product=None), 20)
    assert told() == []
    see(node(3), 30)
    assert told() == [(0, 30, 8, 0), (30, None, 8, 8)]


def test_a_node_that_somebody_makes_one_with_gpus_later_counts_from_then_on():
    see(node(has=0, product=None), 0)
    see(node(2), 3600)
    assert told() == [(3600, None, 8, 8)]


def test_a_node_that_no_flavor_matches_has_no_history():
    see(node(product="Other"), 1)
    assert told() == []


def test_a_changed_flavor_judges_all_nodes_anew_from_then_on():
    see(node(), 1)
    see(node(uid="n2", product="Other"), 1)
    change_flavor(60, card="a100")
    assert [
        (row.card, row.ended_at and row.ended_at - T0) for row in NodeInterval.objects.of(DEFAULT_CLUSTER)
    ] == [
        ("a100-40gb", timedelta(seconds=60)),
        ("a100", None),
    ]
    change_flavor(90, name="other", card="other", node_selector={"nvidia.com/gpu.product": ["Other"]})
    assert told()[2:] == [(90, None, 8, 8)]
    before = told()
    change_flavor(95, card="a100", memory_gib=80)
    assert told() == before


def test_a_flavor_that_leaves_a_node_strands_its_cards():
    see(node(), 1)
    change_flavor(60, node_selector={"nvidia.com/gpu.product": ["Other"]})
    assert told() == [(0, 60, 8, 8), (60, None, 8, 0)]


def test_nodes_of_a_time_without_histories_get_one_and_only_once():
    see(node(), 1)
    NodeInterval.objects.of(DEFAULT_CLUSTER).delete()
    assert keep_histories(cluster=DEFAULT_CLUSTER, now=at(70)) == 1
    assert keep_histories(cluster=DEFAULT_CLUSTER, now=at(80)) == 0
    assert told() == [(70, None, 8, 8)]


def test_a_change_that_nobody_watched_lies_between_the_last_sight_and_now():
    see(node(), 1)
    watched(100)
    see(node(5, usable=7), 1000, followed=False)
    assert told() == [(0, 100, 8, 8), (100, 1000, 8, 8, "?"), (1000, None, 8, 7)]


def test_a_node_that_went_while_nobody_watched_is_evidenced_until_the_last_sight():
    record = see(node(), 1)
    watched(100)
    mark_node_gone(record, now=at(1000))
    assert told() == [(0, 100, 8, 8), (100, 1000, 8, 8, "?")]


def test_a_node_that_was_asked_to_go_was_still_there_then():
    see(node(), 1)
    watched(100)
    see(node(9, deletionTimestamp=at(400).strftime("%Y-%m-%dT%H:%M:%SZ")), 1000, gone=True, followed=False)
    assert told() == [(0, 400, 8, 8), (400, 1000, 8, 8, "?")]


def test_what_did_not_change_while_nobody_watched_goes_on():
    see(node(), 1)
    watched(100)
    see(node(5), 1000, followed=False)
    assert told() == [(0, None, 8, 8)]


def test_a_node_that_was_made_while_nobody_watched_is_certain_from_its_first_sight():
    watched(0)
    see(node(made=300), 1000, followed=False)
    assert told() == [(300, 1000, 8, 8, "?"), (1000, None, 8, 8)]


def test_a_node_that_was_missed_and_is_there_has_no_gap():
    record = see(node(), 1)
    mark_node_gone(record, now=at(50))
    see(node(2), 70)
    assert told() == [(0, 50, 8, 8), (50, None, 8, 8)]
    mark_node_gone(NodeRecord.objects.get(uid="n1"), now=at(90))
    see(node(3, usable=7), 100)
    assert told()[1:] == [(50, 90, 8, 8), (90, 100, 8, 8, "?"), (100, None, 8, 7)]


def test_what_is_known_of_nodes_holds_until_the_last_sight_of_a_watch_that_stands_still():
    assert evidenced_until(cluster=DEFAULT_CLUSTER, now=at(50)) == at(50)
    watched(10)
    assert evidenced_until(cluster=DEFAULT_CLUSTER, now=at(70)) == at(70)
    assert evidenced_until(cluster=DEFAULT_CLUSTER, now=at(71)) == at(10)


def test_rows_are_found_by_any_part_of_a_time():
    see(node(), 1)
    see(node(2, usable=7), 40)

    def found(start, end):
        return [row.offered for row in node_intervals(start=at(start), end=at(end))]

    assert found(-50, 0) == []
    assert found(-50, 1) == found(39, 40) == [8]
    assert found(40, 41) == found(10_000, 10_001) == [7]
    assert found(39, 41) == [8, 7]


def test_histories_are_kept_when_the_row_of_their_node_is_forgotten():
    record = see(node(), 1)
    mark_node_gone(record, now=at(50))
    retention.forget(now=at(86400 * 4000))
    assert not NodeRecord.objects.filter(uid="n1").exists()
    assert told() == [(0, 50, 8, 8)]


def refused(**values):
    row = NodeInterval.objects.get(node_uid="n1")
    row.pk = None
    for name, value in values.items():
        setattr(row, name, value)
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()


def test_the_database_refuses_a_second_twice_an_empty_row_and_more_than_there_is():
    see(node(), 1)
    see(node(2), 100, gone=True)
    refused(started_at=at(99), ended_at=at(120))
    refused(started_at=at(-10), ended_at=None)
    refused(started_at=at(100), ended_at=at(100))
    refused(started_at=at(100), ended_at=at(101), offered_numerator=9)
    row = NodeInterval.objects.get(node_uid="n1")
    row.pk, row.started_at, row.ended_at = None, at(100), at(101)
    row.save()
    row.pk, row.card, row.started_at = None, "another", at(0)
    row.save()


STATES = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from([8, 7, 4]), st.sampled_from([PRODUCT, PRODUCT, None])),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=drawn(usual=12, soak=2000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(states=STATES, data=st.data())
def test_late_and_repeated_descriptions_make_the_same_history(states, data):
    """Each is told once in order; between these come any that are older, or the same again."""
    NodeInterval.objects.of(DEFAULT_CLUSTER).delete()
    NodeRecord.objects.of(DEFAULT_CLUSTER).delete()
    moment, manifests = 0, []
    expected: list[list] = []
    for number, (after, usable, product) in enumerate(states):
        moment += after
        manifests.append(node(number + 1, usable=usable, product=product))
        see(manifests[-1], moment)
        for late in data.draw(st.lists(st.integers(0, number), max_size=3)):
            see(manifests[late], moment)
        if product or expected:
            offers = Fraction(usable if product else 0)
            begins = 0 if not expected and number == 0 else moment
            if not expected and number:
                expected.append([0, moment, 8, Fraction(0)])
            if not expected or expected[-1][3] != offers:
                if expected:
                    expected[-1][1] = moment
                expected.append([begins, None, 8, offers])
            else:
                expected[-1][1] = None
    assert told() == [tuple(row) for row in expected]
    see(node(99), moment + 5, gone=True)
    for late in range(len(manifests)):
        see(manifests[late], moment + 6)
    assert [row[1] for row in told()[-1:]] == [moment + 5 for _ in expected[-1:]]
