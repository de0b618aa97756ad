"""How a Service shares its requests among processes, and what one does that is on its way out."""

from __future__ import annotations

import threading
from collections import Counter

from tests.waiting import until

SERVER = """
import http.server, os, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["HOSTNAME"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), H).serve_forever()
"""
PODS = ("p0", "p1", "p2")


def serve(space, **spec):
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    service = {"metadata": {"name": "served"}, "spec": {"selector": {"app": "served"}, "ports": ports}}
    space.create("services", service)
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    for name in PODS:
        container = {
            "name": "main",
            "image": "any:1",
            "command": ["python", "-c", SERVER],
            "readinessProbe": probe,
        }
        container |= {"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}
        body = {
            "metadata": {"name": name, "labels": {"app": "served"}},
            "spec": {"containers": [container], **spec},
        }
        space.create("pods", body)
    for name in PODS:
        space.ready(name)


def call(space):
    return space.cluster.text(f"{space.core}/services/served:http/proxy/")


def test_three_pods_share_the_load(space):
    serve(space)
    answers, threads = [], []
    for _ in range(6):
        threads.append(threading.Thread(target=lambda: answers.extend(call(space) for _ in range(10))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert Counter(answers) == dict.fromkeys(PODS, 20)


def test_a_pod_that_goes_gets_nothing_new_and_answers_while_it_sleeps(space):
    serve(space)
    space.cluster.call("DELETE", f"{space.core}/pods/p1", {"gracePeriodSeconds": 30})
    assert Counter(call(space) for _ in range(10)) == {"p0": 5, "p2": 5}
    assert space.cluster.text(f"{space.core}/pods/p1:8080/proxy/") == "p1"
    until(lambda: "Killing" in space.reasons())
    assert space.cluster.text(f"{space.core}/pods/p1:8080/proxy/") == "p1"
