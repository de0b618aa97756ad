"""deploy/rbac.yaml against the table that preflight asks for, and against the calls that the client really
makes.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from pathlib import Path

import pytest
import yaml

from cluster import kinds, preflight
from cluster.client import connect
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound, ProxyFailed
from cluster.kinds import ref_of
from cluster.labels import MANAGED_BY, MANAGER, TEAM, WORKLOAD_ID
from cluster.preflight.rights import BIND, OF_TEAMS, OPTIONAL, REQUIRED, UNWANTED, WHY, Right
from cluster.proxy import ServiceProxy, invoke
from cluster.proxy_rules import Target
from cluster.watch import watch_batches
from tenancy import access, adoption
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = (DEPLOY / "rbac.yaml").read_text()
ADMISSION = (DEPLOY / "admission.yaml").read_text()
MANIFESTS = list(yaml.safe_load_all(RBAC))
PLURALS = {
    "Namespace": "/api/v1/namespaces",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def granted(role: str) -> set[Right]:
    rules = next(
        item["rules"]
        for item in MANIFESTS
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == role
    )
    return {
        Right(group, resource, verb)
        for rule in rules
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_manifest_grants_what_preflight_asks_for_and_nothing_else():
    assert granted("ml-portal") == set(REQUIRED)
    assert granted("ml-portal-team") == set(OF_TEAMS)
    assert granted("ml-portal-optional-kinds") == set(OPTIONAL)
    assert not set(UNWANTED) & (set(REQUIRED) | set(OPTIONAL))


def test_what_holds_in_the_whole_cluster_is_reading_or_has_a_reason():
    """Whoever takes over the portal may write in its teams' namespaces and nowhere else."""
    beyond = {right for right in (*REQUIRED, *OPTIONAL) if right.verb not in {"get", "list", "watch"}}
    assert {(right.resource, right.verb) for right in beyond} == {
        ("namespaces", "create"),
        ("priorityclasses", "create"),
        ("rolebindings", "create"),
    }
    assert set(WHY) == {(right.group, right.resource) for right in REQUIRED}
    bound = [item["roleRef"]["name"] for item in MANIFESTS if item["kind"] == "ClusterRoleBinding"]
    assert bound == ["ml-portal", "ml-portal-optional-kinds"], "never the role of teams' namespaces"


def test_it_may_give_away_one_role_and_no_other():
    named = [
        rule
        for item in MANIFESTS
        for rule in item.get("rules", ())
        if BIND.resource in rule["resources"] or set(rule["verbs"]) & {"bind", "escalate", "impersonate", "*"}
    ]
    assert named == [
        {
            "apiGroups": [BIND.group],
            "resources": [BIND.resource],
            "resourceNames": ["ml-portal-team"],
            "verbs": [BIND.verb],
        }
    ]


def test_every_kind_of_the_client_has_its_rights():
    resources = {(right.group, right.resource) for right in (*REQUIRED, *OPTIONAL, *OF_TEAMS)}
    assert {(kind.group, kind.plural) for kind in kinds.every()} <= resources


@pytest.fixture(scope="module")
def portal(real_client, tmp_path_factory):
    """A client that is the service account of deploy/rbac.yaml on the real API server."""
    # Names of its own, so that two runs on one cluster do not take each other's rights away.
    name = f"ml-portal-{uuid.uuid4().hex[:8]}"
    text = re.sub(r"(?m)((?:policyName|name|namespace): |\[)ml-portal(?=$|-)", rf"\1{name}", RBAC)
    admission = ADMISSION.replace("ml-portal", name)
    own = [*yaml.safe_load_all(text), *yaml.safe_load_all(admission)]
    plurals = PLURALS | {"ServiceAccount": f"/api/v1/namespaces/{name}/serviceaccounts"}
    for item in own:
        real_client._request(
            "PATCH",
            f"{plurals[item['kind']]}/{item['metadata']['name']}",
            query={"fieldManager": "test", "force": "true"},
            body=item,
            content_type="application/apply-patch+yaml",
        )
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    answer = real_client._json("POST", f"{plurals['ServiceAccount']}/{name}/token", body=request)
    path = tmp_path_factory.mktemp("portal") / "kubeconfig"
    text = yaml.safe_load(Path(real_client.source).read_text())
    text["users"][0]["user"] = {"token": answer["status"]["token"]}
    path.write_text(yaml.safe_dump(text))
    found = connect(str(path))
    yield found
    found.close()
    for item in reversed(own):
        real_client._request("DELETE", f"{plurals[item['kind']]}/{item['metadata']['name']}")


@pytest.fixture(scope="module")
def team(portal, real_client):
    name = f"team-{uuid.uuid4().hex[:8]}"
    labels = {
        MANAGED_BY: MANAGER,
        TEAM: name,
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    adoption.settle(portal, namespace)
    access.bind(portal, namespace=name, team_slug=name)
    # The authorizer learns of the binding by a watch.
    until(lambda: portal.can_i("patch", "", "namespaces", name))
    made = portal.apply(namespace)
    yield name
    real_client.delete(ref_of(made), uid=made["metadata"]["uid"])


def manifest(kind, namespace, **fields):
    metadata = {"name": "thing", "labels": {WORKLOAD_ID: "w-1"}}
    if kind.namespaced:
        metadata["namespace"] = namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


POD = {"containers": [{"name": "main", "image": "busybox"}]}
SELECTOR = {"matchLabels": {"a": "b"}}
BODIES = {
    kinds.SERVICE: {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    kinds.CONFIG_MAP: {"data": {"a": "b"}},
    kinds.SECRET: {"stringData": {"a": "b"}},
    kinds.CLAIM: {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    kinds.RESOURCE_QUOTA: {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}},
    kinds.LIMIT_RANGE: {"spec": {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "8"}}]}},
    kinds.SERVICE_ACCOUNT: {"automountServiceAccountToken": False},
    kinds.JOB: {"spec": {"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never"}}}},
    kinds.DEPLOYMENT: {
        "spec": {
            "replicas": 0,
            "selector": SELECTOR,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
        }
    },
    kinds.DISRUPTION_BUDGET: {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    kinds.NETWORK_POLICY: {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
}


@pytest.mark.cluster
@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.kind)
def test_the_account_can_write_follow_and_remove_what_the_portal_owns(portal, team, kind):
    rights = {
        right.verb
        for right in (*REQUIRED, *OF_TEAMS)
        if (right.group, right.resource) == (kind.group, kind.plural)
    }
    wanted = manifest(kind, team, **BODIES[kind])
    made = portal.create_or_adopt(wanted, workload_id="w-1")
    assert portal.create_or_adopt(wanted, workload_id="w-1")["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(ClusterConflict):
        portal.create_or_adopt(wanted, workload_id="w-2")
    portal.apply(wanted)
    portal.patch_merge(ref_of(wanted), {"metadata": {"annotations": {"c": "d"}}})
    if "list" in rights:
        assert [item["metadata"]["name"] for item in portal.list(kind, label_selector=WORKLOAD_ID).items]
    if "get" in rights:
        portal.get(ref_of(wanted))
    if "delete" in rights:
        portal.delete(ref_of(wanted), uid="00000000-0000-0000-0000-000000000000")
        portal.delete(ref_of(wanted), uid=made["metadata"]["uid"])


@pytest.mark.cluster
def test_the_account_can_watch_and_list_what_the_portal_observes(portal):
    for kind in kinds.CORE:
        rights = {
            right.verb for right in REQUIRED if (right.group, right.resource) == (kind.group, kind.plural)
        }
        if "watch" not in rights:
            continue
        start = portal.list(kind).resource_version
        list(watch_batches(portal, kind, resource_version=start, timeout_seconds=1))


@pytest.mark.cluster
def test_the_account_can_ask_for_logs_pods_and_services(portal, team):
    with pytest.raises(ObjectNotFound):
        portal.read_log(team, "none")
    with pytest.raises(ObjectNotFound):
        next(portal.follow_log(team, "none"))
    portal.delete(kinds.ObjectRef("v1", "Pod", team, "none"), uid="x")
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(ProxyFailed) as caught:
            invoke(portal, Target(team, "none"), method=method, path="/")
        assert caught.value.reason == "no-service"

    async def forwarded():
        proxy = ServiceProxy(portal)
        try:
            async with proxy.forward(Target(team, "none"), method="POST", path="/", body=b"x"):
                pass
        finally:
            await proxy.aclose()

    with pytest.raises(ProxyFailed, match="no service"):
        asyncio.run(forwarded())


@pytest.mark.cluster
def test_the_account_cannot_read_secrets_run_commands_or_touch_nodes(portal, team):
    with pytest.raises(ClusterRejected, match="forbidden"):
        portal.get(kinds.ObjectRef("v1", "Secret", team, "thing"))
    with pytest.raises(ClusterRejected, match="forbidden"):
        portal.list(kinds.SECRET, namespace=team)
    node = portal.list(kinds.NODE).items[0]
    with pytest.raises(ClusterRejected, match="forbidden"):
        portal.patch_merge(ref_of(node), {"metadata": {"labels": {"a": "b"}}})
    assert not any(portal.can_i(right.verb, right.group, right.resource) for right in UNWANTED)


@pytest.mark.cluster
@pytest.mark.parametrize("right", OF_TEAMS, ids=lambda right: f"{right.verb}-{right.resource}.{right.group}")
def test_what_it_may_in_a_teams_namespace_it_may_not_in_another(portal, team, right):
    """The table, as `kubectl auth can-i` would ask it."""
    assert portal.can_i(right.verb, right.group, right.resource, team)
    reading = right in REQUIRED or right in OPTIONAL
    assert portal.can_i(right.verb, right.group, right.resource, "kube-system") is reading
    assert portal.can_i(right.verb, right.group, right.resource, "default") is reading


@pytest.mark.cluster
def test_it_gives_itself_no_rights_where_no_owner_asked_it_to(portal, real_client):
    """Against who took the portal over: neither in a namespace of others, nor another role, nor to another account."""
    name = f"theirs-{uuid.uuid4().hex[:8]}"
    made = real_client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    user = portal.who_am_i()
    for namespace in (name, "kube-system", "default"):
        with pytest.raises(ClusterRejected, match="only in namespaces with the label"):
            access.bind(portal, namespace=namespace, team_slug="x")
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {TEAM: "x"}}}
    with pytest.raises(ClusterRejected, match="forbidden"):
        portal.apply(wanted)
    with pytest.raises(ClusterRejected, match=f"label namespace {name} mlportal.dev/team=x"):
        adoption.settle(portal, {**wanted, "metadata": {"name": name, "labels": {TEAM: "x"}}})
    real_client.apply(wanted, manager="owner")
    adoption.settle(portal, wanted)
    binding = access.build_binding(namespace=name, team_slug="x", user=user)

    def another_role_is_not_its_own_to_give():
        with pytest.raises(ClusterRejected) as refusal:
            portal.create({**binding, "roleRef": {**binding["roleRef"], "name": "cluster-admin"}})
        return "not currently held" in str(refusal.value)

    # The API server judges by its own copy of the namespace, which learns of the owner's label a moment later.
    until(another_role_is_not_its_own_to_give)
    other = [{"kind": "ServiceAccount", "name": "default", "namespace": name}]
    with pytest.raises(ClusterRejected, match="nobody but its own account"):
        portal.create({**binding, "subjects": other})
    access.bind(portal, namespace=name, team_slug="x")
    real_client.delete(ref_of(made), uid=made["metadata"]["uid"])


@pytest.mark.cluster
@pytest.mark.django_db
def test_preflight_is_content_with_the_account_and_sees_pod_security_at_work(portal, team):
    found = {check.id: check for check in preflight.run(portal)}
    assert found["rights"].status == "ok", found["rights"]
    assert found["pod-security"].status == "ok", found["pod-security"]
    assert found["own-admission"].status == "ok", found["own-admission"]
    assert "no controller seen" in found["optional-kinds"].detail
    assert found["sharing-truth"].status == "warn"
    for node in ("t4-unrenamed-0", "a100-mig-single-0"):
        assert node in found["sharing-truth"].detail
    assert "t4-shared-0" not in found["sharing-truth"].detail
