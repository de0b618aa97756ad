"""The table's rows as data: what is planted of each, in the words of API servers, and in which phase its run then is.

A name begins with the row's id; what follows tells its variants apart. `Planted` makes rows of it, `PlantedInCluster` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.diagnosis.planted import GPU, NOW, Planted
from tests.factories.workloads import put_in
from tests.pod_samples import (
    SCHEDULED,
    T1,
    T2,
    container,
    disrupted,
    ended,
    failed,
    pending,
    pod,
    running,
    unscheduled,
    waiting,
)
from workloads.models import Workload
from workloads.states import Phase

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TAIL = " no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
NO_SECRET = 'secret "hf" not found'


def homeless(message: str, *, reason: str = "Unschedulable", gpus: str = "4", **asks: Any) -> dict[str, Any]:
    item = unscheduled(reason, message)
    resources = {"limits": {GPU: gpus}, "requests": {"cpu": "128", "memory": "16Gi"}}
    item["spec"]["containers"] = [{"name": "main", "image": "b", "resources": resources}]
    item["spec"] |= {"nodeSelector": {"gpu": "a100"}, **asks}
    return item


def mounting(message: str) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    return homeless(message, volumes=[volume])


def nobody_looks() -> dict[str, Any]:
    item = pod("Pending", conditions=(), node="")
    item["spec"]["schedulerName"] = "volcano"
    return item


def nominated() -> dict[str, Any]:
    item = homeless(f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu.{TAIL}")
    item["status"]["nominatedNodeName"] = "a100-0"
    return item


def lost() -> dict[str, Any]:
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    return pod("Running", conditions=(SCHEDULED, unknown), containers=(container(running()),))


def status(reason: str, message: str = "as it says") -> dict[str, Any]:
    return pod("Failed", reason=reason, message=message)


def evicted_by_kubelet() -> dict[str, Any]:
    item = disrupted("TerminationByKubelet")
    item["status"] |= {"reason": "Evicted", "message": "The node had condition: [DiskPressure]."}
    return item


def looping(code: int, *, reason: str = "Error", message: str = "") -> dict[str, Any]:
    back_off = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=main")
    return pod("Running", containers=(container(back_off, restarts=4, last=ended(code, reason, message)),))


def init_waits() -> dict[str, Any]:
    state = container({"running": {"startedAt": T2}}, name="init-pytorch")
    return pod("Pending", name="a-1-worker-0", inits=(state,))


def master() -> dict[str, Any]:
    return pod("Pending", name="a-1-master-0", containers=(container(waiting("ContainerCreating")),))


def up_again(restarts: int) -> dict[str, Any]:
    """A container that is up, and was killed a minute ago."""
    return pod("Running", containers=(container(running(), restarts=restarts, last=ended(137, "OOMKilled")),))


def stuck(state: dict[str, Any] | None = None) -> dict[str, Any]:
    item = pod("Running", containers=(container(state or running()),))
    item["metadata"]["deletionTimestamp"] = T1
    item["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    return item


def taint(key: str) -> dict[str, str]:
    return {"key": key, "value": "research", "effect": "NoSchedule"}


def answer(text: str) -> str:
    return f"0/4 nodes are available: {text}.{TAIL}"


Plant = Callable[[Planted], Planted]
ROWS: dict[str, tuple[str, Plant]] = {
    "S1": ("Admitted", lambda it: it.node("n").pods(homeless(answer("1 node(s) had untolerated taint(s), 3 Insufficient nvidia.com/gpu")))),
    "S1 of 1.33": ("Admitted", lambda it: it.node("n").pods(homeless("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."))),
    "S1 never": ("Admitted", lambda it: it.node("n", gpus=2).pods(homeless(answer("4 Insufficient nvidia.com/gpu")))),
    "S2": ("Admitted", lambda it: it.pods(homeless(answer("4 Insufficient nvidia.com/mig-1g.10gb")))),
    "S2 shared": ("Admitted", lambda it: it.pods(homeless(answer("4 Insufficient nvidia.com/gpu.shared")))),
    "S3": ("Admitted", lambda it: it.node("n").pods(homeless(answer("3 Insufficient cpu, 1 node(s) had untolerated taint {a: b}")))),
    "S3 pods": ("Admitted", lambda it: it.pods(homeless(answer("4 Too many pods")))),
    "S3 memory": ("Admitted", lambda it: it.pods(homeless(answer("4 Insufficient memory")))),
    "S3 disk": ("Admitted", lambda it: it.pods(homeless(answer("4 Insufficient ephemeral-storage")))),
    "S4": ("Admitted", lambda it: it.node("n", taints=(taint("dedicated"),)).pods(homeless(answer("4 node(s) had untolerated taint(s)")))),
    "S4 older": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) had untolerated taint {dedicated: research}")))),
    "S4 among others": (
        "Admitted",
        lambda it: it.node("n", taints=(taint("dedicated"),)).node("cpu", labels={}).pods(
            homeless(answer("1 node(s) didn't match Pod's node affinity/selector, 3 node(s) had untolerated taint(s)"))
        ),
    ),
    "S4 oldest": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) had taints that the pod didn't tolerate")))),
    "S5": ("Admitted", lambda it: it.node("n", labels={"gpu": "t4"}).pods(homeless(answer("4 node(s) didn't match Pod's node affinity/selector")))),
    "S5 tainted": ("Admitted", lambda it: it.node("n", labels={"gpu": "t4"}, taints=(taint("x"),)).pods(homeless(answer("4 node(s) had untolerated taint(s)")))),
    "S6": ("Admitted", lambda it: it.node("n", unschedulable=True).pods(homeless(answer("4 node(s) were unschedulable")))),
    "S6 among others": (
        "Admitted",
        lambda it: it.node("n", unschedulable=True, taints=(CORDON,)).node("cpu", labels={}).node("other", taints=(taint("dedicated"),), labels={})
        .pods(homeless(answer("1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable"))),
    ),
    "S6 and labels": (
        "Admitted",
        lambda it: it.node("n", unschedulable=True, taints=(CORDON,)).node("cpu", labels={}).pods(homeless(answer("3 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable"))),
    ),
    "S7": ("Admitted", lambda it: it.pods(mounting("0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: not eligible due to preemptionPolicy=Never."))),
    "S7 absent": ("Admitted", lambda it: it.pods(mounting('0/4 nodes are available: persistentvolumeclaim "data" not found.'))),
    "S7 deleted": ("Admitted", lambda it: it.pods(mounting('0/4 nodes are available: persistentvolumeclaim "data" is being deleted.'))),
    "S8": ("Admitted", lambda it: it.pods(mounting(answer("2 Insufficient cpu, 2 node(s) didn't match PersistentVolume's node affinity")))),
    "S8 older": ("Admitted", lambda it: it.pods(mounting(answer("4 node(s) had volume node affinity conflict")))),
    "S8 zone": ("Admitted", lambda it: it.pods(mounting(answer("4 node(s) had no available volume zone")))),
    "S9": ("Admitted", lambda it: it.pods(mounting(answer("4 node(s) exceed max volume count")))),
    "S9 in use": ("Admitted", lambda it: it.pods(mounting(answer("4 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")))),
    "S9 storage": ("Admitted", lambda it: it.pods(mounting(answer("4 node(s) did not have enough free storage")))),
    "S10": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) didn't match pod topology spread constraints")))),
    "S10 ports": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) didn't have free ports for the requested pod ports")))),
    "S10 affinity": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) didn't match pod affinity rules")))),
    "S10 apart": ("Admitted", lambda it: it.pods(homeless(answer("4 node(s) didn't match pod anti-affinity rules")))),
    "S11": ("Admitted", lambda it: it.pods(homeless(answer("4 cannot allocate all claims")))),
    "S11 class": ("Admitted", lambda it: it.pods(homeless("0/4 nodes are available: request gpu: device class x.example does not exist."))),
    "S11 claims": ("Admitted", lambda it: it.pods(homeless("0/4 nodes are available: resource claim gpus is in the process of being allocated."))),
    "S11 nodes": ("Admitted", lambda it: it.pods(homeless(answer("4 resourceclaim not available on the node")))),
    "S12": ("Admitted", lambda it: it.pods(homeless("waiting for scheduling gates: [kueue.x-k8s.io/admission]", reason="SchedulingGated"))),
    "S13": ("Admitted", lambda it: it.pods(nobody_looks())),
    "S14": ("Admitted", lambda it: it.pods(homeless("running Bind plugin: timed out", reason="SchedulerError"))),
    "S15": ("Admitted", lambda it: it.pods(homeless("")).said("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")),
    "S15 karpenter": (
        "Admitted",
        lambda it: it.pods(homeless("")).said("FailedScheduling", "no instance type satisfied resources", source={"component": "karpenter"}),
    ),
    "S16": ("Admitted", lambda it: it.pods(nominated())),
    "S17": ("Admitted", lambda it: it.pods(homeless("3/4 tasks in gang unschedulable: pod group is not ready, 1 Pending"))),
    "S17 coscheduling": ("Admitted", lambda it: it.pods(homeless("waiting for minCount pods from a gang to be scheduled: 2 of 4"))),
    "S17 group": (
        "Admitted",
        lambda it: it.conditions("PodGroup", ("Unschedulable", "True", "NotEnoughResources", "3/4 tasks in gang unschedulable")).pods(homeless("")),
    ),
    "F1": (
        "Admitted",
        lambda it: it.object("Job").said(
            "FailedCreate", 'Error creating: pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=6, limited: requests.nvidia.com/gpu=8', kind="Job", name="a-1"
        ),
    ),
    "F2": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: pods "a" is forbidden: failed quota: q: must specify limits.cpu for: main', kind="Job", name="a-1")),
    "F3": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: pods "a" is forbidden: maximum memory usage per Container is 8Gi, but limit is 16Gi', kind="Job", name="a-1")),
    "F4": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true', kind="Job", name="a-1")),
    "F5": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: admission webhook "w.example" denied the request: no', kind="Job", name="a-1")),
    "F5 priority": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: pods "a" is forbidden: no PriorityClass with name high was found', kind="Job", name="a-1")),
    "F5 account": ("Admitted", lambda it: it.object("Job").said("FailedCreate", 'Error creating: pods "a" is forbidden: error looking up service account team-vision/x: serviceaccount "x" not found', kind="Job", name="a-1")),
    "F4 operator": ("Admitted", lambda it: it.object("PyTorchJob").said("FailedCreatePod", 'Error creating: pods "a" is forbidden: violates PodSecurity "restricted:latest"', kind="PyTorchJob", name="a-1")),
    "C1": ("Starting", lambda it: it.pods(pending(waiting("ImagePullBackOff", 'Back-off pulling image "ghcr.io/x:1"'))).said("Failed", 'Failed to pull image "ghcr.io/x:1": manifest unknown')),
    "C1 account": ("Starting", lambda it: it.pods(pending(waiting("ErrImagePull", "failed to authorize: 401 Unauthorized")))),
    "C1 limit": ("Starting", lambda it: it.pods(pending(waiting("ErrImagePull", "toomanyrequests: You have reached your pull rate limit")))),
    "C1 network": ("Starting", lambda it: it.pods(pending(waiting("ErrImagePull", "dial tcp: lookup ghcr.io: no such host")))),
    "C1 processor": ("Starting", lambda it: it.pods(pending(waiting("ErrImagePull", "no match for platform in manifest")))),
    "C2": ("Starting", lambda it: it.pods(pending(waiting("InvalidImageName", "couldn't parse image name")))),
    "C2 policy": ("Starting", lambda it: it.pods(pending(waiting("ErrImageNeverPull", "as it says")))),
    "C2 inspect": ("Starting", lambda it: it.pods(pending(waiting("ImageInspectError", "as it says")))),
    "C2 signature": ("Starting", lambda it: it.pods(pending(waiting("SignatureValidationFailed", "as it says")))),
    "C3": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerConfigError", NO_SECRET)))),
    "C3 config map": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerConfigError", 'configmap "conf" not found')))),
    "C3 key": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerConfigError", "couldn't find key token in Secret team-vision/hf")))),
    "C3 root": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")))),
    "C3 user": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerConfigError", "container has runAsNonRoot and image has non-numeric user (nobody)")))),
    "C4": ("Starting", lambda it: it.pods(pending(waiting("RunContainerError", 'exec: "trian": executable file not found in $PATH')))),
    "C4 ended": ("Failed", lambda it: it.pods(failed(128, "StartError", "failed to create containerd task: unresolvable CDI devices nvidia.com/gpu=0"))),
    "C4 create": ("Starting", lambda it: it.pods(pending(waiting("CreateContainerError", "context deadline exceeded")))),
    "C4 runtime": ("Starting", lambda it: it.pods(pending(waiting("RunContainerError", "failed to create shim task: nvidia-container-cli: initialization error")))),
    "C4 cannot run": ("Failed", lambda it: it.pods(failed(127, "ContainerCannotRun", "no such file or directory"))),
    "C5": ("Starting", lambda it: it.pods(looping(1))),
    "C6": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("FailedCreatePodSandBox", "failed to assign an IP address to container")),
    "C6 not ready": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("NetworkNotReady", "network is not ready: cni plugin not initialized")),
    "C7": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("FailedMount", 'MountVolume.SetUp failed for volume "v": configmap "conf" not found')),
    "C7 held": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("FailedAttachVolume", "Multi-Attach error for volume pvc-1")),
    "C7 slow": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition")),
    "C9": ("Starting", lambda it: it.pods(pending(waiting("ContainerCreating"))).said("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: no driver")),
    "C10": (
        "Starting",
        lambda it: it.pods(looping(137)).said("Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503", count=12).said("Killing", "Container main failed startup probe, will be restarted"),
    ),
    "C10 liveness": (
        "Running",
        lambda it: it.pods(looping(143)).said("Unhealthy", "Liveness probe failed: context deadline exceeded", count=3).said("Killing", "Container main failed liveness probe, will be restarted"),
    ),
    "T1": ("Failed", lambda it: it.pods(failed(137, "OOMKilled"))),
    "T1 looping": ("Starting", lambda it: it.pods(looping(137, reason="OOMKilled"))),
    "T2": ("Failed", lambda it: it.pods(failed(137))),
    "T3": ("Failed", lambda it: it.pods(failed(143))),
    "T3 interrupt": ("Failed", lambda it: it.pods(failed(130))),
    "T4": ("Failed", lambda it: it.pods(failed(139))),
    "T4 bus": ("Failed", lambda it: it.pods(failed(135)).wrote("DataLoader worker is killed by signal: Bus error. insufficient shared memory (shm)")),
    "T4 abort": ("Failed", lambda it: it.pods(failed(134))),
    "T5": ("Failed", lambda it: it.pods(failed(1)).wrote("step 4", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")),
    "T5 last words": ("Failed", lambda it: it.pods(failed(1, message="RuntimeError: CUDA out of memory."))),
    "T6": ("Failed", lambda it: it.pods(failed(1)).wrote("CUDA error: no kernel image is available for execution on the device")),
    "T6 old": ("Failed", lambda it: it.pods(failed(1)).wrote("CUDA error: CUDA driver version is insufficient for CUDA runtime version")),
    "T6 no device": ("Failed", lambda it: it.pods(failed(1)).wrote("RuntimeError: CUDA_ERROR_NO_DEVICE")),
    "T6 nvml": ("Failed", lambda it: it.pods(failed(1)).wrote("Failed to initialize NVML: Unknown Error")),
    "T7": ("Failed", lambda it: it.pods(failed(1)).wrote("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)")),
    "T7 nccl": ("Failed", lambda it: it.pods(failed(1)).wrote("NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error")),
    "T7 refused": ("Failed", lambda it: it.pods(failed(1)).wrote("[c10d] The client socket has failed to connect to (a-1-master-0, 29500): Connection refused, MASTER_ADDR=a-1-master-0")),
    "T7 in use": ("Failed", lambda it: it.pods(failed(1)).wrote("RuntimeError: The server socket has failed to bind to [::]:29500: Address already in use")),
    "T8": ("Failed", lambda it: it.pods(failed(127))),
    "T8 not executable": ("Failed", lambda it: it.pods(failed(126))),
    "P1": ("Failed", lambda it: it.pods(status("Evicted", "The node was low on resource: ephemeral-storage."))),
    "P1 own": ("Failed", lambda it: it.pods(status("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."))),
    "P1 container": ("Failed", lambda it: it.pods(status("Evicted", 'Container main exceeded its local ephemeral storage limit "1Gi".'))),
    "P1 volume": ("Failed", lambda it: it.pods(status("Evicted", 'Usage of EmptyDir volume "dshm" exceeds the limit "1Gi".'))),
    "P1 disk": ("Failed", lambda it: it.pods(status("Evicted", "The node had condition: [DiskPressure]."))),
    "P2": ("Queued", lambda it: it.pods(status("Terminated", "Pod was terminated in response to imminent node shutdown."))),
    "P2 refused": ("Queued", lambda it: it.pods(status("NodeShutdown", "Pod was rejected as the node is shutting down."))),
    "P3": ("Failed", lambda it: it.pods(status("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu"))),
    "P3 cpu": ("Failed", lambda it: it.pods(status("OutOfcpu", "Node didn't have enough resource: cpu"))),
    "P3 devices": ("Failed", lambda it: it.pods(status("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no healthy devices present"))),
    "P4": ("Failed", lambda it: it.pods(status("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"))),
    "P5": ("Failed", lambda it: it.pods(status("Preempting", "Preempted in order to admit critical pod"))),
    "P6": ("Running", lambda it: it.pods(lost())),
    "P6 gone": ("Failed", lambda it: it.pods(status("NodeLost", "Node a100-0 which was running pod a-1-x7k2p is unresponsive"))),
    "D1": ("Queued", lambda it: it.pods(disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"))),
    "D2": ("Queued", lambda it: it.pods(disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"))),
    "D3": ("Queued", lambda it: it.pods(disrupted("EvictionByEvictionAPI", "Eviction API: evicting"))),
    "D4": ("Queued", lambda it: it.pods(disrupted("DeletionByPodGC", "PodGC: node no longer exists"))),
    "D5": ("Queued", lambda it: it.pods(disrupted("TerminationByKubelet"))),
    "P1 by kubelet": ("Queued", lambda it: it.pods(evicted_by_kubelet())),
    "D6": ("Queued", lambda it: it.pods(disrupted("DeletionByDeviceTaintManager"))),
    "J1": ("Failed", lambda it: it.conditions("Job", ("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))),
    "J1 PodFailurePolicy": ("Failed", lambda it: it.conditions("Job", ("Failed", "True", "PodFailurePolicy", "Container main for pod team-vision/a-1-x7k2p failed with exit code 42 matching FailJob rule at index 0"))),
    "J1 DeadlineExceeded": ("Failed", lambda it: it.conditions("Job", ("Failed", "True", "DeadlineExceeded", "Job was active longer than specified deadline"))),
    "J1 FailedIndexes": ("Failed", lambda it: it.conditions("Job", ("Failed", "True", "FailedIndexes", "Job has failed indexes"))),
    "J2": ("Starting", lambda it: it.conditions("PyTorchJob", ("Restarting", "True", "PyTorchJobRestarting", "1 Worker replica(s) failed"))),
    "J2 TFJob": ("Starting", lambda it: it.conditions("TFJob", ("Restarting", "True", "TFJobRestarting", "1 Worker replica(s) failed"))),
    "J3": ("Starting", lambda it: it.pods(master(), init_waits())),
    "K1": ("Running", lambda it: it.conditions("ScaledObject", ("Ready", "False", "TriggerError", "error: dial tcp: i/o timeout"))),
    "K1 health": ("Running", lambda it: it.object("ScaledObject", status={"health": {"s0-prometheus": {"status": "Failing", "numberOfFailures": 4}}}).said("KEDAScalerFailed", "prometheus query returned multiple elements", kind="ScaledObject", name="a-1")),
    "K1 autoscaler": ("Running", lambda it: it.conditions("HorizontalPodAutoscaler", ("ScalingActive", "False", "FailedGetExternalMetric", "unable to get external metric"))),
    "K2": ("Running", lambda it: it.conditions("ScaledObject", ("HPAActive", "False", "HPAMetricsUnavailable", "no matches for external.metrics.k8s.io"))),
    "K2 cpu": ("Running", lambda it: it.conditions("HorizontalPodAutoscaler", ("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics for resource cpu"))),
    "K3": ("Starting", lambda it: it.conditions("Deployment", ("Progressing", "False", "ProgressDeadlineExceeded", "timed out progressing"))),
    "G1": ("Starting", lambda it: it.node("a100-0", gpus=7, has=8).pods(pending(waiting("ContainerCreating"), reason="x"))),
    "G1 XID": ("Starting", lambda it: it.node("a100-0").pods(pending(waiting("ContainerCreating"), reason="x")).said("XidCriticalError", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", kind="Node", name="a100-0", uid="a100-0")),
    "G2": ("Starting", lambda it: it.node("a100-0", gpus=None, labels={"nvidia.com/gpu.present": "true", "nvidia.com/mig.config.state": "failed"}).pods(pending(waiting("ContainerCreating"), reason="x"))),
    "G2 pending": ("Starting", lambda it: it.node("a100-0", gpus=None, labels={"nvidia.com/mig.config.state": "pending"}).pods(pending(waiting("ContainerCreating"), reason="x"))),
    "U1": ("Stopping", lambda it: it.pods(stuck())),
    "U1 told to stop": ("Stopping", lambda it: it.pods(stuck(ended(143)))),
    "T1 again and again": ("Running", lambda it: it.pods(up_again(4))),
    "A1": ("Failed", lambda it: it.pods(failed(3)).wrote("Traceback (most recent call last):", "ValueError: lr must be positive")),
    "A2": ("Failed", lambda it: it),
}  # fmt: skip
ENDPOINTS = frozenset({"K1", "K2", "K3", "C10"})
"""Rows of endpoints; all others are planted of runs."""


def kind_of(name: str) -> str:
    return "endpoint" if name.split(maxsplit=1)[0] in ENDPOINTS else "training-run"


def plant_in(workloads: Mapping[str, Workload], name: str) -> Planted:
    """The row, planted in the workload of its kind."""
    phase, plant = ROWS[name]
    return plant(Planted(put_in(workloads[kind_of(name)], Phase(phase), since=NOW, **values_of(name))))


def values_of(name: str) -> dict[str, str]:
    """What the portal's own row says besides its phase."""
    return {"message": "It reached its time limit.", "reason": "DeadlineExceeded"} if name == "A2" else {}


BY_ROWS_ALONE = {
    "J2 TFJob": "devcluster serves no TFJob",
    "K1": "KEDA writes it over",
    "K1 health": "KEDA writes it over",
    "K2": "KEDA writes it over",
    "K3": "the Deployment's controller writes it over",
    "S17 group": "devcluster serves no PodGroup",
    "T1 again and again": "it tells of the last ten minutes, by times of its own",
}
"""Rows that stay what is written into rows (`test_rule_table.py`), and why."""
