"""The whole way to a real server: a pod of devcluster that runs as a process, behind a Service."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.errors import ProxyFailed
from cluster.proxy import ServiceProxy, invoke
from cluster.proxy_rules import Target
from tests.waiting import until

PROGRAM = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Echo(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(418); self.send_header("Content-Length", str(len(body) + len(self.path))); self.end_headers()
        self.wfile.write(self.path.encode() + body)
HTTPServer((os.environ["POD_IP"], 8080), Echo).serve_forever()
"""


@pytest.fixture
def target(process_cluster):
    client = connect(process_cluster)
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-proxy"}})
    pod_ip = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {"name": "main", "image": "python:3", "command": ["python", "-c", PROGRAM], "env": [pod_ip]}
    pod = client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "team-proxy", "name": "echo", "labels": {"app": "echo"}},
            "spec": {"containers": [container | {"ports": [{"containerPort": 8080}]}]},
        }
    )
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": "team-proxy", "name": "echo"},
            "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
    )
    yield client, Target("team-proxy", "echo", 80)
    client.delete(kinds.ref_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0)


def first_answer(client, target):
    """The echo's answer, as soon as its port is open; until then the proxy says 502 or 503."""

    def asked():
        with suppress(ProxyFailed):
            return invoke(client, target, method="POST", path="/a/b", query="c=d", body=b"!body")

    return until(asked, 30, lambda: client.read_log(target.namespace, "echo").decode())


def test_both_proxies_reach_the_process(target):
    client, service = target
    found = first_answer(client, service)
    assert (found.status, found.body) == (418, b"/a/b?c=d!body")

    async def forwarded():
        proxy = ServiceProxy(client)
        async with proxy.forward(service, method="POST", path="/x", body=b"123") as upstream:
            body = b"".join([chunk async for chunk in upstream.chunks()])
        await proxy.aclose()
        return upstream.status, body

    assert asyncio.run(forwarded()) == (418, b"/x123")
