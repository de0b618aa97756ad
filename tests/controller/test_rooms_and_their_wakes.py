"""What changes the room of nodes is in no row unless admission is told: a list passes over what rows know already."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from cluster.errors import ObjectNotFound
from cluster.names import DEFAULT_CLUSTER
from controller.watch.capacity import ForeignPodSink, NodePoolSink, NodeSink
from foundation import clock
from quotas.models import Pool
from tests.factories.catalogue import make_flavor
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord

pytestmark = pytest.mark.django_db

PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-L4"}
ROOM = {"nvidia.com/gpu": "4", "cpu": "8", "memory": "32Gi", "pods": "50"}


def node(uid="n1"):
    labels = PRODUCT | {"kubernetes.io/hostname": "l4"}
    metadata = {
        "uid": uid,
        "name": "l4",
        "labels": labels,
        "resourceVersion": "5",
        "creationTimestamp": "2026-11-01T00:00:00Z",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": ROOM, "conditions": [ready]}}


def foreign_pod():
    limits = {"nvidia.com/gpu": "1"}
    metadata = {
        "uid": "p1",
        "name": "guest",
        "namespace": "theirs",
        "resourceVersion": "6",
        "creationTimestamp": "2026-11-01T00:00:00Z",
    }
    spec = {"nodeName": "l4", "containers": [{"name": "main", "resources": {"limits": limits}}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def node_pool():
    metadata = {
        "uid": "k1",
        "name": "l4",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "labels": {},
    }
    template = {"metadata": {"labels": PRODUCT}, "spec": {"requirements": []}}
    return {"metadata": metadata, "spec": {"template": template}, "status": {}}


class Nothing:
    """A cluster in which no read by name finds anything."""

    cluster = DEFAULT_CLUSTER

    def get(self, ref):
        raise ObjectNotFound(f"{ref.kind} {ref.name}")


SINKS = {
    "foreign pod": (ForeignPodSink(), foreign_pod, ForeignPod.objects.all()),
    "node": (NodeSink(), node, NodeRecord.objects.filter(gone_at__isnull=True)),
    "node pool": (NodePoolSink(), node_pool, NodePoolRecord.objects.all()),
}


@pytest.fixture(autouse=True)
def flavor(db):
    flavor = make_flavor("l4", product=PRODUCT["nvidia.com/gpu.product"])
    NodeSink().seen([node()], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=False)
    return flavor


@contextmanager
def nobody_told():
    """The database goes away where a pool is to be made due."""

    def refuse(execute, sql, params, many, context):
        if Pool._meta.db_table in sql and not sql.lstrip().upper().startswith("SELECT"):
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse), pytest.raises(OperationalError):
        yield


@pytest.fixture(params=SINKS)
def followed(request):
    sink, manifest, rows = SINKS[request.param]
    rows.delete()
    return sink, manifest(), rows


def test_what_comes_is_in_no_row_unless_admission_is_told(followed):
    sink, manifest, rows = followed
    with nobody_told():
        sink.seen([manifest], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=False)
    assert not rows.all()


def test_what_goes_keeps_its_row_unless_admission_is_told(followed):
    sink, manifest, rows = followed
    sink.seen([manifest], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=False)
    with nobody_told():
        sink.seen([manifest], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=True)
    assert rows.all()


def test_what_a_list_lacks_keeps_its_row_unless_admission_is_told(followed):
    sink, manifest, rows = followed
    sink.seen([manifest], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=False)
    with nobody_told():
        sink.forget_absent(Nothing(), set(), now=clock.now())
    assert rows.all()
