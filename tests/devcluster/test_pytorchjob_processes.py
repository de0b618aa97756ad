"""PyTorchJobs whose replicas are processes that find each other by the names of their Services."""

from __future__ import annotations

import pytest
from devcluster_bed import RefusedError

from tests.waiting import until

ALL_REDUCE = """
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(place) as server:
        peers = [server.accept()[0] for _ in range(world - 1)]
        total = sum(int(peer.recv(64)) for peer in peers)
        for peer in peers:
            peer.sendall(str(total).encode())
else:
    for _ in range(600):
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    peer.sendall(str(rank).encode())
    total = int(peer.recv(64))
print("rank", rank, "of", world, "total", total)
"""


def job(name, code, workers=2, **main):
    container = {"name": "pytorch", "image": "any", "command": ["python", "-c", code]} | main
    template = {"spec": {"containers": [container]}}
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "Never", "template": template},
        "Worker": {"replicas": workers, "restartPolicy": "Never", "template": template},
    }
    return {"metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": replicas}}


def status(space, name):
    path = f"/apis/kubeflow.org/v1/namespaces/{space.name}/pytorchjobs/{name}"
    return space.cluster.call("GET", path).get("status", {})


def last(space, name):
    conditions = status(space, name).get("conditions") or [{"type": ""}]
    return conditions[-1]["type"]


def test_replicas_reach_the_master_by_its_name(space):
    space.create("pytorchjobs", job("sum", ALL_REDUCE), "kubeflow.org")
    until(lambda: last(space, "sum") == "Succeeded", 60)
    pods = ["sum-master-0", "sum-worker-0", "sum-worker-1"]
    until(lambda: all(space.pod(name)["status"]["phase"] == "Succeeded" for name in pods))
    assert [space.log(name) for name in pods] == [f"rank {rank} of 3 total 3\n" for rank in range(3)]


def test_two_jobs_do_not_mix_and_other_words_stay(space):
    code = "import sys; print(sys.argv[1:])"
    words = [
        "tcp://one-master-0:1",
        "one-master-0",
        "/data/one-master-0",
        "one-master-0.txt",
        "two-master-0",
        "one",
    ]
    for name in ("one", "two"):
        space.create("pytorchjobs", job(name, code, 1, args=words), "kubeflow.org")
        until(lambda name=name: last(space, name) == "Succeeded", 60)
    one, two = (space.pod(f"{name}-master-0")["status"]["podIP"] for name in ("one", "two"))
    assert space.log("one-master-0") == f"{[f'tcp://{one}:1', one, *words[2:]]}\n"
    assert space.log("two-master-0") == f"{[*words[:4], two, words[5]]}\n"


def test_a_replica_waits_until_the_name_of_the_master_resolves(space):
    body = job("waits", ALL_REDUCE, 1)
    # A master that no node can take.
    master = body["spec"]["pytorchReplicaSpecs"]["Master"] | {"template": {"spec": {
        "containers": body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"],
        "nodeSelector": {"no": "node"},
    }}}  # fmt: skip
    body["spec"]["pytorchReplicaSpecs"]["Master"] = master
    space.create("pytorchjobs", body, "kubeflow.org")
    until(lambda: space.state("waits-worker-0").get("waiting", {}).get("message"))
    waiting = space.state("waits-worker-0")["waiting"]
    assert waiting == {
        "reason": "ContainerCreating",
        "message": "the name waits-master-0 does not resolve yet",
    }


def test_a_replica_that_fails_fails_the_job_and_keeps_its_log(space):
    code = "import os, time\nprint('rank', os.environ['RANK'])\nif os.environ['RANK'] == '1': raise SystemExit(3)\ntime.sleep(60)"
    space.create("pytorchjobs", job("broken", code, 1), "kubeflow.org")
    until(lambda: last(space, "broken") == "Failed", 60)
    assert space.ended("broken-worker-0")["exitCode"] == 3
    assert space.log("broken-worker-0") == "rank 1\n"


def test_what_devcluster_lacks_is_named(space):
    elastic = job("elastic", ALL_REDUCE)
    elastic["spec"]["elasticPolicy"] = {"metrics": [{"type": "Resource"}]}
    sidecar = job("sidecar", ALL_REDUCE)
    for replica in sidecar["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["volumes"] = [{"name": "x", "hostPath": {"path": "/"}}]
    for body, what in ((elastic, "spec.elasticPolicy.metrics"), (sidecar, "the volume source hostPath")):
        with pytest.raises(RefusedError, match=what) as caught:
            space.create("pytorchjobs", body, "kubeflow.org")
        assert caught.value.status["code"] == 501
