"""The whole way: a live process, devcluster's service proxy, and a pod that runs as a process and really answers."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import connect
from controller import routes
from tests.gateway.live_server import LIMITS, Bench, LiveServer
from tests.waiting import until

# It answers with what it was sent; `/stream` in pieces.
PROGRAM = """
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        told = {"path": self.path, "body": body, "headers": {k.lower(): v for k, v in self.headers.items()}}
        data = json.dumps(told).encode()
        self.send_response(200); self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data))); self.send_header("Set-Cookie", "a=b"); self.end_headers()
        self.wfile.write(data)
    do_GET = do_POST
ThreadingHTTPServer((os.environ["POD_IP"], 8080), Echo).serve_forever()
"""


@pytest.fixture
def bench(process_cluster, transactional_db, monkeypatch, settings):
    settings.CLUSTER_KUBECONFIG = process_cluster
    made = Bench(None)
    made.team.namespace = f"team-{uuid4().hex[:8]}"
    made.team.save()
    made.endpoint.refresh_from_db()
    monkeypatch.setitem(routes._sources, "endpoint", made.routes)
    client = connect(process_cluster)
    namespace = made.team.namespace
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {"name": "server", "image": "python:3", "command": ["python", "-c", PROGRAM], "env": [pod_ip]}
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    container |= {"ports": [{"name": "http", "containerPort": 8080}], "readinessProbe": probe}
    pod = client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": "digits", "labels": {"app": "digits"}},
            "spec": {"containers": [container]},
        }
    )
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": namespace, "name": "digits"},
            "spec": {
                "selector": {"app": "digits"},
                "ports": [{"name": "http", "port": 8080, "targetPort": "http"}],
            },
        }
    )
    yield made
    client.delete(kinds.ref_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0)
    client.close()


def test_a_real_endpoint_answers_and_sees_no_credential_of_anybody(bench):
    live = LiveServer(LIMITS)
    try:
        until(lambda: live.get("/vision/digits/", token=bench.token).status == 200, 30)
        answer = live.send(
            "POST",
            "/vision/digits/v1/predict?a=b",
            token=bench.token,
            body=b"pixels",
            headers={"Cookie": "portal-session=canary", "X-Kept": "yes"},
        )
        seen = json.loads(answer.body)
        assert (seen["path"], seen["body"], seen["headers"]["x-kept"]) == ("/v1/predict?a=b", "pixels", "yes")
        assert seen["headers"]["x-request-id"] == answer.headers["x-request-id"]
        assert not {"authorization", "cookie"} & seen["headers"].keys()
        assert "canary" not in repr(seen)
        assert bench.token not in repr(seen)
        assert "set-cookie" not in answer.headers
    finally:
        live.stop()
