"""A Prometheus that scrapes what a test plants, for scalers of the real control plane."""

from __future__ import annotations

import http.server
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from cluster import prometheus
from cluster.errors import ClusterUnavailable
from tests.ports import reserved_port
from tests.waiting import until

PROMETHEUS = shutil.which("prometheus")
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: planted
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Source:
    """`planted` is what is scraped: a series, as PromQL writes it, to its value. `url` is Prometheus itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.planted: dict[str, float] = {}

    def text(self) -> str:
        return "".join(f"{series} {value}\n" for series, value in self.planted.items())


@contextmanager
def metric_source(folder: Path) -> Iterator[Source]:
    """Runs until the end of the block. Needs the program `prometheus`."""
    port = reserved_port()
    source = Source(f"http://127.0.0.1:{port}")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = source.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(port=exporter.server_address[1]))
    command = [
        str(PROMETHEUS),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await(source.url, process)
        yield source
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        exporter.shutdown()
        exporter.server_close()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            return bool(prometheus.version(url))
        except ClusterUnavailable:
            assert process.poll() is None, "Prometheus has ended."
            return False

    until(answers, said="Prometheus answers")
