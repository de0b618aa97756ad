"""The page Cluster: who has which unit, what is wrong with a node, and where so many pods would fit."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from django.urls import reverse

from foundation import clock
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.teams import make_member
from tests.web.conftest import signed_in
from workloads.models import ForeignPod, NodeRecord, PodRecord

pytestmark = pytest.mark.django_db


def row_of(client, name, query=""):
    """The node's row of the map, or None."""
    context = client.get(f"/cluster/{query}").context
    return next((row for row in context["nodes"] if row.name == name), None)


def counts(row, part=0):
    return {state: count for state in ("mine", "others", "fits", "free", "cordoned", "faulty") if (count := getattr(row.parts[part], state))}  # fmt: skip


def change(name, **values):
    NodeRecord.objects.filter(name=name).update(**values)


@pytest.fixture
def held(world, made):
    """A node of eight, of which two are Ana's team's, one another team's and one a stranger's."""
    make_node("b-0")
    mine = made["resnet50"].pods.first()
    PodRecord.objects.filter(pk=mine.pk).update(node_name="b-0", units=2)
    make_quota(world.other, mine.workload.flavor)
    owner = make_member(team=world.other).user
    theirs = world.run("theirs", team=world.other.slug, owner=owner)
    pod = world.start(theirs)
    PodRecord.objects.filter(pk=pod.pk).update(node_name="b-0", units=1)
    ForeignPod.objects.create(
        uid="foreign", namespace="kube-system", name="dcgm", node_name="b-0", requests={"nvidia.com/gpu": 1}, seen_at=clock.now()
    )  # fmt: skip
    return theirs


def test_each_unit_of_a_node_is_mine_others_or_free(ana, held):
    row = row_of(ana, "b-0")
    assert counts(row) == {"mine": 2, "others": 2, "free": 4}
    assert row.words == "2 of my teams, 2 of others, 4 free"


def test_what_others_have_is_counted_and_never_named(ana, held):
    for address in ("/cluster/", "/cluster/?view=table", "/cluster/nodes/b-0/"):
        text = ana.get(address).content.decode()
        assert held.name not in text
        assert "dcgm" not in text
    assert "1 pod of other teams" in ana.get("/cluster/nodes/b-0/").content.decode()


def test_who_runs_the_platform_is_told_of_every_pod_of_a_node(world, held):
    text = signed_in(world.manager).get("/cluster/nodes/b-0/").content.decode()
    assert held.name in text
    assert "kube-system/dcgm" in text


@pytest.mark.parametrize(
    ("values", "found", "state"),
    [
        ({"unschedulable": True}, {"cordoned": 8}, "cordoned"),
        ({"ready": False}, {"faulty": 8}, "not ready"),
        ({"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}, {"cordoned": 8}, "tainted"),
        (
            {"capacity": {"nvidia.com/gpu": 8}, "allocatable": {"nvidia.com/gpu": 6}},
            {"free": 6, "faulty": 2},
            "",
        ),
        ({"capacity": {"nvidia.com/gpu": 8}, "allocatable": {"nvidia.com/gpu": 0}}, {"faulty": 8}, ""),
    ],
)
def test_what_cannot_be_had_of_a_node_is_told_from_what_is_free(ana, made, values, found, state):
    make_node("b-0")
    change("b-0", **values)
    row = row_of(ana, "b-0")
    assert (counts(row), row.state) == (found, state)


def test_a_slice_is_as_wide_as_its_part_of_a_card_and_lies_on_one(ana, world):
    small = make_flavor("mig-1g", resource="nvidia.com/mig-1g.10gb", product=None, fraction=Fraction(1, 7))
    large = make_flavor("mig-3g", resource="nvidia.com/mig-3g.40gb", product=None, fraction=Fraction(3, 7))
    node = make_node("mig", units=0)
    change("mig", allocatable={small.resource: 2, large.resource: 3})
    row = row_of(ana, node.name)
    assert [part.resource for part in row.parts] == [large.resource, small.resource]
    # Two of three sevenths on a card, the third beside both of one seventh on the next.
    assert row.cards == 2
    ((_, path),) = row.drawing.paths
    cells = [(int(x), int(width)) for x, width in re.findall(r"M(\d+) \d+h(\d+)", path)]
    assert [width for _, width in cells] == [10, 10, 10, 3, 3]
    assert all(x // 30 == (x + width) // 30 for x, width in cells)


def test_a_flavor_is_shown_alone_and_the_choice_stays_in_the_address(ana, world, made):
    make_flavor("h100", product="NVIDIA-H100")
    make_node("h100-0", product="NVIDIA-H100")
    answer = ana.get("/cluster/?flavor=h100")
    assert {row.name for row in answer.context["nodes"]} == {"h100-0"}
    assert [line.row.flavor for line in answer.context["lines"]] == ["h100"]
    assert "?flavor=h100&amp;view=table" in answer.content.decode()


@pytest.fixture
def blocks(world):
    """Ten free: six on one node, four on another."""
    flavor = make_flavor("h100", product="NVIDIA-H100")
    make_quota(world.team, flavor, 16)
    make_node("h-0", units=6, product="NVIDIA-H100")
    make_node("h-1", units=4, product="NVIDIA-H100")
    return flavor


@pytest.mark.parametrize(
    ("gpus", "pods", "verdict", "marked", "why"),
    [
        (4, 1, "yes", {"h-1": 4}, "On h-1 (4)."),
        (2, 5, "yes", {"h-0": 6, "h-1": 4}, "On h-0 (6), h-1 (4)."),
        (4, 3, "partly", {"h-0": 4, "h-1": 4}, "10 free, largest usable block 6."),
        (8, 1, "no", {}, "No node can ever give 8 to one pod: the largest has 6."),
    ],
)
def test_the_places_where_so_many_would_fit_are_those_that_admission_takes(
    ana, blocks, gpus, pods, verdict, marked, why
):
    context = ana.get(f"/cluster/?flavor=h100&gpus={gpus}&pods={pods}").context
    assert context["answer"].verdict == verdict
    assert why in context["answer"].why
    assert {row.name: row.parts[0].fits for row in context["nodes"] if row.parts[0].fits} == marked


def test_a_node_whose_memory_is_used_up_has_room_for_no_pod(ana, world, blocks):
    change("h-0", others={"cpu": "64", "memory": "512Gi", "pods": "110"})
    change("h-1", others={"cpu": "64", "memory": "512Gi", "pods": "110"})
    ForeignPod.objects.create(
        uid="eats", namespace="db", name="eats", node_name="h-1", memory_bytes=500 << 30, seen_at=clock.now()
    )
    context = ana.get("/cluster/?flavor=h100&gpus=4").context
    assert [row.name for row in context["nodes"] if row.parts[0].fits] == ["h-0"]


def test_what_is_admitted_and_has_no_node_yet_is_not_offered_again(ana, world, blocks):
    held = world.run("held", flavor="h100", gpus_per_replica=6)
    pod = world.start(held)
    PodRecord.objects.filter(pk=pod.pk).delete()
    context = ana.get("/cluster/?flavor=h100&gpus=6").context
    assert context["answer"].verdict == "no"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("gpus=4", "flavor"),
        ("flavor=h100&gpus=0", "gpus"),
        ("flavor=h100&capacity=spot", "capacity"),
        ("flavor=nothing", "flavor"),
    ],
)
def test_a_question_that_cannot_be_answered_says_at_its_field_why(ana, blocks, query, field):
    answer = ana.get(f"/cluster/?{query}")
    assert answer.status_code == 200
    assert answer.context["form"].errors[field]
    assert answer.context["answer"] is None


def test_fragmentation_and_demand_stand_beside_each_flavor(ana, world, blocks):
    world.run("waits", flavor="h100", gpus_per_replica=6)
    world.run("waits-too", flavor="h100", gpus_per_replica=2)
    (line,) = ana.get("/cluster/?flavor=h100").context["lines"]
    assert line.row.words == "10 free, largest usable block 6"
    assert (line.scattered, line.runs, line.units) == (40, 2, 8)


def test_the_table_says_what_the_map_shows(ana, held):
    text = ana.get("/cluster/?view=table").content.decode()
    cells = re.search(r"b-0</a>.*?</tr>", text, re.DOTALL)
    said = {name: re.search(rf'data-label="{name}"[^>]*><span>(\d+)', cells[0])[1] for name in ("Units", "My teams", "Others", "Free")}  # fmt: skip
    assert said == {"Units": "8", "My teams": "2", "Others": "2", "Free": "4"}


def test_nodes_of_a_large_pool_are_shown_page_by_page(ana, made):
    for number in range(130):
        make_node(f"big-{number:03}", product="NVIDIA-H200")
    make_flavor("h200", product="NVIDIA-H200")
    answer = ana.get("/cluster/?flavor=h200")
    (shown,) = answer.context["pools"]
    assert (len(shown.nodes), shown.left_out) == (96, 34)
    first = ana.get("/cluster/", {"pool": shown.pool.name})
    second = ana.get(f"/cluster/{first.context['links']['after']}")
    names = [row.name for page in (first, second) for row in page.context["nodes"]]
    assert names == [f"big-{number:03}" for number in range(130)]
    assert second.context["links"]["after"] == ""


def test_nodes_are_grouped_by_their_pool_and_product(ana, made):
    make_node("k-0", **{"karpenter.sh/nodepool": "spot-a"})
    names = [shown.pool.name for shown in ana.get("/cluster/").context["pools"]]
    assert "spot-a · NVIDIA-A100-SXM4-40GB" in names


@pytest.mark.parametrize("query", ["view=pie", "pool=none", "what=1"])
def test_an_address_that_says_nothing_is_refused(ana, made, query):
    assert ana.get(f"/cluster/?{query}").status_code == 400


def test_the_address_of_the_tables_goes_on_to_where_they_are(ana):
    answer = ana.get("/capacity/")
    assert (answer.status_code, answer["Location"]) == (301, "/cluster/?view=table")


def test_a_node_tells_its_conditions_its_taints_and_what_it_was(ana, made):
    node = make_node("b-0", others={"cpu": "64", "memory": "512Gi", "pods": "110"})
    change(
        "b-0",
        conditions=[{"type": "DiskPressure", "status": "True", "reason": "Full", "message": "disk is full"}],
        taints=[{"key": "dedicated", "value": "vision", "effect": "NoSchedule"}],
    )
    node.refresh_from_db()
    text = ana.get(reverse("portal:cluster-node", args=["b-0"])).content.decode()
    assert "DiskPressure: True." in text
    assert "dedicated=vision:NoSchedule" in text
    assert "512Gi left" in text
    assert "DiskPressure" in ana.get("/cluster/").content.decode()


def test_a_node_that_has_gone_is_still_told_of_and_none_that_never_was(ana, made):
    make_node("b-0")
    change("b-0", gone_at=clock.now())
    assert "gone" in ana.get("/cluster/nodes/b-0/").content.decode()
    assert ana.get("/cluster/nodes/nothing/").status_code == 404
