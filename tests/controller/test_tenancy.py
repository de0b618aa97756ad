from __future__ import annotations

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from foundation import clock
from quotas.cohorts import create_cohort
from quotas.services import claim
from teams.services import update_team
from tenancy.namespaces import ensure_namespace, forget_namespace, gpu_limits_of
from tests.factories.catalogue import SETUP, limit, make_flavor, make_quota
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_fence_in_the_cluster_leaves_every_flavor_what_it_may_hold(bench):
    """Two flavors share a name: what one still holds after a cut must not refuse the pods of the other."""
    other = make_flavor("h100", product="NVIDIA-H100-80GB-HBM3")
    make_quota(bench.team, other, 8)
    run = make_workload(team=bench.team, owner=bench.member, flavor=bench.flavor, units=8)
    claim(workload=run, quota=bench.quota, units=8, now=clock.now())
    make_quota(bench.team, bench.flavor, 0)
    assert gpu_limits_of([bench.team])[bench.team.pk] == {"nvidia.com/gpu": 16}


def test_flavors_of_different_names_are_fenced_apart(bench):
    mig = make_flavor("mig", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig")
    make_quota(bench.team, mig, 3)
    assert gpu_limits_of([bench.team])[bench.team.pk] == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 3}


def test_what_the_team_has_no_quota_of_is_fenced_off(bench):
    """Else whoever may make pods in the namespace could take it past the portal."""
    make_flavor("mig", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig")
    assert gpu_limits_of([bench.team])[bench.team.pk] == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 0}
    other = make_team()
    assert gpu_limits_of([bench.team, other]) == {
        bench.team.pk: gpu_limits_of([bench.team])[bench.team.pk],
        other.pk: {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 0},
    }


def test_the_fence_leaves_room_for_what_the_team_may_borrow(bench):
    create_cohort(name="research", parent=None, actor=SETUP, now=clock.now())
    lender = make_team(cohort_name="research")
    make_quota(lender, bench.flavor, 6)
    update_team(team=bench.team, changes={"cohort_name": "research"}, actor=SETUP, now=clock.now())
    assert gpu_limits_of([bench.team])[bench.team.pk] == {"nvidia.com/gpu": 14}
    limit(bench.team, bench.flavor, nominal=8, borrowing_limit=2)
    assert gpu_limits_of([bench.team])[bench.team.pk] == {"nvidia.com/gpu": 10}


def hard(bench):
    ref = ObjectRef("v1", "ResourceQuota", bench.team.namespace_name, "mlportal-gpus")
    return bench.client.get(ref)["spec"]["hard"]


def test_the_namespace_is_made_once_and_again_when_it_should_differ(bench, monkeypatch):
    calls = []
    original = bench.client.apply
    monkeypatch.setattr(
        bench.client, "apply", lambda manifest: calls.append(manifest["kind"]) or original(manifest)
    )
    ensure_namespace(bench.client, bench.team)
    assert hard(bench)["requests.nvidia.com/gpu"] == "8"
    assert calls[0] == "Namespace"
    calls.clear()
    ensure_namespace(bench.client, bench.team)
    assert calls == []
    make_quota(bench.team, bench.flavor, 12)
    ensure_namespace(bench.client, bench.team)
    assert hard(bench)["requests.nvidia.com/gpu"] == "12"
    calls.clear()
    forget_namespace(bench.client, bench.team)
    ensure_namespace(bench.client, bench.team)
    assert "Namespace" in calls


def test_the_account_of_pods_has_no_token_of_the_cluster(bench):
    ensure_namespace(bench.client, bench.team)
    account = bench.client.get(
        ObjectRef("v1", "ServiceAccount", bench.team.namespace_name, "mlportal-workload")
    )
    assert account["automountServiceAccountToken"] is False
    namespace = bench.client.get(ObjectRef("v1", "Namespace", "", bench.team.namespace_name))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    policies = bench.client.list(kinds.NETWORK_POLICY, namespace=bench.team.namespace_name)
    assert {each["metadata"]["name"] for each in policies.items} == {
        "mlportal-default-deny",
        "mlportal-egress",
        "mlportal-endpoint-ingress",
        "mlportal-endpoint-metrics",
        "mlportal-endpoint-metrics-http",
    }
