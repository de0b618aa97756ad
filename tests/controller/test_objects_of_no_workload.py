"""A database restored from a backup that is older than the cluster: what it does not know is found, shown and deleted."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from uuid import uuid4

import pytest
from django.test import Client

from cluster import kinds
from cluster.client import connect
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import workload_labels
from console.strays import delete_strays
from controller.watch.objects import ObjectSink
from controller.watch.watcher import OWN, KindWatcher, PodSink
from foundation import clock
from foundation.errors import Conflict, NotFound
from foundation.http import metrics
from logs.collector import LogCollector
from teams.models import AuditEvent
from tests.factories.catalogue import make_flavor
from tests.factories.teams import ACTOR, PASSWORD, make_team, make_token, make_user
from tests.factories.workloads import make_workload
from tests.waiting import until
from workloads.models import ObjectRecord, StrayObject, Workload
from workloads.nodes.capacity import nodes
from workloads.strays import Strays, nodes_and_strays, strays

pytestmark = pytest.mark.django_db(transaction=True)

STRAYS = "/api/v1/cluster/strays/"


@pytest.fixture
def client(devcluster, settings):
    settings.CLUSTER_KUBECONFIG = devcluster
    client = connect(devcluster)
    forget_other_tests(client)
    yield client
    client.close()


def forget_other_tests(client) -> None:
    """Workloads of other tests are in no database any more; what they left in the cluster would be strays here."""

    def left():
        return [
            item
            for kind in (kinds.JOB, kinds.POD)
            for item in client.list(kind, label_selector=OWN.label_selector).items
        ]

    for item in left():
        with suppress(ObjectNotFound):
            client.delete(kinds.ref_of(item), uid=item["metadata"]["uid"])
    until(lambda: not left())


@pytest.fixture
def team(client):
    team = make_team(f"t-{uuid4().hex[:8]}")
    name = team.namespace_name
    made = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield team
    client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


@pytest.fixture
def jobs(client, team):
    """Three Jobs of workloads that the database of the backup does not know; their pods run, with a GPU each."""
    return [make_job(client, team, f"lost-{number}", str(uuid4())) for number in range(3)]


def make_job(client, team, name, workload_id):
    labels = workload_labels(workload_id=workload_id, attempt=1, team=team.slug, kind="run")
    container = {
        "name": "main",
        "image": "example.org/train:1",
        "env": [{"name": "BED_RUN_SECONDS", "value": "3600"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    }
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    }
    metadata = {"name": name, "namespace": team.namespace_name, "labels": labels}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": pod}}
    return client.create(job)["metadata"]


def watch(client) -> None:
    """What the watcher does first after its start: whole lists."""
    for kind, sink in (
        (kinds.JOB, ObjectSink(kinds.JOB)),
        (kinds.POD, PodSink(LogCollector(lambda: client))),
    ):
        follower = KindWatcher(kind=kind, sink=sink, client=lambda: client, stop=Event(), scope=OWN)
        follower.relist(client)


def on_nodes(client, team) -> bool:
    pods = client.list(kinds.POD, namespace=team.namespace_name).items
    return len(pods) == 3 and all(pod["spec"].get("nodeName") for pod in pods)


def test_objects_of_unknown_workloads_are_found_shown_and_deleted_for_good(client, team, jobs):
    until(lambda: on_nodes(client, team))
    watch(client)
    assert strays() == Strays(count=3, units=3), "three Jobs; the pods go with them, and hold a GPU each"
    assert nodes_and_strays() == (nodes(), strays())
    assert not ObjectRecord.objects.exists()

    manager, admin = make_user("qm", quota_manager=True), make_user("root", platform_admin=True)
    as_manager = {"Authorization": f"Bearer {make_token(manager, scopes=('read', 'manage'))}"}
    as_admin = {"Authorization": f"Bearer {make_token(admin, scopes=('read', 'manage'))}"}
    told = Client().get(STRAYS, headers=as_manager).json()
    assert (told["count"], told["units"]) == (3, 3)
    assert [each["name"] for each in told["results"]] == ["lost-0", "lost-1", "lost-2"]
    text = metrics.exposition().decode()
    assert "portal_stray_objects 3.0" in text
    assert "portal_stray_units 3.0" in text

    body = {"uids": [each["uid"] for each in told["results"]], "reason": "older backup"}

    def delete(headers):
        return Client().post(f"{STRAYS}delete/", body, content_type="application/json", headers=headers)

    assert delete(as_manager).status_code == 403
    answer = delete(as_admin)
    assert (answer.status_code, answer.json()) == (200, {"deleted": 3, "kept": 0})
    events = AuditEvent.objects.filter(action="stray-object.delete")
    assert {event.before["name"] for event in events} == {"lost-0", "lost-1", "lost-2"}
    assert {(event.actor_label, event.reason) for event in events} == {("root", "older backup")}
    until(lambda: not client.list(kinds.POD, namespace=team.namespace_name).items)
    watch(client)
    assert strays() == nodes_and_strays()[1] == Strays(count=0, units=0)
    assert delete(as_admin).status_code == 404


def test_platform_admins_read_it_on_their_home_page_and_delete_by_a_button(client, team, jobs):
    watch(client)
    for name, role in (("root", {"platform_admin": True}), ("qm", {"quota_manager": True}), ("ana", {})):
        make_user(name, **role)
    browsers = {name: Client() for name in ("root", "qm", "ana")}
    for name, browser in browsers.items():
        assert browser.login(username=name, password=PASSWORD)
    pages = {name: browser.get("/").content.decode() for name, browser in browsers.items()}
    assert "3 objects of no workload" in pages["root"]
    assert "3 objects of no workload" in pages["qm"]
    assert "of no workload" not in pages["ana"]

    assert browsers["ana"].get("/cluster/strays/").status_code == 403
    assert "Delete what is chosen" not in browsers["qm"].get("/cluster/strays/").content.decode()
    page = browsers["root"].get("/cluster/strays/").content.decode()
    assert "lost-1" in page
    first = StrayObject.objects.get(name="lost-1")
    sent = {"uid": [first.uid], "reason": "older backup"}
    assert browsers["qm"].post("/cluster/strays/", sent).status_code == 403
    assert browsers["root"].post("/cluster/strays/", sent, follow=True).status_code == 200
    ref = ObjectRef("batch/v1", "Job", team.namespace_name, "lost-1")

    def gone():
        try:
            client.get(ref)
        except ObjectNotFound:
            return True
        return False

    until(gone)
    watch(client)
    assert strays().count == 2
    assert "2 objects of no workload" in browsers["root"].get("/").content.decode()


def test_what_has_found_its_workload_again_is_no_stray_and_is_never_deleted(client, team):
    run = make_workload(team=team, flavor=make_flavor(), units=1)
    known = run.public_id
    Workload.objects.filter(pk=run.pk).update(public_id=uuid4())
    job = make_job(client, team, "back", str(known))
    watch(client)
    assert strays().count == 1
    # A newer backup is restored, and the watcher has not listed anew yet.
    Workload.objects.filter(pk=run.pk).update(public_id=known)
    with pytest.raises(Conflict):
        delete_strays(client, uids=[job["uid"]], reason="", actor=ACTOR, now=clock.now())
    assert client.get(ObjectRef("batch/v1", "Job", team.namespace_name, "back"))
    watch(client)
    assert strays().count == 0
    with pytest.raises(NotFound):
        delete_strays(client, uids=[job["uid"]], reason="", actor=ACTOR, now=clock.now())
