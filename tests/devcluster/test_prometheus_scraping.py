"""Scraping real processes, and the series of the pretended cards."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from devcluster_bed import Devcluster, Space
from prometheus_bed import ask

from tests.ports import reserved_port
from tests.waiting import until

SERVER = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'# TYPE queue_length gauge\\nqueue_length{model="digits",pod="mine"} 7\\n'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 9100), H).serve_forever()
"""


class Target:
    """A target beside the cluster whose text the case changes."""

    def __init__(self) -> None:
        self.text = ""
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = target.text.encode()
                self.send_response(200 if data else 500)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/-/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def target():
    made = Target()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def bed(tmp_path, target):
    """A devcluster with its Prometheus, and a function that gives the elements of a query."""
    address = f"127.0.0.1:{reserved_port()}"
    made = Devcluster(tmp_path, "--prometheus", address, "--scrape", target.url, "--scrape-interval", "0.3")

    def query(text):
        status, answer = ask(f"http://{address}", "query", token=made.token, query=text)
        assert status == 200, answer
        return answer["data"]["result"]

    yield Space(made, "watched"), query
    assert made.end() == 0


def test_targets_come_and_go(bed, target):
    _, query = bed
    target.text = 'in_flight{endpoint="digits",instance="own"} 3\n'
    (element,) = until(lambda: query("in_flight"))
    address = target.url.removeprefix("http://").partition("/")[0]
    assert element["value"][1] == "3"
    assert element["metric"] == {
        "__name__": "in_flight", "endpoint": "digits", "exported_instance": "own", "instance": address, "job": "portal",
    }  # fmt: skip
    # A series that its target no longer has ends at once.
    target.text = "other 1\n"
    until(lambda: not query("in_flight"))
    assert query("up")[0]["value"][1] == "1"
    target.text = "this is no line { of the format"
    until(lambda: query("up == 0"))
    target.text = ""
    until(lambda: not query("other"))
    target.text = "other 2\n"
    until(lambda: query("other == 2"))


def test_annotated_pods_are_scraped_and_their_own_labels_give_way(bed):
    space, query = bed
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "9100"}
    body = {
        "metadata": {"name": "p", "annotations": annotations, "labels": {"mlportal.dev/revision": "3"}},
        "spec": {"containers": [{"name": "main", "image": "any:1", "command": ["python", "-c", SERVER]}]},
    }
    space.create("pods", body)
    (element,) = until(lambda: query("queue_length"))
    labels = element["metric"]
    assert (labels["pod"], labels["exported_pod"], labels["namespace"]) == ("p", "mine", "watched")
    assert (labels["mlportal_dev_revision"], labels["model"], labels["job"]) == (
        "3",
        "digits",
        "kubernetes-pods",
    )
    space.cluster.call("DELETE", f"{space.core}/pods/p", {"gracePeriodSeconds": 0})
    until(lambda: not query("queue_length"))


def test_pretended_cards_are_as_busy_as_their_processes(bed):
    space, query = bed
    container = {"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "100m", "memory": "1Gi"}}}
    tolerations = [{"operator": "Exists"}]
    space.run("python", "-c", "while True: pass", name="busy", spec={"tolerations": tolerations}, **container)
    found = until(lambda: query('DCGM_FI_DEV_GPU_UTIL{exported_pod="busy"} > 50'))
    (element,) = found
    labels = element["metric"]
    assert (labels["exported_namespace"], labels["exported_container"]) == ("watched", "main")
    assert labels["pod"] == "dcgm-exporter-simulated"
    assert labels["UUID"].startswith("simulated-")
    (share,) = query('DCGM_FI_PROF_GR_ENGINE_ACTIVE{exported_pod="busy"}')
    assert 0.5 < float(share["value"][1]) <= 1
    (used,) = query('DCGM_FI_DEV_FB_USED{exported_pod="busy"}')
    assert float(used["value"][1]) > 0
