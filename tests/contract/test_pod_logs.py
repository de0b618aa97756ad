"""Both clusters' clocked pods have the same three lines of log: line 1, 2 and 3 of the pod log."""

from __future__ import annotations

import re

import pytest

from tests.waiting import until

from .conftest import make_namespace
from .kube import pod, refusal

LINES = [f"line {number} of the pod log" for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def ended_in(kube):
    """The namespace of a pod p that has ended."""
    name = make_namespace(kube)
    kube.core.create_namespaced_pod(name, pod("p", {"BED_RUN_SECONDS": "0"}))
    until(lambda: kube.core.read_namespaced_pod("p", name).status.phase == "Succeeded")
    yield name
    kube.core.delete_namespace(name)


@pytest.fixture
def logs(kube, ended_in):
    """The ended pod's log by any of the options."""

    def logs(**options):
        return kube.core.read_namespaced_pod_log("p", ended_in, **options)

    return logs


def test_a_log_has_its_lines_in_order(logs):
    assert logs().splitlines()[:3] == LINES


def test_tail_takes_the_last_lines(logs):
    everything = logs().splitlines()
    assert logs(tail_lines=2).splitlines() == everything[-2:]
    assert logs(tail_lines=0) == ""


def test_timestamps_stand_before_each_line(logs):
    for line in logs(timestamps=True).splitlines():
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z line \d+ of the pod log", line)


def test_limit_bytes_cuts_the_log(logs):
    assert logs(limit_bytes=10) == LINES[0][:10]


def test_since_seconds_keeps_what_is_younger(logs):
    assert logs(since_seconds=864000) == logs()


def test_since_time_leaves_out_what_is_older(kube, ended_in, logs):
    path = f"/api/v1/namespaces/{ended_in}/pods/p/log"
    future = "2199-01-01T00:00:00Z"
    assert _text(kube, path, sinceTime=future) == ""
    assert _text(kube, path, sinceTime="2001-01-01T00:00:00Z") == logs()


def test_a_named_container_has_the_log(logs):
    assert logs(container="main") == logs()


def test_an_unknown_container_is_bad_request(logs):
    status = refusal(logs, container="absent")
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert status["message"] == "container absent is not valid for pod p"


def test_negative_tail_lines_are_invalid(logs):
    status = refusal(logs, tail_lines=-1)
    assert (status["code"], status["reason"]) == (422, "Invalid")


def test_an_absent_pod_has_no_log(kube, ns):
    status = refusal(kube.core.read_namespaced_pod_log, "absent", ns)
    assert (status["code"], status["reason"]) == (404, "NotFound")
    assert status["message"] == 'pods "absent" not found'


def test_a_pod_without_a_node_has_no_log(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", schedulingGates=[{"name": "contract.test/gate"}]))
    try:
        text = kube.core.read_namespaced_pod_log("p", ns)
    finally:
        kube.core.delete_namespaced_pod("p", ns)
    assert not text


def test_follow_streams_the_lines_of_a_running_pod(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p"))
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    response = kube.core.read_namespaced_pod_log("p", ns, follow=True, _preload_content=False)
    try:
        seen = b""
        while seen.count(b"\n") < 3:
            chunk = response.read(1)
            assert chunk, "the stream of a running pod stays open"
            seen += chunk
    finally:
        response.close()
    assert seen.decode().splitlines() == LINES


def _text(kube, path, **query):
    response = kube.api.call_api(
        *kube.api.param_serialize(
            "GET", path, query_params=list(query.items()), header_params={}, auth_settings=["BearerToken"]
        )
    )
    return response.read().decode()
