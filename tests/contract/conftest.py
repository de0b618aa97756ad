"""Where the cases run: devcluster always, and the API server that PORTAL_TEST_KUBECONFIG names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

from .kube import Kube, gone, holds, node, unique
from .pytorchjobs import ALL_RUN, Jobs
from .scaledobjects import Meter, Scaled

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251 - the suite's own switch, no setting of the portal


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE not in item.path.parents:
            continue
        # A test cluster's certificate is its own.
        item.add_marker(pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"))
        if not REAL and item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason="PORTAL_TEST_KUBECONFIG names no cluster"))


@pytest.fixture(scope="session", params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def kube(request, tmp_path_factory) -> Iterator[Kube]:
    if request.param == "real":
        cluster = Kube("real", REAL)
        yield cluster
        cluster.close()
        return
    folder = tmp_path_factory.mktemp("devcluster")
    with (folder / "log").open("wb") as log:
        process = _start_devcluster(folder, log)
        try:
            _wait_for_kubeconfig(process, folder)
            cluster = Kube("devcluster", str(folder / "kubeconfig"))
            yield cluster
            cluster.close()
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start_devcluster(folder: Path, log) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "devcluster", "--kubeconfig", str(folder / "kubeconfig")]
    command += ["--nodes", "devcluster/nodes.yaml", "--data", str(folder / "data")]
    command += ["--port", "0", "--kubelet", "clock", "--autoscaler-interval", "0.5"]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _wait_for_kubeconfig(process: subprocess.Popen[bytes], folder: Path) -> None:
    until(lambda: (folder / "kubeconfig").exists() or process.poll() is not None, said="the kubeconfig")
    if process.poll() is not None:
        pytest.fail("devcluster did not start:\n" + (folder / "log").read_text()[-4000:])


@pytest.fixture
def ns(kube) -> Iterator[str]:
    name = make_namespace(kube)
    yield name
    kube.core.delete_namespace(name)


@pytest.fixture(scope="module")
def shared_ns(kube) -> Iterator[str]:
    """For cases that only read, or whose slow waits run side by side."""
    name = make_namespace(kube)
    yield name
    kube.core.delete_namespace(name)


def make_namespace(kube: Kube) -> str:
    name = unique("contract")
    kube.core.create_namespace({"metadata": {"name": name, "labels": {"contract": "true"}}})
    until(lambda: not gone(kube.core.read_namespaced_service_account, "default", name)())
    return name


@pytest.fixture(scope="module")
def own_node(kube) -> Iterator[str]:
    """A node with 4 CPUs and 4 GPUs on which only the module's own pods land."""
    name = unique("contract-node")
    make_node(kube, name, {"nvidia.com/gpu": "4"})
    yield name
    kube.core.delete_node(name)


@pytest.fixture
def spare_node(kube) -> Iterator[str]:
    """As own_node, for one case that taints or cordons it."""
    name = unique("contract-spare")
    make_node(kube, name, {"nvidia.com/gpu": "1"})
    yield name
    kube.core.delete_node(name)


def make_node(kube: Kube, name: str, resources: dict[str, str]) -> None:
    kube.core.create_node(node(name, resources=resources))

    def ready() -> bool:
        seen = kube.core.read_node(name)
        return holds(seen, "Ready") and [taint.key for taint in seen.spec.taints] == ["contract/own"]

    until(ready)


@pytest.fixture(scope="module")
def operator(kube) -> None:
    """A real cluster may lack the definition, or have it without an operator behind it."""
    if kube.name == "devcluster":
        return
    groups = {group["name"] for group in kube.request("GET", "/apis")["groups"]}
    if "kubeflow.org" not in groups:
        pytest.skip("this cluster does not serve kubeflow.org")
    namespace = make_namespace(kube)
    jobs = Jobs(kube, namespace)
    jobs.create(ALL_RUN, policy={"suspend": True})
    try:
        until(jobs.conditions)
    except pytest.fail.Exception:
        pytest.skip("no training operator answers on this cluster")
    finally:
        kube.core.delete_namespace(namespace)


@pytest.fixture
def jobs(kube, ns, operator) -> Jobs:
    """PyTorchJobs of a namespace of the case's own."""
    return Jobs(kube, ns)


@pytest.fixture
def meter() -> Iterator[Meter]:
    """What the triggers ask: it answers whatever the case plants."""
    made = Meter()
    yield made
    made.close()


@pytest.fixture(scope="module")
def keda(kube) -> None:
    """A real cluster may lack KEDA, or have its definitions without the operator."""
    if kube.name == "devcluster":
        return
    groups = {group["name"] for group in kube.request("GET", "/apis")["groups"]}
    if not {"keda.sh", "external.metrics.k8s.io"} <= groups:
        pytest.skip("no KEDA answers on this cluster")


@pytest.fixture
def scaled(kube, ns, keda, meter) -> Scaled:
    """A deployment and its ScaledObject, in a namespace of the case's own."""
    return Scaled(kube, ns, meter)
