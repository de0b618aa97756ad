"""The official client with a default timeout, and the few words the cases share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

T = TypeVar("T")

GPU = "nvidia.com/gpu"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
IMAGE = "registry.example.test/trainer:1"
TOLERATE_ALL = [{"operator": "Exists"}]


class PatientClient(client.ApiClient):
    """No request waits for ever, and none has to say so."""

    def call_api(
        self,
        method: Any,
        url: Any,
        header_params: Any = None,
        body: Any = None,
        post_params: Any = None,
        _request_timeout: Any = None,
    ) -> Any:
        timeout = _request_timeout or (5, 60)
        return super().call_api(method, url, header_params, body, post_params, timeout)


class Kube:
    """One cluster, seen through the official client."""

    def __init__(self, name: str, kubeconfig: str) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        known = client.Configuration()
        config.load_kube_config(  # type: ignore[no-untyped-call]
            kubeconfig, client_configuration=known, persist_config=False
        )
        self.api = PatientClient(known)
        self.core = client.CoreV1Api(self.api)
        self.batch = client.BatchV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)
        self.policy = client.PolicyV1Api(self.api)
        self.networking = client.NetworkingV1Api(self.api)
        self.scheduling = client.SchedulingV1Api(self.api)

    def without_credentials(self, token: str | None = None) -> client.ApiClient:
        known = self.api.configuration
        bare = client.Configuration(host=known.host)
        bare.verify_ssl = known.verify_ssl
        bare.ssl_ca_cert = known.ssl_ca_cert
        if token is not None:
            bare.api_key = {"BearerToken": f"Bearer {token}"}
        return PatientClient(bare)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """What the typed methods cannot say: the path as it is, and the answer's JSON undecoded by models."""
        response = self.api.call_api(
            *self.api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
        )
        text = response.read().decode()
        if not 200 <= response.status <= 299:
            raise ApiException(status=response.status, reason=response.reason, body=text)
        return json.loads(text)

    def raw(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The JSON behind a typed call, as the server sent it."""
        response = call(*args, **kwargs, _preload_content=False)
        return json.loads(response.data)

    def close(self) -> None:
        self.api.rest_client.close()


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def refusal(call: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The Status object that a refused call is answered with."""
    with pytest.raises(ApiException) as caught:
        call(*args, **kwargs)
    status: dict[str, Any] = json.loads(caught.value.body or "")
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == caught.value.status
    return status


def fields(status: dict[str, Any]) -> set[str]:
    return {cause["field"] for cause in status["details"]["causes"]}


def gone(read: Callable[..., Any], *args: Any) -> Callable[[], bool]:
    def look() -> bool:
        try:
            read(*args)
        except ApiException as error:
            if error.status == 404:
                return True
            raise
        return False

    return look


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def pod_template(
    bed: dict[str, str] | None = None,
    *,
    limits: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    image: str = IMAGE,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": image}
    if bed:
        container["env"] = [{"name": key, "value": value} for key, value in bed.items()]
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    if resources:
        container["resources"] = resources
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}


def pod(name: str, bed: dict[str, str] | None = None, **template: Any) -> dict[str, Any]:
    """A pod that ends as its BED_ environment says, or runs until it is deleted."""
    template.setdefault("restartPolicy", "Never")
    made = pod_template(bed, **template)
    made["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **made}


def job(
    name: str, bed: dict[str, str] | None = None, template: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    template = {"restartPolicy": "Never", **(template or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": pod_template(bed, **template), **spec},
    }


def pytorch_job(
    name: str,
    roles: dict[str, tuple[int, dict[str, str]]],
    *,
    restart: str | None = "Never",
    template: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Each role with its number of replicas and what their pods do."""
    replicas: dict[str, Any] = {}
    for role, (count, bed) in roles.items():
        made = pod_template(bed, **(template or {}))
        made["spec"]["containers"][0]["name"] = "pytorch"
        replicas[role] = {"replicas": count, "template": made}
        if restart is not None:
            replicas[role]["restartPolicy"] = restart
    if policy is not None:
        spec["runPolicy"] = policy
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }


def deployment(
    name: str,
    bed: dict[str, str] | None = None,
    template: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": pod_template(bed, labels=labels, **(template or {})),
            **spec,
        },
    }


def node(name: str, *, resources: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    """A node of the case's own: nothing lands there that does not name it and tolerate everything."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20", "ephemeral-storage": "20Gi", **(resources or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "contract/node": name, **labels},
        },
        "spec": {"taints": [{"key": "contract/own", "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity, "phase": "Running"},
    }


def on_node(name: str) -> dict[str, Any]:
    """The part of a pod spec that sends a pod to an own node."""
    return {
        "nodeSelector": {"contract/node": name},
        "tolerations": [{"key": "contract/own", "operator": "Exists", "effect": "NoSchedule"}],
    }


def condition(thing: Any, kind: str) -> Any:
    """The condition of that type of a typed object, or None."""
    return next((item for item in thing.status.conditions or [] if item.type == kind), None)


def holds(thing: Any, kind: str) -> bool:
    found = condition(thing, kind)
    return found is not None and found.status == "True"
