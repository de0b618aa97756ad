"""Series of cards that do not exist, as DCGM's exporter would write them: derived from what the pods' processes really use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from devcluster.kinds import NODE, POD
from devcluster.kubelet.usage import Usage
from devcluster.objects import Obj, labels_of, name_of, namespace_of, phase_of, quantity
from devcluster.store import Store

from .scrape import Sample, Target
from .storage import NAME

LABELS = (
    ("container", "simulated"), ("instance", "simulated"), ("job", "dcgm-exporter"),
    ("namespace", "gpu-operator"), ("pod", "dcgm-exporter-simulated"),
)  # fmt: skip
_PREFIX = "nvidia.com/"

Use = Callable[[Obj, str], Usage | None]


def target(store: Store, use: Use) -> Target:
    return Target(
        "simulated", LABELS, lambda: (s for pod in store.list(POD) for s in _of_pod(store, pod, use))
    )


def _of_pod(store: Store, pod: Obj, use: Use) -> Iterator[Sample]:
    if phase_of(pod) != "Running":
        return
    node = store.get(NODE, "", pod["spec"].get("nodeName", ""))
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        usage = use(pod, container["name"])
        for resource, amount in limits.items():
            if not resource.startswith(_PREFIX) or usage is None or node is None:
                continue
            for index in range(int(quantity(amount))):
                labels = _labels(pod, node, container["name"], resource, index)
                yield from _of_card(labels, usage, container, node)


def _labels(pod: Obj, node: Obj, container: str, resource: str, index: int) -> dict[str, str]:
    profile = resource.removeprefix(f"{_PREFIX}mig-") if "mig-" in resource else ""
    number = f"{pod['metadata']['uid'][:8]}-{index}"
    labels = {
        "gpu": str(index), "UUID": f"simulated-{number}", "device": f"nvidia{index}",
        "modelName": labels_of(node).get(f"{_PREFIX}gpu.product", "simulated"), "Hostname": name_of(node),
        "container": container, "namespace": namespace_of(pod), "pod": name_of(pod),
    }  # fmt: skip
    return labels | ({"GPU_I_PROFILE": profile, "GPU_I_ID": str(index)} if profile else {})


def _of_card(labels: dict[str, str], usage: Usage, container: Obj, node: Obj) -> Iterator[Sample]:
    """The CPU use of the pod's processes as a share of what the pod asked for, and their resident memory in MiB."""
    asked = ((container.get("resources") or {}).get("requests") or {}).get("cpu", "1")
    share = min(1.0, usage.cores / max(float(quantity(asked)), 0.001))
    whole, used = float(labels_of(node).get(f"{_PREFIX}gpu.memory", "0")), usage.resident / (1 << 20)
    values = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(share, 4),
        "DCGM_FI_DEV_FB_USED": round(min(used, whole or used)),
    }
    if "GPU_I_PROFILE" not in labels:
        # DCGM has no such value for a slice of a card.
        values["DCGM_FI_DEV_GPU_UTIL"] = round(share * 100)
    if whole:
        values["DCGM_FI_DEV_FB_FREE"] = round(whole - min(used, whole))
    yield from (({NAME: name, **labels}, float(value), None) for name, value in values.items())
