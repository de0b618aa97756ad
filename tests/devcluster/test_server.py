"""The server itself: credentials, what it does not serve, restarts, and dying without leaving anything behind."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from devcluster_bed import ROOT, Devcluster, RefusedError, Space

from tests.waiting import until

SLEEPS = "import os, subprocess, time\nc = subprocess.Popen(['sleep', '1000'])\nprint(os.getpid(), c.pid)\ntime.sleep(1000)"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _pids(space: Space) -> list[int]:
    until(space.log)
    return [int(word) for word in space.log().split()]


def test_the_kubeconfig_is_private_and_the_token_is_asked_for(cluster):
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
    assert cluster.server.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(cluster.server + "/api/v1/pods", timeout=30)  # noqa: S310 - its own loopback address
    caught.value.close()
    assert caught.value.code == 401


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("GET", "/apis/kubeflow.org/v1/namespaces/default/tfjobs", "tfjobs.kubeflow.org/v1"),
        ("GET", "/api/v1/persistentvolumes", "persistentvolumes of v1"),
        ("GET", "/api/v1/namespaces/default/pods/p/exec", "pods/exec"),
    ],
)
def test_what_is_missing_is_named(cluster, method, path, named):
    with pytest.raises(RefusedError) as caught:
        cluster.call(method, path)
    assert caught.value.status["code"] == 501
    assert named in caught.value.status["message"]


def test_an_unsupported_field_is_named(space):
    with pytest.raises(RefusedError) as caught:
        space.run("true", spec={"volumes": [{"name": "h", "hostPath": {"path": "/"}}]})
    assert caught.value.status["code"] == 501
    assert "spec.volumes[0].hostPath" in caught.value.status["message"]


def test_state_survives_a_restart_and_dead_pods_are_said_to_be(own):
    space = Space(own, "kept")
    space.python(SLEEPS)
    pids = _pids(space)
    before = space.pod()
    version = int(own.call("GET", "/api/v1/pods")["metadata"]["resourceVersion"])
    assert own.end() == 0
    until(lambda: not any(map(_alive, pids)))
    token, server = own.token, own.server
    own.start()
    assert (own.token, own.server) == (token, server)
    after = space.pod()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert int(after["metadata"]["resourceVersion"]) > version
    assert (after["status"]["phase"], after["status"]["reason"]) == ("Failed", "Terminated")
    (target,) = (c for c in after["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")


@pytest.mark.crash
def test_a_kill_of_devcluster_kills_its_pods_and_loses_nothing(own):
    space = Space(own, "kept")
    space.python(SLEEPS)
    pids = _pids(space)
    own.end(signal.SIGKILL)
    until(lambda: not any(map(_alive, pids)))
    own.start()
    assert space.pod()["status"]["phase"] == "Failed"


def test_it_dies_with_its_parent(tmp_path):
    config = tmp_path / "kubeconfig"
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-m', 'devcluster', '--kubeconfig', {str(config)!r}, '--die-with-parent'])\n"
        "print(p.pid, flush=True)\ntime.sleep(1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until(config.exists)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not _alive(child))


def test_a_short_history_makes_watches_expire(tmp_path):
    made = Devcluster(tmp_path, "--history", "5", "--kubelet", "clock")
    try:
        space = Space(made, "busy")
        for number in range(10):
            space.create("configmaps", {"metadata": {"name": f"c{number}"}})
        with made.open("GET", "/api/v1/configmaps?watch=1&resourceVersion=101") as stream:
            line = stream.readline()
        assert b'"code":410' in line
        assert b"too old resource version: 101" in line
    finally:
        made.end()
