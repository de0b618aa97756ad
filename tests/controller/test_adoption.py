"""Whose namespaces the portal takes, and what its policies leave open: against teams that name those of others."""

from __future__ import annotations

import ipaddress
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.errors import ClusterRejected
from cluster.kinds import ObjectRef
from cluster.labels import MANAGED_BY, MANAGER, TEAM
from foundation import clock
from foundation.errors import Invalid
from quotas.models import Fence
from teams.models import Team
from teams.services import update_team
from tenancy import adoption
from tenancy.namespace_manifests import build_namespace
from tenancy.namespaces import ensure_namespace, forget_namespace
from tenancy.network_policies import Surroundings, build_egress
from tenancy.resource_quotas import keep_in_step
from tests.factories.teams import ACTOR, make_team

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def theirs(bench):
    """A namespace that somebody made, and the team that says it is its own."""
    name = f"theirs-{uuid4().hex[:8]}"
    made = bench.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    Team.objects.filter(pk=bench.team.pk).update(namespace=name)
    bench.team.refresh_from_db()
    yield name
    bench.client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


def label(bench, name, **labels):
    named = {key.replace("__", "/"): value for key, value in labels.items()}
    bench.client.patch_merge(ObjectRef("v1", "Namespace", "", name), {"metadata": {"labels": named}})


def read(bench, name):
    return bench.client.get(ObjectRef("v1", "Namespace", "", name))


def test_a_namespace_is_taken_over_with_its_owners_label_alone(bench, theirs):
    with pytest.raises(ClusterRejected, match=f"kubectl label namespace {theirs} {TEAM}={bench.team.slug}"):
        ensure_namespace(bench.client, bench.team)
    assert "pod-security.kubernetes.io/enforce" not in (read(bench, theirs)["metadata"].get("labels") or {})
    assert bench.client.list(kinds.NETWORK_POLICY, namespace=theirs).items == []
    label(bench, theirs, **{TEAM: "another"})
    with pytest.raises(ClusterRejected, match="is team another's"):
        ensure_namespace(bench.client, bench.team)
    label(bench, theirs, **{TEAM: bench.team.slug})
    ensure_namespace(bench.client, bench.team)
    assert read(bench, theirs)["metadata"]["labels"][MANAGED_BY] == MANAGER
    assert bench.client.list(kinds.NETWORK_POLICY, namespace=theirs).items


def test_what_is_refused_now_may_be_taken_later_and_is_no_fault_of_the_request(bench, theirs):
    with pytest.raises(ClusterRejected) as caught:
        ensure_namespace(bench.client, bench.team)
    assert not caught.value.permanent


def test_the_fence_of_a_namespace_of_another_team_is_not_moved(bench, theirs):
    label(bench, theirs, **{TEAM: "another", MANAGED_BY: MANAGER})
    keep_in_step(bench.client, now=clock.now())
    assert bench.client.list(kinds.RESOURCE_QUOTA, namespace=theirs).items == []
    assert Fence.objects.get(team=bench.team).observed is None


@pytest.mark.parametrize("name", ["kube-system", "kube-x", "default", "ml-portal"])
def test_no_team_has_a_namespace_of_kubernetes_or_of_the_portal(bench, name):
    with pytest.raises(Invalid, match="belongs to Kubernetes or to the portal"):
        make_team(namespace=name)
    wanted = build_namespace(namespace=name, team_slug="vision", pod_security="baseline")
    with pytest.raises(ClusterRejected, match="no team can use it"):
        adoption.settle(bench.client, wanted)


def egress_of(bench):
    name = bench.team.namespace_name
    return bench.client.get(ObjectRef("networking.k8s.io/v1", "NetworkPolicy", name, "mlportal-egress"))


def test_the_policy_in_the_cluster_follows_what_the_team_may_reach(bench):
    ensure_namespace(bench.client, bench.team)
    blocks = [
        to["ipBlock"] for rule in egress_of(bench)["spec"]["egress"] for to in rule["to"] if "ipBlock" in to
    ]
    everywhere = next(block for block in blocks if block["cidr"] == "0.0.0.0/0")
    assert "169.254.0.0/16" in everywhere["except"]
    update_team(actor=ACTOR, team=bench.team, changes={"egress": ["10.1.0.0/16"]}, now=clock.now())
    bench.team.refresh_from_db()
    forget_namespace(bench.client, bench.team)
    ensure_namespace(bench.client, bench.team)
    blocks = [
        to["ipBlock"] for rule in egress_of(bench)["spec"]["egress"] for to in rule["to"] if "ipBlock" in to
    ]
    assert {"cidr": "10.1.0.0/16"} in blocks
    assert "0.0.0.0/0" not in [block["cidr"] for block in blocks]


AROUND = Surroundings(
    api_server=("10.0.0.1", "2001:db8::1"),
    stores=("10.0.0.7",),
    store_namespaces=("databases",),
    portal=("10.9.0.4",),
    portal_port=8000,
    portal_namespaces=("ml-portal",),
)
METADATA = (
    "169.254.169.254",
    "fd00:ec2::254",
    "fe80::a9fe:a9fe",
    "100.100.100.200",
    "168.63.129.16",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
)


def reached(*egress, address, port=80, namespace=None):
    """By the rules of NetworkPolicy: whether some rule opens the address, or the pod in the namespace, on the port."""

    def opens(to):
        if "namespaceSelector" in to:
            found = to["namespaceSelector"].get("matchExpressions", ())
            return namespace is not None and all(
                (namespace in each["values"]) is (each["operator"] == "In") for each in found
            )
        if address is None:
            return False
        where, block = ipaddress.ip_address(address), to["ipBlock"]
        return where in ipaddress.ip_network(block["cidr"]) and not any(
            where in ipaddress.ip_network(each) for each in block.get("except", ())
        )

    policy = build_egress(namespace="n", team_slug="vision", egress=egress, around=AROUND)
    assert policy["spec"]["podSelector"] == {}
    assert policy["spec"]["policyTypes"] == ["Egress"]
    return any(
        any(map(opens, rule["to"]))
        and ("ports" not in rule or port in [each["port"] for each in rule["ports"]])
        for rule in policy["spec"]["egress"]
    )


@pytest.mark.parametrize("address", [*METADATA, "10.0.0.1", "2001:db8::1", "10.0.0.7"])
def test_what_gives_away_credentials_is_closed_to_who_may_reach_everything_else(address):
    assert not reached("everywhere", address=address)
    assert not reached("everywhere", address=address, port=443)
    assert not reached("10.0.0.0/8", "2001:db8::/32", "fd00::/8", "169.0.0.0/8", address=address)
    assert not reached(address=address)


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("metadata", "169.254.169.254"),
        ("api-server", "10.0.0.1"),
        ("stores", "10.0.0.7"),
        ("10.0.0.7/32", "10.0.0.7"),
    ],
)
def test_a_team_may_be_let(word, address):
    assert reached("everywhere", word, address=address)
    assert reached(word, address=address)
    assert not reached(word, address="93.184.216.34")


def test_the_rest_is_open_by_default_and_closed_to_a_team_that_is_let_nothing():
    assert reached("everywhere", address="93.184.216.34")
    assert reached("everywhere", address=None, namespace="mlflow")
    assert not reached("everywhere", address=None, namespace="ml-portal"), "but the port of the portal"
    assert not reached("everywhere", address=None, namespace="databases", port=5432)
    assert not reached(address="93.184.216.34")
    for egress in ((), ("everywhere",)):
        assert reached(*egress, address="10.9.0.4", port=8000)
        assert reached(*egress, address=None, namespace="ml-portal", port=8000)
        assert reached(*egress, address=None, namespace="kube-system", port=53)
        assert reached(*egress, address="169.254.20.10", port=53)
