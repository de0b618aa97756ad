"""A whole portal with its own beat and worker: nobody calls a task, and people are told."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from devcluster.prometheus.storage import Storage
from tests.crash.fleet import RestClient, running_fleet
from tests.planted_metrics import TOKEN, planted_metrics
from tests.telemetry.gpu_bed import UTIL, Cards
from tests.waiting import until

pytestmark = pytest.mark.processes

PATIENCE_SECONDS = 90.0
LOOK_SECONDS = 150.0
"""Beat has the worker look at all cards once a minute."""


def ask(rest, method, path, **body):
    data = json.dumps(body).encode() if body else None
    status, text = rest.insist(method, path, data, key=f"{path}{body.get('name', '')}" if body else "")
    assert status < 300, text
    return json.loads(text)


def start(rest, portal, name, program):
    body = {"team": portal.team, "name": name, "image": "python:3", "command": ["python", "-c", program]}
    body |= {"flavor": "a100-40gb", "gpus_per_replica": 1, "cpu": "100m", "memory": "256Mi"}
    return f"training-runs/{ask(rest, 'POST', 'training-runs/', **body)['id']}/"


def types(receiver):
    return {(got.json["type"], got.json["data"]["name"]) for got in receiver.accepted}


@pytest.fixture
def storage():
    return Storage(keep_seconds=10**9)


@pytest.fixture
def portal(process_cluster, tmp_path_factory, storage):
    folder = tmp_path_factory.mktemp("fleet")
    given = {"PORTAL_NOTICE_NETWORKS": "127.0.0.0/8", "PORTAL_PROMETHEUS_TOKEN": TOKEN}
    with (
        planted_metrics(storage) as (url, _),
        running_fleet(folder, kubeconfig=process_cluster, PORTAL_PROMETHEUS_URL=url, **given) as fleet,
    ):
        yield fleet


@pytest.fixture
def rest(portal):
    client = RestClient(portal)
    yield client
    client.close()


def test_a_run_that_ends_and_gpus_that_do_nothing_are_told_by_themselves(
    portal, rest, storage, receiver, tmp_path
):
    topics = ["finished", "gpus_idle"]
    ask(rest, "POST", "subscriptions/", name="mine", channel="webhook", url=receiver.url, topics=topics)
    start(rest, portal, "ends", "print('done')")
    stays = start(rest, portal, "stays", "import time; time.sleep(900)")
    until(lambda: ask(rest, "GET", stays)["phase"] == "Running", PATIENCE_SECONDS, "it runs")
    (pod,) = ask(rest, "GET", f"{stays}pods/")["results"]
    holder = SimpleNamespace(namespace=portal.namespace, name=pod["name"])
    Cards(None, tmp_path, real=False, storage=storage).plant(holder, minutes=60, **{UTIL: 0.0})
    expected = {("workload.finished", "ends"), ("alert.opened", "stays")}
    until(lambda: expected <= types(receiver), LOOK_SECONDS, lambda: types(receiver))
    (hold,) = ask(rest, "GET", "idle/")["results"]
    assert hold["workload"]["name"] == "stays"
    sent = ask(rest, "GET", "notices/")["results"]
    assert {notice["state"] for notice in sent} == {"delivered"}
    # Its pod is a process of a cluster that others use too.
    ask(rest, "POST", f"{stays}cancel/")
    until(lambda: ask(rest, "GET", stays)["phase"] == "Cancelled", PATIENCE_SECONDS, "it is gone")
