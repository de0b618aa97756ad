from __future__ import annotations

from .kube import fields, refusal

SERVICE = {
    "metadata": {"name": "served"},
    "spec": {"selector": {"app": "served"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


def test_a_service_gets_an_address_and_defaults(kube, ns):
    made = kube.core.create_namespaced_service(ns, SERVICE)
    assert made.spec.type == "ClusterIP"
    assert made.spec.cluster_ip.count(".") == 3
    seen = kube.raw(kube.core.read_namespaced_service, "served", ns)
    assert seen["spec"]["clusterIPs"] == [made.spec.cluster_ip]
    (port,) = made.spec.ports
    assert (port.port, port.target_port, port.protocol) == (80, 8080, "TCP")
    assert made.spec.session_affinity == "None"


def test_a_headless_service_keeps_none(kube, ns):
    body = {**SERVICE, "spec": {**SERVICE["spec"], "clusterIP": "None"}}
    assert kube.core.create_namespaced_service(ns, body).spec.cluster_ip == "None"


def test_the_address_of_a_service_is_immutable(kube, ns):
    kube.core.create_namespaced_service(ns, SERVICE)
    change = {"spec": {"clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"]}}
    status = refusal(kube.core.patch_namespaced_service, "served", ns, change)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert "spec.clusterIPs[0]" in fields(status)


def test_two_ports_need_names(kube, ns):
    body = {**SERVICE, "spec": {"ports": [{"port": 80}, {"port": 81}]}}
    status = refusal(kube.core.create_namespaced_service, ns, body)
    assert {"spec.ports[0].name", "spec.ports[1].name"} <= fields(status)
