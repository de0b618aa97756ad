"""What the cluster has of a flavor: nodes with room, nodes that may come, and cards that several flavors share."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import drawn
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import make_pod
from tests.factories.workloads import make_workload
from tests.quotas import node_sets as sets
from tests.quotas.node_sets import COUNT_REQUIREMENT as COUNT
from tests.quotas.node_sets import needs, pool, provisionable
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord
from workloads.nodes.capacity import CardRoom, observe, pools_fed_by, pools_near, rooms_of
from workloads.provisioning import UNLIMITED

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
SHARED = "nvidia.com/gpu.shared"
MIG_1G, MIG_3G = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def put(node, **values):
    facts = {
        "name": node.name,
        "labels": node.labels,
        "allocatable": node.allocatable,
        "taints": list(node.taints),
        "ready": node.ready,
        "created_at": NOW,
    }
    return NodeRecord.objects.create(uid=f"uid-{node.name}", resource_version="1", **(facts | values))


@pytest.fixture
def cluster():
    """The nodes of the test cluster, as rows."""
    return {node.name: put(node) for node in sets.NODES}


def row(facts, *, card=""):
    """The row of one of the flavors of node_sets."""
    product = facts.node_selector.get(sets.PRODUCT, [None])
    flavor = make_flavor(
        facts.name,
        resource=facts.resource,
        product=product[0],
        fraction=facts.gpu_fraction,
        sharing=facts.sharing.value,
        capacity=dict(facts.capacity),
    )
    flavor.card = card or facts.name
    flavor.save()
    return flavor


def foreign(node, **units):
    count = ForeignPod.objects.count()
    names = {"gpu": sets.GPU, "shared": SHARED, "mig_1g": MIG_1G, "mig_3g": MIG_3G}
    ForeignPod.objects.create(
        uid=f"foreign-{count}",
        namespace="others",
        name=f"pod-{count}",
        node_name=node,
        requests={names[key]: value for key, value in units.items()},
        seen_at=NOW,
    )


def free(flavor, capacity_type="on-demand"):
    return {room.node: room.free for room in rooms_of(flavor, capacity_type).rooms}


def test_rooms_are_what_nodes_offer_less_what_pods_hold(cluster):
    a100 = row(sets.A100_40GB)
    assert free(a100) == {f"a100-{index}": 8 for index in range(4)}
    assert free(a100, "spot") == {"a100-spot-0": 8, "a100-spot-1": 8}
    run = make_workload(flavor=a100, units=6)
    make_pod(run, units=3, node_name="a100-0")
    make_pod(run, units=3, node_name="a100-1")
    make_pod(run, units=4, node_name="")
    make_pod(run, units=4, node_name="a100-2", finished_at=NOW)
    make_pod(run, units=4, node_name="a100-2", gone_at=NOW)
    foreign("a100-1", gpu=4)
    foreign("a100-1", shared=4)
    assert free(a100) == {"a100-0": 5, "a100-1": 1, "a100-2": 8, "a100-3": 8}
    rooms = rooms_of(a100, "on-demand")
    assert (rooms.free, rooms.largest_free, rooms.largest) == (22, 8, 8)
    assert [room.foreign for room in rooms.rooms] == [0, 4, 0, 0]


GIB = 1024**3


def test_cpu_memory_and_pods_of_a_node_are_counted_less_what_every_pod_on_it_takes(cluster):
    """Without GPUs too: a daemon of others, and a pod of a run that has none."""
    t4 = row(sets.T4)
    offers = {
        "cpu": "3920m",
        "memory": "16Gi",
        "ephemeral-storage": "100G",
        "pods": "110",
        "hugepages-2Mi": "0",
    }
    for name in ("t4-0", "t4-1"):
        cluster[name].others = offers
        cluster[name].save()
    beside = {"cpu_millicores": 500, "memory_bytes": GIB, "storage_bytes": 10**9}
    ForeignPod.objects.create(uid="d", namespace="x", name="d", node_name="t4-0", seen_at=NOW, **beside)
    make_pod(make_workload(flavor=t4), units=1, node_name="t4-0", **beside)
    make_pod(make_workload(), units=0, node_name="t4-0", **beside)
    make_pod(make_workload(), units=0, node_name="t4-0", finished_at=NOW, **beside)
    rooms = {room.node: room for room in rooms_of(t4, "on-demand").rooms}
    assert rooms["t4-0"].whole == (3420, 15 * GIB, 99 * 10**9, 109)
    assert rooms["t4-0"].left == (2420, 13 * GIB, 97 * 10**9, 107)
    assert rooms["t4-1"].left == rooms["t4-1"].whole == (3920, 16 * GIB, 100 * 10**9, 110)
    assert rooms["t4-2"].left == (None,) * 4, "nobody knows what that node has"
    assert rooms_of(t4, "on-demand").hosts == ((1, (3920, 16 * GIB, 10**11, 110)), (1, (None,) * 4))


def test_what_another_flavor_holds_of_the_same_name_on_a_node_is_held_there(cluster):
    """Two flavors that overlap count the same units."""
    any_gpu, a100 = row(sets.ANY_GPU), row(sets.A100_40GB)
    make_pod(make_workload(flavor=any_gpu, units=5), units=5, node_name="a100-3")
    assert free(a100)["a100-3"] == 3
    assert free(any_gpu)["a100-3"] == 3


def test_other_resources_of_a_node_are_not_touched_by_what_is_held_of_one(cluster):
    slices = row(sets.MIG_MIXED)
    thirds = make_flavor("mig-3g", resource=MIG_3G, product=None, sharing="mig", fraction=Fraction(3, 7))
    make_pod(make_workload(flavor=thirds, units=2), units=2, node_name="a100-mig-0")
    assert (free(slices), free(thirds)) == ({"a100-mig-0": 28}, {"a100-mig-0": 6})


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"unschedulable": True},
        {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
        {"taints": [{"key": "dedicated", "value": "x", "effect": "NoExecute"}]},
    ],
)
def test_a_node_that_takes_no_pods_has_no_room_and_counts_for_what_could_ever_be_held(change):
    put(sets.NODES[1], **change)
    flavor = row(sets.A100_40GB)
    assert free(flavor) == {}
    assert rooms_of(flavor, "on-demand").largest == 8
    NodeRecord.objects.update(gone_at=NOW)
    rooms = rooms_of(flavor, "on-demand")
    assert (rooms.largest, rooms.nodes) == (0, [])


def test_more_bound_than_offered_shows_as_a_debt(cluster):
    """A GPU that fails takes a unit from under its pods."""
    flavor = row(sets.A100_40GB)
    make_pod(make_workload(flavor=flavor, units=8), units=8, node_name="a100-0")
    cluster["a100-0"].allocatable = {sets.GPU: 7}
    cluster["a100-0"].save()
    assert free(flavor)["a100-0"] == -1
    assert rooms_of(flavor, "on-demand").free == 24, "the debt of one node is not taken from the others"


def test_any_number_of_pools_is_answered_from_one_query(cluster):
    flavors = [row(facts, card="one") for facts in sets.FLAVORS]
    with CaptureQueriesContext(connection) as asked:
        known = observe()
        for flavor in flavors:
            for capacity_type in flavor.capacity:
                rooms_of(flavor, capacity_type, known=known)
    assert len(asked) == 1
    with CaptureQueriesContext(connection) as asked:
        rooms_of(flavors[0], "on-demand")
    assert len(asked) == 1


# --- nodes from zero


def may_come(flavor, capacity_type="on-demand"):
    rooms = rooms_of(flavor, capacity_type)
    return rooms.provisionable_block, rooms.provisionable_units


@pytest.mark.parametrize(
    ("sizes", "expected"), [((), (8, 32)), ((8,), (8, 24)), ((8, 8, 8, 8), (8, 0)), ((64,), (8, 0))]
)
def test_of_what_may_exist_what_exists_is_taken_off(sizes, expected):
    for index, size in enumerate(sizes):
        put(
            sets.NodeFacts(f"n{index}", {sets.PRODUCT: sets.A100}, {sets.GPU: size}), unschedulable=index == 0
        )
    flavor = make_flavor(capacity={"on-demand": provisionable(8, 32)})
    assert may_come(flavor) == expected
    assert rooms_of(flavor, "on-demand").largest == max([8, *sizes])
    assert may_come(make_flavor("other")) == (0, 0)


def put_pool(facts):
    values = {
        name: getattr(facts, name)
        for name in ("name", "labels", "requirements", "taints", "limits", "in_use")
    }
    NodePoolRecord.objects.create(uid=facts.name, observed_at=NOW, **values)


@pytest.mark.parametrize(
    ("declared", "changes", "expected"),
    [
        (None, {}, (8, 24)),
        (None, {"in_use": {sets.GPU: 16}}, (8, 8)),
        (None, {"in_use": {sets.GPU: 40}}, (8, 0)),
        (None, {"limits": {}}, (8, UNLIMITED)),
        ((4, 16), {}, (4, 16)),
        ((16, 64), {}, (16, 24)),
        ((16, 64), {"limits": {}}, (16, 64)),
        ((16, 64), {"labels": {sets.PRODUCT: "Tesla-T4"}}, (16, 64)),
        (None, {"labels": {sets.PRODUCT: "Tesla-T4"}}, (0, 0)),
        (None, {"requirements": []}, (0, 0)),  # nothing says how many GPUs one node has
    ],
)
def test_the_declared_block_and_the_smaller_limit_hold(declared, changes, expected):
    put_pool(pool(**({"requirements": [needs(COUNT, "In", "1", "8")]} | changes)))
    flavor = make_flavor(capacity={"on-demand": provisionable(*declared) if declared else {}})
    assert may_come(flavor) == expected


def test_the_block_of_a_pool_that_does_not_say_is_the_largest_seen_and_pools_add_up():
    put(sets.NodeFacts("n0", {sets.PRODUCT: sets.A100}, {sets.GPU: 4}))
    put_pool(pool(in_use={sets.GPU: 4}))
    put_pool(pool(name="more", limits={sets.GPU: 8}))
    assert may_come(make_flavor()) == (4, 28)


# --- cards


def cards(flavor, capacity_type="on-demand"):
    return rooms_of(flavor, capacity_type).card


def test_shares_and_whole_gpus_of_one_card_are_counted_in_parts_of_it(cluster):
    whole, renamed, plain = (
        row(sets.T4, card="t4"),
        row(sets.T4_RENAMED, card="t4"),
        row(sets.T4_UNRENAMED, card="t4"),
    )
    alone = row(sets.A100_40GB)
    # Four whole cards, and two that are shared by four.
    assert cards(whole) == CardRoom(card="t4", parts=4, per_unit=4, total=24, foreign=0)
    assert cards(renamed) == CardRoom(card="t4", parts=4, per_unit=1, total=24, foreign=0)
    foreign("t4-2", gpu=1)
    foreign("t4-unrenamed-0", gpu=3)
    foreign("t4-shared-0", shared=1)
    foreign("a100-0", gpu=8)
    assert cards(plain).foreign == 8
    assert cards(alone) is None, "no other flavor is cut from it"


def test_slices_of_several_sizes_on_the_same_cards_are_capped_by_the_cards(cluster):
    ones = row(sets.MIG_MIXED, card="a100-80gb")
    threes = make_flavor("mig-3g", resource=MIG_3G, product=None, sharing="mig", fraction=Fraction(3, 7))
    type(threes).objects.filter(pk=threes.pk).update(card="a100-80gb")
    # Eight cards by their label, though the slices that are cut now add up to less.
    assert cards(ones) == CardRoom(card="a100-80gb", parts=7, per_unit=1, total=56, foreign=0)
    foreign("a100-mig-0", mig_3g=2, mig_1g=5)
    threes.refresh_from_db()
    assert (cards(threes).foreign, cards(threes).per_unit) == (11, 3)


def test_where_the_label_counts_slices_the_slices_are_added_up(cluster):
    """Under MIG strategy `single` gpu.count is 56 on a node with eight cards."""
    single = row(sets.MIG_SINGLE, card="a100-80gb")
    row(sets.MIG_MIXED, card="a100-80gb")
    assert cards(single).total == 7 * (8 + 8)
    NodeRecord.objects.filter(name="a100-mig-0").update(labels={})
    assert cards(single).total == 7 * 8 + 28, "without the label what is offered is added up"


def test_cards_that_may_still_come_are_there_for_the_claims_to_take():
    whole = make_flavor("t4", product="Tesla-T4", capacity={"on-demand": provisionable(1, 6)})
    share = make_flavor("t4-shared", resource=SHARED, product="Tesla-T4", sharing="time-slicing",
                        fraction=Fraction(1, 4), capacity={"on-demand": {}, "spot": provisionable(4, 8)})  # fmt: skip
    for flavor in (whole, share):
        flavor.card = "t4"
        flavor.save()
    assert cards(whole) == CardRoom(card="t4", parts=4, per_unit=4, total=6 * 4 + 8, foreign=0)


# --- who has to look again


def test_a_node_concerns_the_flavors_that_it_offers_and_those_of_the_same_cards(cluster):
    whole, share = row(sets.T4, card="t4"), row(sets.T4_RENAMED, card="t4")
    a100 = row(sets.A100_40GB)
    near = {name: pools_near([cluster[name].facts]) for name in ("t4-0", "a100-0", "a100-spot-0", "cpu-0")}
    assert near["t4-0"] == {(whole.pk, "on-demand"), (share.pk, "on-demand")}
    assert (a100.pk, "on-demand") in near["a100-0"]
    assert near["cpu-0"] == set()
    assert pools_fed_by([pool()]) == {(a100.pk, "on-demand"), (a100.pk, "spot")}


names = st.sampled_from([node.name for node in sets.NODES])
held = st.lists(st.tuples(names, st.integers(1, 8)), max_size=8)


@settings(
    max_examples=drawn(usual=10, soak=400),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(own=held, others=held)
def test_free_is_never_more_than_what_nobody_holds(cluster, own, others):
    """Against a count by hand, for every flavor at once."""
    ForeignPod.objects.all().delete()
    flavors = [row(facts) for facts in (sets.ANY_GPU, sets.A100_40GB)]
    try:
        taken: dict[str, int] = {}
        for index, (node, units) in enumerate(own):
            make_pod(make_workload(flavor=flavors[index % 2], units=units), units=units, node_name=node)
            taken[node] = taken.get(node, 0) + units
        for node, units in others:
            foreign(node, gpu=units)
            taken[node] = taken.get(node, 0) + units
        for flavor in flavors:
            for room in rooms_of(flavor, "on-demand").rooms:
                assert room.free == room.size - taken.get(room.node, 0)
    finally:
        for flavor in flavors:
            flavor.workloads.all().delete()
            flavor.delete()
