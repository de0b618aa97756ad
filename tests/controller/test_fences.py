"""The second fence stands where the quotas say, whoever moves it."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.errors import ClusterRejected, ClusterUnavailable, ObjectNotFound
from cluster.kinds import ObjectRef
from controller import tasks
from foundation import clock
from quotas.limits import set_policy
from quotas.models import Fence
from quotas.services import claim
from teams.actors import Actor
from tenancy.namespaces import ensure_namespace
from tenancy.resource_quotas import drift, keep_in_step
from tests.controller.conftest import leave_nothing
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.leases import run_out
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload
from tests.waiting import until
from workloads.podrequests import PodGroup

pytestmark = pytest.mark.django_db(transaction=True)

GPU = "nvidia.com/gpu"


def fence_of(bench):
    return ObjectRef("v1", "ResourceQuota", bench.team.namespace_name, "mlportal-gpus")


def hard(bench):
    return bench.client.get(fence_of(bench))["spec"]["hard"]


def gpus(limits):
    """Without what is derived from ceilings."""
    return {name: limit for name, limit in (limits or {}).items() if "/" in name}


def past_the_portal(bench, name, resources):
    """A pod that somebody makes by hand; it passes Pod Security, as the fence is asked after it."""
    container = {
        "name": "main",
        "image": "x",
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": bench.team.namespace_name},
        "spec": {"restartPolicy": "Never", "securityContext": security, "containers": [container]},
    }


def row(bench):
    return Fence.objects.get(team=bench.team)


def look(bench):
    return keep_in_step(bench.client, now=clock.now())


def test_a_changed_quota_moves_the_fence_of_a_namespace_that_exists(bench):
    ensure_namespace(bench.client, bench.team)
    assert look(bench) == 0
    assert (gpus(row(bench).derived), gpus(row(bench).observed)) == ({GPU: 8}, {GPU: 8})
    make_quota(bench.team, bench.flavor, 12)
    assert look(bench) == 0, "nobody has touched it"
    assert gpus(hard(bench)) == {f"requests.{GPU}": "12"}
    assert row(bench).in_step
    assert drift() == 0


def test_after_a_cut_the_fence_follows_what_is_held_down(bench):
    run = make_workload(team=bench.team, owner=bench.member, flavor=bench.flavor, units=8)
    claim(workload=run, quota=bench.quota, units=8, now=clock.now())
    ensure_namespace(bench.client, bench.team)
    make_quota(bench.team, bench.flavor, 2)
    look(bench)
    assert gpus(hard(bench)) == {f"requests.{GPU}": "8"}, "what runs must be able to be made anew"


@pytest.mark.parametrize("touched", [{GPU: "100"}, {GPU: "8", "nvidia.com/other": "4"}])
def test_a_fence_that_somebody_moves_is_set_back_and_the_drift_is_counted(bench, caplog, touched):
    ensure_namespace(bench.client, bench.team)
    look(bench)
    spec = {"hard": {f"requests.{name}": units for name, units in touched.items()}}
    # In the portal's own name, or what is added stays another's.
    bench.client.apply({
        "apiVersion": "v1", "kind": "ResourceQuota", "spec": spec,
        "metadata": {"name": "mlportal-gpus", "namespace": bench.team.namespace_name,
                     "labels": {"app.kubernetes.io/managed-by": "ml-portal"}},
    })  # fmt: skip
    with caplog.at_level("WARNING", logger="tenancy.resource_quotas"):
        assert look(bench) == 1
    assert [record.message for record in caplog.records] == ["fence.drift"]
    assert gpus(hard(bench)) == {f"requests.{GPU}": "8"}
    assert row(bench).observed == {name: int(units) for name, units in touched.items()}
    assert drift() == 1
    assert look(bench) == 0
    assert drift() == 0


def test_a_fence_that_somebody_removes_is_put_up_again(bench):
    ensure_namespace(bench.client, bench.team)
    look(bench)
    uid = bench.client.get(fence_of(bench))["metadata"]["uid"]
    bench.client.delete(fence_of(bench), uid=uid)
    assert look(bench) == 1
    assert gpus(hard(bench)) == {f"requests.{GPU}": "8"}


def test_what_others_fence_in_the_same_object_is_theirs(bench):
    """Limits are none of the portal's business, and no drift."""
    ensure_namespace(bench.client, bench.team)
    look(bench)
    bench.client.patch_merge(fence_of(bench), {"spec": {"hard": {"limits.cpu": "64", "services": "100"}}})
    assert look(bench) == 0
    assert hard(bench)["limits.cpu"] == "64"
    assert drift() == 0


def test_ceilings_stand_in_the_namespace_and_are_put_back(bench):
    set_policy(
        team=bench.team,
        changes={"ceiling_cpus": 64, "ceiling_memory_gib": 128, "ceiling_pods": 20, "ceiling_volumes": 3},
        actor=Actor.system("tests"),
        now=clock.now(),
    )
    ensure_namespace(bench.client, bench.team)
    assert look(bench) == 0
    wanted = {
        "requests.cpu": "64",
        "requests.memory": str(128 * 1024**3),
        "pods": "20",
        "persistentvolumeclaims": "3",
    }
    assert wanted.items() <= hard(bench).items()
    ranged = ObjectRef("v1", "LimitRange", bench.team.namespace_name, "mlportal-limits")
    container, volume = bench.client.get(ranged)["spec"]["limits"]
    assert (container["max"]["cpu"], container["defaultRequest"]["cpu"]) == ("64", "10m")
    assert volume["max"] == {"storage": str(102_400 * 1024**3)}
    bench.client.patch_merge(
        ranged, {"spec": {"limits": [{**container, "max": {**container["max"], "cpu": "900"}}]}}
    )
    assert look(bench) == 1
    assert bench.client.get(ranged)["spec"]["limits"][0]["max"]["cpu"] == "64"
    bench.client.delete(ranged, uid=bench.client.get(ranged)["metadata"]["uid"])
    assert look(bench) == 1
    assert look(bench) == 0


@pytest.mark.parametrize(
    ("ceiling", "asked", "says"),
    [
        ({"ceiling_cpus": 1}, {"cpu": "600m"}, "requests.cpu"),
        ({"ceiling_memory_gib": 1}, {"memory": "600Mi"}, "requests.memory"),
        ({"ceiling_ephemeral_storage_gib": 1}, {"ephemeral-storage": "600Mi"}, "requests.ephemeral-storage"),
        ({"ceiling_pods": 1}, {}, "pods"),
        ({"ceiling_volumes": 1}, None, "persistentvolumeclaims"),
        ({"ceiling_volume_storage_gib": 1}, None, "requests.storage"),
    ],
)
def test_at_each_ceiling_the_cluster_itself_refuses_more(bench, ceiling, asked, says):
    set_policy(team=bench.team, changes=ceiling, actor=Actor.system("tests"), now=clock.now())
    ensure_namespace(bench.client, bench.team)

    def account_is_there():
        return bench.client.get(ObjectRef("v1", "ServiceAccount", bench.team.namespace_name, "default"))

    until(lambda: _found(account_is_there))
    until(lambda: "used" in (bench.client.get(fence_of(bench)).get("status") or {}))

    def more(number):
        metadata = {"name": f"past-{number}", "namespace": bench.team.namespace_name}
        if asked is None:
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "600Mi"}}}
            return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        # It says nothing of the rest, which the LimitRange fills in.
        return past_the_portal(bench, metadata["name"], {"requests": asked})

    assert bench.client.create(more(1))["metadata"]["uid"]
    with pytest.raises(ClusterRejected, match=f"exceeded quota.*{says}"):
        bench.client.create(more(2))


def test_what_is_held_above_a_ceiling_can_be_made_anew(bench):
    run = make_workload(team=bench.team, owner=bench.member, groups=(PodGroup(4, (1500, 1024**3, 0)),))
    claim(workload=run, quota=None, units=0, now=clock.now())
    changes = {"ceiling_cpus": 2, "ceiling_pods": 1}
    set_policy(team=bench.team, changes=changes, actor=Actor.system("tests"), now=clock.now())
    ensure_namespace(bench.client, bench.team)
    assert {"requests.cpu": "6", "pods": "4"}.items() <= hard(bench).items()


def test_a_team_without_a_namespace_gets_none(bench):
    other = make_team()
    make_quota(other, bench.flavor, 4)
    look(bench)
    found = Fence.objects.get(team=other)
    assert (gpus(found.derived), found.observed, found.in_step) == ({GPU: 4}, None, True)
    listed = {item["metadata"]["name"] for item in bench.client.list(kinds.NAMESPACE).items}
    assert other.namespace_name not in listed
    assert drift() == 0


def test_the_fence_holds_against_who_goes_past_the_portal(bench):
    mig = make_flavor("mig", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig")
    ensure_namespace(bench.client, bench.team)
    make_quota(bench.team, bench.flavor, 2)
    look(bench)

    def pod(resource, units):
        return past_the_portal(bench, f"past-{units}", {"limits": {resource: str(units)}})

    def account_is_there():
        ref = ObjectRef("v1", "ServiceAccount", bench.team.namespace_name, "default")
        return bench.client.get(ref)

    until(lambda: _found(account_is_there))
    until(lambda: "used" in (bench.client.get(fence_of(bench)).get("status") or {}))
    for resource, units in ((GPU, 3), (mig.resource, 1)):
        with pytest.raises(ClusterRejected, match="exceeded quota"):
            bench.client.create(pod(resource, units))
    assert bench.client.create(pod(GPU, 2))["metadata"]["uid"]


def _found(ask):
    try:
        return ask()
    except ObjectNotFound:
        return None


@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_while_the_cluster_is_away_one_line_says_so(bench, relay, caplog, settings):
    settings.CLUSTER_KUBECONFIG = relay.kubeconfig
    relay.away = True
    tasks.keep_fences()
    (told,) = [record for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}]
    assert (told.message, told.exc_info) == ("fences.put_off", None)
    assert "cannot be reached" in told.error
    assert not Fence.objects.exists()
    relay.away = False
    run_out()
    tasks.keep_fences()
    assert Fence.objects.exists()


@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_a_fence_that_cannot_be_set_is_noted_and_the_others_are_kept(bench, relay):
    other = make_team()
    make_quota(other, bench.flavor, 4)
    for team in (bench.team, other):
        ensure_namespace(bench.client, team)
    look(bench)
    make_quota(bench.team, bench.flavor, 1)
    make_quota(other, bench.flavor, 1)
    relay.refuse("PATCH", f"/{bench.team.namespace_name}/resourcequotas/", 403, "Forbidden", "not you")
    try:
        for _ in range(2):
            look(bench)
            assert gpus(row(bench).observed) == {GPU: 8}
            assert gpus(Fence.objects.get(team=other).observed) == {GPU: 1}
            assert drift() == 1
        relay.rules.clear()
        look(bench)
        look(bench)
        assert drift() == 0
        relay.away = True
        before = row(bench).checked_at
        with pytest.raises(ClusterUnavailable):
            look(bench)
        assert row(bench).checked_at == before, "what was not seen is not noted"
    finally:
        leave_nothing(bench.direct, other.namespace_name)
