"""Pods that come and go while somebody looks: who is there is never taken for gone, and what is gone is closed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import workload_labels
from controller.reconcile import sightings
from controller.reconcile.adapters import adapter_for
from controller.reconcile.observe import look_at
from controller.watch.pods import PodSink
from costs.models import UsageInterval
from foundation import clock
from logs.collector import LogCollector
from tests.factories.submitted import make_pod
from workloads.models import PodRecord

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


def look(bench, run, client=None):
    attempt = run.attempts.get(ended_at=None)
    return look_at(run, adapter_for(run.kind), attempt, client or bench.client, clock.now())


def between(bench, run):
    """As of what an operator puts between its object and the pods; a Job's controller would take a pod too many away."""
    ref = ObjectRef("v1", "ConfigMap", run.team.namespace_name, "between")
    try:
        item = bench.client.get(ref)
    except ObjectNotFound:
        item = bench.client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ref.name, "namespace": ref.namespace},
            }
        )
    uid = item["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": ref.name, "uid": uid, "controller": True}


def make(bench, run, name):
    """A pod of the run that nobody has recorded yet."""
    labels = workload_labels(
        workload_id=str(run.public_id), attempt=run.attempt_number, team=run.team.slug, kind=run.kind
    )
    metadata = {"name": name, "namespace": run.team.namespace_name, "labels": labels}
    metadata["ownerReferences"] = [between(bench, run)]
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    return bench.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


class Meanwhile:
    """The cluster's client; before it reads the named object something else happens."""

    def __init__(self, client, name, happens):
        self.client, self.name, self.happens = client, name, happens

    def __getattr__(self, name):
        return getattr(self.client, name)

    def get(self, ref):
        if ref.name == self.name:
            self.happens()
        return self.client.get(ref)


def test_a_pod_that_the_watcher_records_while_another_is_looked_for_is_not_taken_for_gone(bench):
    run = bench.running()
    gone = make_pod(run, name="train-lost")

    def a_pod_comes():
        found = make(bench, run, "train-new")
        PodSink(LogCollector(lambda: bench.client)).seen(
            [found], cluster=bench.client.cluster, now=clock.now(), gone=False
        )

    look(bench, run, Meanwhile(bench.client, "train-lost", a_pod_comes))
    gone.refresh_from_db()
    assert gone.gone_at is not None
    assert PodRecord.objects.get(name="train-new").gone_at is None


def test_a_pod_that_is_written_down_anew_while_it_is_looked_for_is_not_taken_for_gone(bench):
    run = bench.running()
    lost = make_pod(run, name="train-lost")

    def it_is_seen():
        PodRecord.objects.filter(pk=lost.pk).update(resource_version="99999999")

    look(bench, run, Meanwhile(bench.client, "train-lost", it_is_seen))
    lost.refresh_from_db()
    assert lost.gone_at is None


def test_a_live_pod_that_was_taken_for_gone_comes_back_and_is_charged_on(bench):
    run = bench.running()
    pod = PodRecord.objects.get(workload=run)
    began = UsageInterval.objects.get(pod_uid=pod.uid, ended_at=None).started_at
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=clock.now(), ready=False)
    UsageInterval.objects.filter(pod_uid=pod.uid).update(ended_at=began + timedelta(seconds=1))
    bench.turn(run)
    pod.refresh_from_db()
    assert pod.gone_at is None
    assert UsageInterval.objects.get(pod_uid=pod.uid, ended_at=None).started_at == began
    assert run.phase == "Running", "no gang is killed because of a pod that is there"


def test_a_look_costs_as_many_queries_for_many_pods_as_for_one(bench):
    run = bench.running()

    def numbers():
        found = []
        for _ in ("something new", "nothing new"):
            with CaptureQueriesContext(connection) as queries:
                look(bench, run)
            found.append(len(queries))
        return found

    make(bench, run, "one")
    few = numbers()
    for number in range(63):
        make(bench, run, f"many-{number}")
    assert numbers()[1] == few[1] <= 8
    assert PodRecord.objects.filter(workload=run, gone_at=None).count() == 65


class Dies(Exception):
    pass


def test_that_a_pod_is_gone_and_what_that_costs_are_one_step(bench, monkeypatch):
    """Whoever dies between the row and its usage has written neither, so that the next look does both."""
    run = bench.running()
    pod = PodRecord.objects.get(workload=run)
    ref = ObjectRef("v1", "Pod", pod.namespace, pod.name)
    shown = bench.client.get(ref)
    sink = PodSink(LogCollector(lambda: bench.client))

    def die(*_args, **_kwargs):
        raise Dies

    with monkeypatch.context() as patched:
        patched.setattr(sightings, "record_usages", die)
        with pytest.raises(Dies):
            sink.seen([shown], cluster=bench.client.cluster, now=clock.now(), gone=True)
        bench.client.delete(ref, uid=pod.uid, grace_seconds=0)
        with pytest.raises(Dies):
            bench.until(run, lambda each: each.is_final)
    pod.refresh_from_db()
    assert (pod.gone_at, pod.ended_at) == (None, None)
    bench.until(run, lambda each: PodRecord.objects.filter(pk=pod.pk, gone_at__isnull=False).exists())
    assert UsageInterval.objects.get(pod_uid=pod.uid).ended_at is not None


def test_the_versions_of_a_list_and_of_its_objects_compare_as_numbers(bench):
    """What the rows rely on, from the server itself."""
    run = bench.running()
    listing = bench.client.list(kinds.POD, namespace=run.team.namespace_name)
    newest = max(int(pod["metadata"]["resourceVersion"]) for pod in listing.items)
    assert newest <= int(listing.resource_version)
