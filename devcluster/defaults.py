"""The values that the API server fills in and clients see."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable
from typing import Any

from .kinds import (
    AUTOSCALER,
    CLAIM,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    PRIORITY_CLASS,
    PYTORCH_JOB,
    REPLICA_SET,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
    Kind,
)
from .objects import Obj, name_of, quantity, show_quantity, uid_of
from .validate_autoscaler import readable

JOB_NAME, JOB_UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"


def _set(target: Obj, **values: Any) -> None:
    for key, value in values.items():
        target.setdefault(key, value)


def pod_spec(spec: Obj) -> None:
    _set(
        spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30, securityContext={},
    )  # fmt: skip
    if "serviceAccountName" in spec:
        _set(spec, serviceAccount=spec["serviceAccountName"])
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        _container(container)
    for volume in spec.get("volumes") or ():
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if source in volume:
                _set(volume[source], defaultMode=420)
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}


def _container(container: Obj) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    policy = "IfNotPresent" if (tag and tag != "latest") or "@" in image else "Always"
    _set(
        container, imagePullPolicy=policy, resources={}, terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )  # fmt: skip
    for port in container.get("ports") or ():
        _set(port, protocol="TCP")
    for variable in container.get("env") or ():
        if "fieldRef" in (variable.get("valueFrom") or {}):
            _set(variable["valueFrom"]["fieldRef"], apiVersion="v1")
    limits = container["resources"].get("limits") or {}
    if limits:
        container["resources"]["requests"] = limits | (container["resources"].get("requests") or {})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            _set(container[probe], timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if "httpGet" in container[probe]:
                _set(container[probe]["httpGet"], path="/", scheme="HTTP")


def _pod(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    pod_spec(spec)
    _set(spec, enableServiceLinks=True)
    pod.setdefault("status", {}).setdefault("phase", "Pending")
    pod["status"].setdefault("qosClass", _qos(spec))


def _qos(spec: Obj) -> str:
    shares = [(c.get("resources") or {}) for c in spec.get("containers") or ()]
    compute = ("cpu", "memory")
    asked = [{k: v for k, v in (r.get("requests") or {}).items() if k in compute} for r in shares]
    limited = [{k: v for k, v in (r.get("limits") or {}).items() if k in compute} for r in shares]
    if not any(asked) and not any(limited):
        return "BestEffort"
    return "Guaranteed" if all(len(one) == 2 for one in limited) and asked == limited else "Burstable"


def _job(job: Obj) -> None:
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    policy = spec.get("podFailurePolicy")
    _set(
        spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", manualSelector=False, suspend=False,
        podReplacementPolicy="Failed" if policy else "TerminatingOrFailed",
    )  # fmt: skip
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            _set(pattern, status="True")
    pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    job.setdefault("status", {})


def own_job_pods(job: Obj) -> None:
    """Selector and labels that only the server may set: they carry the Job's uid."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = uid_of(job), name_of(job)
    labels = {JOB_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = (metadata.get("labels") or {}) | labels
    spec["selector"] = {"matchLabels": {JOB_UID: uid}}
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(metadata["labels"])


def _deployment(deployment: Obj) -> None:
    spec = deployment.setdefault("spec", {})
    _set(spec, replicas=1, strategy={}, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _set(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"], rollingUpdate={})
        _set(spec["strategy"]["rollingUpdate"], maxSurge="25%", maxUnavailable="25%")
    pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    deployment.setdefault("status", {})


def _replica_set(replica_set: Obj) -> None:
    spec = replica_set.setdefault("spec", {})
    _set(spec, replicas=1)
    pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    replica_set.setdefault("status", {"replicas": 0})


def _service(service: Obj) -> None:
    spec = service.setdefault("spec", {})
    _set(
        spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster", ipFamilies=["IPv4"],
        ipFamilyPolicy="SingleStack",
    )  # fmt: skip
    for port in spec.get("ports") or ():
        _set(port, protocol="TCP", targetPort=port.get("port"))
    service.setdefault("status", {"loadBalancer": {}})


def cluster_ip(serial: int) -> str:
    """A pretended address from the usual service range; nothing listens there."""
    return str(ipaddress.ip_address("10.96.0.0") + 10 + serial % 65000)


def _secret(secret: Obj) -> None:
    _set(secret, type="Opaque")
    plain = secret.pop("stringData", None) or {}
    coded = {k: base64.b64encode(v.encode()).decode() for k, v in plain.items()}
    if coded:
        secret["data"] = (secret.get("data") or {}) | coded


def _namespace(namespace: Obj) -> None:
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"].get("name", "")
    _set(namespace, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})


def _claim(claim: Obj) -> None:
    _set(claim.setdefault("spec", {}), volumeMode="Filesystem")
    _set(claim, status={"phase": "Pending"})


def _network_policy(policy: Obj) -> None:
    spec = policy.setdefault("spec", {})
    _set(spec, podSelector={}, policyTypes=["Ingress", "Egress"] if "egress" in spec else ["Ingress"])


def _priority_class(priority: Obj) -> None:
    _set(priority, value=0, preemptionPolicy="PreemptLowerPriority")


def _pytorch_job(job: Obj) -> None:
    """What the definition's schema says; the operator's own defaults are never stored."""
    spec = job.get("spec") or {}
    if "runPolicy" in spec:
        _set(spec["runPolicy"], suspend=False)
    for replica in (spec.get("pytorchReplicaSpecs") or {}).values():
        for container in ((replica.get("template") or {}).get("spec") or {}).get("containers") or ():
            for port in container.get("ports") or ():
                _set(port, protocol="TCP")


def _scaled_object(obj: Obj) -> None:
    if "fallback" in (obj.get("spec") or {}):
        _set(obj["spec"]["fallback"], behavior="static")


def _autoscaler(hpa: Obj) -> None:
    spec = hpa.setdefault("spec", {})
    _set(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    for metric in spec["metrics"]:
        for source in (each for each in metric.values() if isinstance(each, dict)):
            target = source.get("target") or {}
            for name in ("value", "averageValue"):
                if name in target:
                    target[name] = show_quantity(quantity(readable(target[name])))
    if "behavior" in spec:
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        up = {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{**percent, "type": "Pods", "value": 4}, percent],
        }
        spec["behavior"]["scaleUp"] = up | spec["behavior"].get("scaleUp", {})
        down = {"selectPolicy": "Max", "policies": [dict(percent)]}
        spec["behavior"]["scaleDown"] = down | spec["behavior"].get("scaleDown", {})
    _set(hpa, status={"desiredReplicas": 0, "currentMetrics": None})


def _node(node: Obj) -> None:
    _set(node, spec={}, status={})
    _set(node["status"], allocatable=dict(node["status"].get("capacity") or {}), nodeInfo={})
    info = dict.fromkeys(
        ("bootID", "machineID", "systemUUID", "kernelVersion", "osImage", "kubeProxyVersion"), ""
    )
    info |= {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": "v1.36.3",
        "containerRuntimeVersion": "devcluster",
    }
    node["status"]["nodeInfo"] = info | node["status"]["nodeInfo"]


_BY_KIND: dict[Kind, Callable[[Obj], None]] = {
    POD: _pod, JOB: _job, DEPLOYMENT: _deployment, REPLICA_SET: _replica_set, SERVICE: _service, SECRET: _secret,
    NAMESPACE: _namespace, CLAIM: _claim, NETWORK_POLICY: _network_policy, PRIORITY_CLASS: _priority_class,
    NODE: _node, PYTORCH_JOB: _pytorch_job, AUTOSCALER: _autoscaler, SCALED_OBJECT: _scaled_object,
}  # fmt: skip


def fill(kind: Kind, obj: Obj) -> None:
    """Fill `obj` in place."""
    if kind in _BY_KIND:
        _BY_KIND[kind](obj)
