"""Which flavors can be written down: what contradicts itself is refused with the field named."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.errors import Invalid
from tests.factories.catalogue import SETUP
from tests.factories.teams import api_client, make_user
from workloads.catalogue import set_flavor
from workloads.models import ResourceFlavor
from workloads.placement import node_terms

pytestmark = pytest.mark.django_db

PRODUCT = "nvidia.com/gpu.product"
GOOD = {
    "name": "a100", "card": "a100", "resource": "nvidia.com/gpu", "gpu_fraction": "1", "memory_gib": 40,
    "sharing": "none", "node_selector": {PRODUCT: ["A100"]},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "capacity": {"on-demand": {}},
}  # fmt: skip


def put(**changes):
    return set_flavor(**(GOOD | changes), actor=SETUP, now=clock.now())[0]


def share(sharing, fraction, resource="nvidia.com/gpu", *products):
    selector = {PRODUCT: list(products)} if products else {}
    return {"sharing": sharing, "gpu_fraction": fraction, "resource": resource, "node_selector": selector}


SHARED = "nvidia.com/gpu.shared"
SLICE = "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        share("none", "1", "amd.com/gpu"),
        share("mig", "1/7", SLICE),
        share("mig", "3/7", "nvidia.com/mig-3g.40gb"),
        share("mig", "1", "nvidia.com/mig-7g.80gb"),
        share("mig", "1/7", "nvidia.com/gpu", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A30-MIG-1g.6gb"),
        share("time-slicing", "1/4", SHARED),
        share("time-slicing", "0.25", "nvidia.com/gpu", "Tesla-T4-SHARED"),
        share("time-slicing", "3/14", "nvidia.com/mig-3g.40gb.shared"),
        share("mps", "1/10"),
        share("mps", "1/10", SHARED),
        {
            "node_selector": {
                "cloud.google.com/gke-accelerator": ["nvidia-tesla-t4", "nvidia-l4"],
                "zone": [""],
            }
        },
        {"capacity": {"spot": {"node_selector": {"a": ["b"]}, "provisionable": {"block": 8, "units": 8}}}},
        {"capacity": {"on-demand": {"provisionable": {"block": 0, "units": 0}}, "spot": {}}},
        {
            "capacity": {
                "spot": {
                    "provisionable": {
                        "block": 8,
                        "units": 8,
                        "cpu": 96,
                        "memory": "1Ti",
                        "ephemeral_storage": "1T",
                    }
                }
            }
        },
        {"tolerations": []},
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": ""}, {"key": "x.y/z", "value": "w"}]},
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]},
    ],
)
def test_every_kind_of_unit_can_be_a_flavor_and_be_looked_for(changes):
    flavor = put(**changes)
    for capacity_type in flavor.capacity:
        terms = node_terms(flavor.facts, capacity_type, [])
        assert set(flavor.node_selector) <= {term["key"] for term in terms}


def spot(**values):
    return {"capacity": {"spot": values}}


BAD = [
    ("gpu_fraction", share("none", "1/2")),
    ("gpu_fraction", share("time-slicing", "1", SHARED)),
    ("gpu_fraction", share("time-slicing", "3/4", SHARED)),
    ("gpu_fraction", share("mps", "2/3")),
    ("gpu_fraction", share("mig", "1", "vendor.example/slice")),
    ("sharing", share("none", "1", SLICE)),
    ("sharing", share("none", "1", SHARED)),
    ("sharing", share("mig", "1/7", SHARED)),
    ("sharing", share("mps", "1/7", SLICE)),
    ("sharing", share("some", "1")),
    ("node_selector", share("mig", "1/7")),
    ("node_selector", share("mig", "1/7", "nvidia.com/gpu", "A100", "A100-MIG-1g.5gb")),
    ("node_selector", share("none", "1", "nvidia.com/gpu", "Tesla-T4-SHARED")),
    ("node_selector", share("none", "1", "nvidia.com/gpu", "T4", "A100-MIG-1g.5gb")),
    ("node_selector.bad key", {"node_selector": {"bad key": ["x"]}}),
    ("node_selector.a/b/c", {"node_selector": {"a/b/c": ["x"]}}),
    ("node_selector.Upper/x", {"node_selector": {"Upper/x": ["x"]}}),
    ("node_selector.zone", {"node_selector": {"zone": []}}),
    ("node_selector.zone.1", {"node_selector": {"zone": ["a", "b c"]}}),
    ("node_selector.zone.0", {"node_selector": {"zone": ["x" * 64]}}),
    ("node_selector.zone.0", {"node_selector": {"zone": [7]}}),
    ("capacity", {"capacity": {}}),
    ("capacity", {"capacity": {"reserved": {}}}),
    ("capacity.spot.node_selector.zone", spot(node_selector={"zone": []})),
    ("capacity.spot.provisionable.block", spot(provisionable={"block": 9, "units": 8})),
    ("capacity.spot.provisionable.block", spot(provisionable={"block": -1, "units": 8})),
    ("capacity.spot.provisionable.block", spot(provisionable={"block": 1.5, "units": 8})),
    ("capacity.spot.provisionable.block", spot(provisionable={"block": "8", "units": 8})),
    ("capacity.spot.provisionable.block", spot(provisionable={"block": True, "units": 8})),
    ("capacity.spot.provisionable.block", spot(provisionable={"units": 8})),
    ("capacity.spot.provisionable.units", spot(provisionable={"block": 8, "units": 10**12})),
    ("capacity.spot.provisionable.memory", spot(provisionable={"block": 8, "units": 8, "memory": "a lot"})),
    ("capacity.spot.provisionable.cpu", spot(provisionable={"block": 8, "units": 8, "cpu": "-1"})),
    (
        "capacity.spot.provisionable.ephemeral_storage",
        spot(provisionable={"block": 8, "units": 8, "ephemeral_storage": True}),
    ),
    ("capacity.spot.provisionable.more", spot(provisionable={"block": 8, "units": 8, "more": 1})),
    ("capacity.spot.zone", spot(zone="a")),
    ("tolerations.0.operator", {"tolerations": [{"key": "a", "operator": "Never"}]}),
    ("tolerations.0.operator", {"tolerations": [{"value": "a"}]}),
    (
        "tolerations.1.value",
        {"tolerations": [{"key": "a"}, {"key": "a", "operator": "Exists", "value": "b"}]},
    ),
    ("tolerations.0.key", {"tolerations": [{"key": "a b", "operator": "Exists"}]}),
    ("tolerations.0.value", {"tolerations": [{"key": "a", "value": "b c"}]}),
    ("tolerations.0.effect", {"tolerations": [{"key": "a", "effect": "Sometimes"}]}),
    ("tolerations.0.tolerationSeconds", {"tolerations": [{"key": "a", "tolerationSeconds": 60}]}),
    ("tolerations.0.wrong", {"tolerations": [{"key": "a", "wrong": 60}]}),
]


@pytest.mark.parametrize(("field", "changes"), BAD)
def test_what_contradicts_itself_is_refused_by_the_service_and_nothing_is_kept(field, changes):
    """The admin site and files come this way too."""
    with pytest.raises(Invalid) as caught:
        put(**changes)
    assert [each.field for each in caught.value.errors] == [field]
    assert not ResourceFlavor.objects.exists()


@pytest.mark.parametrize(("field", "changes"), BAD)
def test_the_api_names_the_field_too(field, changes):
    client = api_client(make_user(quota_manager=True))
    answer = client.post("/api/v1/flavors/", GOOD | changes, format="json")
    assert answer.status_code == 422, answer.json()
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert not ResourceFlavor.objects.exists()


def test_a_change_of_one_value_is_judged_with_those_that_stay():
    put()
    with pytest.raises(Invalid) as caught:
        set_flavor(name="a100", gpu_fraction="1/4", actor=SETUP, now=clock.now())
    assert caught.value.errors[0].field == "gpu_fraction"
    assert ResourceFlavor.objects.get().gpu_fraction == 1


def test_the_api_takes_what_a_new_node_has_besides_gpus():
    client = api_client(make_user(quota_manager=True))
    declared = {"block": 8, "units": 8, "cpu": "96", "memory": "1152Gi", "ephemeral_storage": "1Ti"}
    body = GOOD | {"capacity": {"spot": {"provisionable": declared}}}
    assert client.post("/api/v1/flavors/", body, format="json").status_code == 200
    assert ResourceFlavor.objects.get().capacity == {"spot": {"provisionable": declared}}
