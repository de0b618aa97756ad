"""What is free of a flavor and of each of its capacity types, for the lists that show flavors."""

from __future__ import annotations

import pytest

from console.pages.queries import Offer, flavor_cards
from foundation import clock
from quotas.models import Quota
from quotas.queries import Stock, held_of, stock_of
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.teams import make_team
from tests.quotas.hall import cohort_of
from workloads.models import ForeignPod, NodeRecord, ResourceFlavor
from workloads.nodes.capacity import nodes

KIND = "karpenter.sh/capacity-type"
BOTH = {kind: {"node_selector": {KIND: [kind]}} for kind in ("on-demand", "spot")}
EIGHT = {"on-demand": 8, "spot": 8}
NONE = {"on-demand": 0, "spot": 0}

pytestmark = pytest.mark.django_db


def stock() -> Stock:
    flavor = ResourceFlavor.objects.annotate(held=held_of("pk", "resource")).get()
    return stock_of(flavor, nodes=nodes(), held=flavor.held)


@pytest.fixture
def two_kinds() -> ResourceFlavor:
    """A flavor with eight units of each capacity type."""
    flavor = make_flavor(capacity=BOTH)
    make_node("a100-0", **{KIND: "on-demand"})
    make_node("a100-1", **{KIND: "spot"})
    return flavor


def hold(flavor: ResourceFlavor, units: int, *, capacity_type: str = "on-demand") -> None:
    quota = make_quota(make_team(f"holds-{capacity_type}"), flavor, capacity_type=capacity_type)
    Quota.objects.filter(pk=quota.pk).update(used=units)


def test_a_capacity_type_has_only_its_own_nodes(two_kinds):
    assert stock() == Stock(units=16, free=16, free_of={"on-demand": 8, "spot": 8}, largest_of=EIGHT)


def test_what_teams_hold_of_one_capacity_type_is_not_taken_from_the_other(two_kinds):
    hold(two_kinds, 6)
    hold(two_kinds, 2, capacity_type="spot")
    assert stock() == Stock(units=16, free=8, free_of={"on-demand": 2, "spot": 6}, largest_of=EIGHT)


def test_what_pods_of_others_hold_is_not_free(two_kinds):
    ForeignPod.objects.create(
        uid="notebook",
        namespace="notebooks",
        name="jo",
        node_name="a100-0",
        requests={"nvidia.com/gpu": 3},
        seen_at=clock.now(),
    )
    assert stock() == Stock(units=16, free=13, free_of={"on-demand": 5, "spot": 8}, largest_of=EIGHT)


def test_capacity_types_that_share_their_nodes_never_have_more_free_than_those():
    flavor = make_flavor(capacity={"on-demand": {}, "spot": {}})
    make_node()
    hold(flavor, 6)
    assert stock() == Stock(units=8, free=2, free_of={"on-demand": 2, "spot": 2}, largest_of=EIGHT)


def test_a_node_that_takes_no_pods_counts_for_nothing(two_kinds):
    NodeRecord.objects.filter(name="a100-0").update(unschedulable=True)
    NodeRecord.objects.filter(name="a100-1").update(ready=False)
    assert stock() == Stock(units=0, free=0, free_of=NONE, largest_of=NONE)


def asks(
    flavor: ResourceFlavor, *, nominal: int = 8, capacity_type: str = "on-demand", cohort: str = ""
) -> Offer:
    """What a team that has quota of one capacity type sees of it."""
    team = make_team("asks", cohort_name=cohort)
    make_quota(team, flavor, nominal, capacity_type=capacity_type)
    [card] = flavor_cards(team=team, now=clock.now())
    return next(offer for offer in card.offers if offer.capacity_type == capacity_type)


def test_what_is_free_of_spot_is_no_room_for_what_asks_for_on_demand(two_kinds):
    hold(two_kinds, 8)
    assert not asks(two_kinds).has_room(1, 1)


def test_more_than_any_node_has_is_no_room_for_one_pod(two_kinds):
    make_node("a100-2", **{KIND: "on-demand"})
    offer = asks(two_kinds, nominal=16)
    assert offer.has_room(8, 2)
    assert not offer.has_room(9, 1)
    assert not offer.has_room(8, 3)


def test_what_may_be_borrowed_is_room(two_kinds):
    cohort_of("research")
    make_quota(make_team("lends", cohort_name="research"), two_kinds, 4)
    offer = asks(two_kinds, nominal=2, cohort="research")
    assert (offer.left, offer.borrowable) == (2, 4)
    assert offer.has_room(6, 1)
    assert not offer.has_room(7, 1)
