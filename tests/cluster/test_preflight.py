from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import yaml
from cluster_faults import status
from django.core.management import call_command

from cluster import kinds, preflight
from cluster.client import connect, get_client
from cluster.errors import ClusterRejected
from cluster.preflight import Check, gpus, registry
from portal.preflight import pods_reach_the_portal, unreachable_for_pods
from telemetry.preflight import prometheus_answers

# The portal's own checks ask its catalogue.
pytestmark = pytest.mark.django_db


def node(name="n", product="", allocatable=None, **labels):
    found = {
        f"nvidia.com/{key.replace('_', '.', 1).replace('_', '-')}": value for key, value in labels.items()
    }
    if product:
        found[gpus.PRODUCT] = product
    return {"metadata": {"name": name, "labels": found}, "status": {"allocatable": allocatable or {}}}


class Nodes:
    """The facts of a cluster of which only the nodes matter."""

    def __init__(self, *nodes):
        self.nodes = list(nodes)


def test_every_finding_on_devcluster_has_a_status_and_the_bad_ones_a_sentence(devcluster):
    found = preflight.run(connect(devcluster))
    assert found[0].id == "reachable"
    assert {check.status for check in found} <= {"ok", "warn"}
    assert all(check.detail for check in found)
    assert len({check.id for check in found}) == len(found)


def test_a_cluster_that_cannot_be_reached_is_one_finding(faulty):
    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    found = preflight.run(connect(str(faulty.kubeconfig)))
    assert [(check.id, check.status) for check in found] == [("reachable", "fail")]
    assert found[0].fix


def test_what_devcluster_serves_beyond_kubernetes_has_its_controller_built_in(devcluster):
    found = {check.id: check for check in preflight.run(connect(devcluster))}
    check = found["optional-kinds"]
    assert (check.status, check.detail) == (
        "ok",
        "PyTorchJob (kubeflow.org) served; ScaledObject (keda.sh) served",
    )


def test_upper_layers_add_their_checks_and_an_error_becomes_a_finding(devcluster, monkeypatch):
    monkeypatch.setattr(registry, "_registered", registry._registered[:1])

    @preflight.register(id="prices", title="Prices")
    def prices(facts):
        return Check("prices", "Prices", "fail", "no price for a100-40gb", "set one in the admin console")

    @preflight.register(id="broken", title="Broken")
    def broken(facts):
        raise ClusterRejected("may not", status=403)

    found = {check.id: check for check in preflight.run(connect(devcluster))}
    assert found["prices"].status == "fail"
    assert found["broken"].status == "warn"
    assert "deploy/rbac.yaml" in found["broken"].fix


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://web:8000", "without a dot"),
        ("http://localhost:8000", "the pod itself"),
        ("http://127.0.0.1:8000", "the pod itself"),
        ("http://[::1]:8000", "the pod itself"),
        ("http://portal-web.ml-portal:8000", None),
        ("https://portal.example.org", None),
        ("http://192.0.2.10:8000", None),
    ],
)
def test_an_internal_url_that_no_pod_can_reach_is_found(settings, faulty_client, url, why):
    settings.EMBEDDED_CLUSTER, settings.INTERNAL_URL = False, url
    found = pods_reach_the_portal(preflight.ClusterFacts(faulty_client))
    assert found.status == ("ok" if why is None else "warn")
    assert (why or url) in found.detail
    settings.EMBEDDED_CLUSTER = True
    assert pods_reach_the_portal(preflight.ClusterFacts(faulty_client)).status == "ok"


def test_the_address_of_the_compose_file_is_one_of_them():
    compose = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())
    given = compose["services"]["worker"]["environment"]["PORTAL_INTERNAL_URL"]
    default = urlsplit(given.partition(":-")[2].rstrip("}")).hostname
    assert unreachable_for_pods(default) is not None, "say in docker-compose.yml that it works now"


def test_lacking_rights_are_named_with_the_command_that_grants_them(faulty, faulty_client):
    def script(exchange):
        path = exchange.request.path
        if path.endswith("selfsubjectaccessreviews"):
            asked = json.loads(exchange.request.body)["spec"]["resourceAttributes"]
            no = asked["resource"] in {"jobs", "secrets"}
            exchange.reply(201, {"status": {"allowed": not no}})
        elif path in {"/apis", "/api/v1"}:
            exchange.reply(200, {})
        else:
            exchange.reply(404, status(404, "NotFound", "no"))

    faulty.script = script
    found = preflight.checks.own_rights(preflight.ClusterFacts(faulty_client))
    assert found.status == "fail"
    assert "get, list, watch jobs.batch" in found.detail
    assert found.fix == "kubectl apply -f deploy/rbac.yaml"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (node(product="NVIDIA-A100-SXM4-40GB", allocatable={"nvidia.com/gpu": "8"}), None),
        (node(product="Tesla-T4-SHARED", allocatable={"nvidia.com/gpu": "4"}), "shared"),
        (node(product="Tesla-T4", allocatable={"nvidia.com/gpu": "4"}, gpu_sharing_strategy="mps"), "shared"),
        (node(product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", allocatable={"nvidia.com/gpu": "56"}), "MIG"),
        (node(product="Tesla-T4-SHARED", allocatable={"nvidia.com/gpu.shared": "4"}), None),
        (node(product="NVIDIA-A100-SXM4-80GB", allocatable={"nvidia.com/mig-1g.10gb": "7"}), None),
    ],
)
def test_a_node_that_offers_less_than_a_gpu_as_a_gpu_is_found(found, why):
    said = gpus.why_not_whole(found)
    assert (said is None) if why is None else (why in said)


def test_gpu_findings_name_the_nodes():
    mute = node("mute", product="Tesla-T4")
    bare = node("bare", allocatable={"nvidia.com/gpu": "2"})
    plain = node("plain", allocatable={"cpu": "4"})
    assert "mute" in gpus.device_plugin(Nodes(mute, bare, plain)).detail
    assert "bare" in gpus.gpu_labels(Nodes(mute, bare, plain)).detail
    assert gpus.gpu_nodes(Nodes(plain)).status == "warn"
    assert gpus.gpu_nodes(Nodes(bare, bare)).detail == "nvidia.com/gpu: 4 on 2 nodes"


def test_the_command_prints_findings_with_fixes_and_fails_only_on_a_failure(devcluster, faulty, settings):
    settings.CLUSTER_KUBECONFIG = devcluster
    assert get_client() is get_client()
    table, listing = StringIO(), StringIO()
    call_command("preflight", stdout=table)
    call_command("preflight", "--json", stdout=listing)
    assert "ok    The API server answers" in table.getvalue()
    assert "fix: " in table.getvalue()
    assert {"id", "title", "status", "detail", "fix"} == set(json.loads(listing.getvalue())[0])

    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    settings.CLUSTER_KUBECONFIG = str(faulty.kubeconfig)
    with pytest.raises(SystemExit) as caught:
        call_command("preflight", stdout=StringIO())
    assert caught.value.code == 1


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b'{"status": "success", "data": {"version": "3.5.0"}}', "ok"),
        (b"<html>a login page</html>", "fail"),
    ],
)
def test_the_configured_prometheus_is_asked(answer, status, settings):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        settings.PROMETHEUS_URL = f"http://127.0.0.1:{server.server_port}"
        assert prometheus_answers(None).status == status
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert prometheus_answers(None).status == "fail", "nobody listens there any more"


def test_every_optional_kind_says_what_its_controller_is_called():
    assert [kind.address for kind in kinds.OPTIONAL if not kind.controllers] == []


ACCOUNT = "system:serviceaccount:ml-portal:ml-portal"
DENIED = "ValidatingAdmissionPolicy 'ml-portal-namespaces' with binding 'ml-portal-namespaces' denied request: no others"
UNGRANTED = f'namespaces is forbidden: User "{ACCOUNT}" cannot create resource "namespaces" in API group ""'

UNHELD = (
    f'rolebindings is forbidden: user "{ACCOUNT}" is attempting to grant RBAC permissions not currently held'
)


def creating(answers, user=ACCOUNT):
    """A server that says as whom it is asked, and answers a dry run of each kind as told; a real creation it never takes."""

    def script(exchange):
        url = urlsplit(exchange.request.path)
        if url.path.endswith("selfsubjectreviews"):
            exchange.reply(201, {"status": {"userInfo": {"username": user}}})
        elif "dryRun=All" not in url.query:
            exchange.reply(500, status(500, "InternalError", "that would be stored"))
        else:
            exchange.reply(*answers[url.path.rpartition("/")[2]])

    return script


@pytest.mark.parametrize(
    ("namespaces", "bindings", "found", "said", "fix"),
    [
        ((422, status(422, "Invalid", DENIED)), (422, status(422, "Invalid", DENIED)), "ok", "refused", ""),
        ((403, status(403, "Forbidden", 'admission webhook "x" denied')), (422, status(422, "Invalid", DENIED)), "ok", "refused", ""),
        ((201, {}), (422, status(422, "Invalid", DENIED)), "warn", "lets pods be privileged", "apply -f deploy/admission.yaml"),
        ((409, status(409, "AlreadyExists", "it is there")), (201, {}), "warn", "namespace default", "apply -f deploy/admission.yaml"),
        ((403, status(403, "Forbidden", UNGRANTED)), (422, status(422, "Invalid", DENIED)), "warn", "may not create", "deploy/rbac.yaml"),
        ((422, status(422, "Invalid", DENIED)), (403, status(403, "Forbidden", UNHELD)), "warn", "may not create", "deploy/rbac.yaml"),
    ],
)  # fmt: skip
def test_whether_the_portals_own_admission_is_in_force_is_tried_without_storing_anything(
    faulty, faulty_client, namespaces, bindings, found, said, fix
):
    faulty.script = creating({"namespaces": namespaces, "rolebindings": bindings})
    check = preflight.own_admission.own_admission(preflight.ClusterFacts(faulty_client))
    assert check.status == found
    assert said in check.detail
    assert fix in check.fix


def test_an_account_that_the_policies_do_not_name_is_told_to_write_itself_into_them(faulty, faulty_client):
    faulty.script = creating({"namespaces": (201, {})}, user="alice")
    check = preflight.own_admission.own_admission(preflight.ClusterFacts(faulty_client))
    assert check.status == "warn"
    assert "the portal is alice here" in check.fix


def test_devcluster_takes_such_a_namespace_and_keeps_nothing_of_the_try(devcluster):
    client = connect(devcluster)
    check = {each.id: each for each in preflight.run(client)}["own-admission"]
    assert check.status == "warn"
    assert "privileged" in check.detail
    names = {each["metadata"]["name"] for each in client.list(kinds.NAMESPACE).items}
    assert "ml-portal-preflight" not in names
