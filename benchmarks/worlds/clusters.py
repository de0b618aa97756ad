"""The API server under the measurements: a real one where there is one, else devcluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from portal.runtime import children
from portal.runtime.children import ChildCommand
from tests.ci.free_ports import ports_in_a_row
from tests.crash.fleet import ROOT

DEFAULT_UP = ROOT.parent / "shared" / "realcluster" / "up"
START_SECONDS = 1800


@dataclass(frozen=True)
class Cluster:
    kubeconfig: str
    words: str


@contextmanager
def cluster(*, kubeconfig: str | None, up: Path, folder: Path) -> Iterator[Cluster]:
    """The given one, one that the script `up` starts with durable writes, or devcluster."""
    if kubeconfig is not None:
        yield Cluster(
            kubeconfig,
            "the API server of the given kubeconfig; whether it writes durably is its operator's to say",
        )
    elif os.access(up, os.X_OK):
        with _real(up, folder / "cluster") as config:
            yield Cluster(
                config,
                "a real kube-apiserver and etcd on the same machine, etcd writing durably (`ETCD_FSYNC=1`)",
            )
    else:
        with devcluster(folder / "devcluster", kubelet="clock") as config:
            yield Cluster(config, "devcluster (no real API server was at hand: these ratios are no claim)")


@contextmanager
def _real(up: Path, state: Path) -> Iterator[str]:
    variables = {**os.environ, "ETCD_FSYNC": "1", "REALCLUSTER_PORT": str(ports_in_a_row())}  # noqa: TID251
    try:
        done = subprocess.run(
            [str(up), str(state)],
            env=variables,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{up} failed:\n{done.stdout}{done.stderr}")
        yield done.stdout.strip().splitlines()[-1]
    finally:
        subprocess.run([str(up.with_name("down")), str(state)], check=False, capture_output=True)


@contextmanager
def devcluster(folder: Path, *, kubelet: str) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    arguments = ["--kubeconfig", str(kubeconfig), "--nodes", str(ROOT / "devcluster" / "nodes.yaml")]
    arguments += ["--data", str(folder / "data"), "--kubelet", kubelet, "--die-with-parent"]
    child = children.start(
        name="devcluster",
        command=ChildCommand(arguments=(sys.executable, "-m", "devcluster", *arguments), folder=ROOT),
        log=folder / "log",
        echo=lambda *_: None,
    )
    try:
        alive = children.wait_until(kubeconfig.exists, seconds=60, alive=lambda: child.poll() is None)
        if not alive:
            raise SystemExit(f"devcluster did not start: {child.tail}")
        yield str(kubeconfig)
    finally:
        child.stop()
