"""Effective resource requests of a pod, by Kubernetes' rule, and a node's resources besides GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cluster import quantities

GPU_PREFIXES = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
OTHERS = (CPU, MEMORY, STORAGE, PODS)
"""What every node has, in the order in which it is counted everywhere: millicores, bytes, bytes, pods."""

_BINARY = ("", "Ki", "Mi", "Gi")

Others = tuple[int | None, ...]
"""An amount of each of OTHERS; None for an unknown one. Empty if all are unknown."""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A number of equal pods, and what each asks for of the first three of OTHERS.

    `within` is how the names of its fields begin in the request: `roles.0.`, or nothing for the request itself.
    """

    pods: int
    beside: tuple[int, ...]
    within: str = ""


def together(groups: Iterable[PodGroup]) -> tuple[int, ...]:
    """What all these pods ask for of each of OTHERS."""
    total = [0] * len(OTHERS)
    for group in groups:
        for number, amount in enumerate((*group.beside, 1)):
            total[number] += amount * group.pods
    return tuple(total)


@lru_cache(maxsize=8192)
def units_of(name: str, quantity: str) -> int:
    """A quantity in whole units, rounded up as the scheduler does: CPU in millicores, memory and storage in bytes."""
    value = quantities.parse(quantity)
    return int((value * 1000 if name == CPU else value).to_integral_value(rounding="ROUND_CEILING"))


def others_offered(quantities_of_node: Mapping[str, Any]) -> Others:
    """What a node offers of OTHERS, by its allocatable quantities."""
    texts = ((name, quantities_of_node.get(name)) for name in OTHERS)
    return tuple(None if text is None else units_of(name, str(text)) for name, text in texts)


def beside_of(cpu: str, memory: str, storage: str) -> tuple[int, int, int]:
    """What a pod asks for of the first three of OTHERS, by its quantities."""
    return units_of(CPU, cpu), units_of(MEMORY, memory), units_of(STORAGE, storage)


def quantity_of(name: str, units: int) -> str:
    """As a quantity that people write: the largest unit that says it exactly."""
    if name == CPU:
        return f"{units}m" if units % 1000 else str(units // 1000)
    if name == PODS or not units:
        return str(units)
    power = next(power for power in (3, 2, 1, 0) if units % 1024**power == 0)
    return f"{units // 1024**power}{_BINARY[power]}"


def count_of(name: str, units: int) -> str:
    """The exact amount as people count it: CPU in cores (`3.6`), the others as `quantity_of`."""
    return f"{units / 1000:.3f}".rstrip("0").rstrip(".") if name == CPU else quantity_of(name, units)


def said_of(name: str, units: int) -> str:
    """The exact amount with what it is of: `3.6 cores`, `8Gi of memory`, `2 pods`."""
    plural = "" if units == (1000 if name == CPU else 1) else "s"
    called = {
        CPU: f"core{plural}",
        PODS: f"pod{plural}",
        MEMORY: "of memory",
        STORAGE: "of ephemeral storage",
    }
    return f"{count_of(name, units)} {called[name]}"


def told_of(name: str, units: int) -> str:
    """What is left, never more than there is, as people read it: to a tenth of what they count in."""
    if name == CPU:
        return _tenths(units, 1000)
    if name == PODS or units < 1024**2:
        return str(units)
    power = 3 if units >= 1024**3 else 2
    return f"{_tenths(units, 1024**power)}{_BINARY[power]}"


def _tenths(units: int, size: int) -> str:
    whole, tenths = divmod(units * 10 // size, 10)
    return f"{whole}.{tenths}" if tenths else str(whole)


def others_left(offered: Others, taken: Sequence[int] | None) -> Others:
    """The remaining amounts; negative if more was taken than there is."""
    if not taken:
        return offered
    return tuple(
        None if amount is None else amount - less for amount, less in zip(offered, taken, strict=False)
    )


def has_beside(left: Others, beside: Others) -> bool:
    """Whether enough is left for one more pod, and a place for it; unknown amounts count as enough."""
    wanted = (*beside, *(0,) * (len(OTHERS) - 1 - len(beside)), 1)
    return all(have is None or have >= (want or 0) for have, want in zip(left, wanted, strict=False))


def gpu_units(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    """Whole units of GPU resources among these amounts, by resource name."""
    named = (amounts or {}).items()
    return {name: int(quantities.parse(value)) for name, value in named if name.startswith(GPU_PREFIXES)}


def gpus_of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """GPU units for which the scheduler sets room aside."""
    return {name: units for name, units in requests_of_pod(spec).items() if name.startswith(GPU_PREFIXES)}


def others_of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """Millicores of CPU, bytes of memory and of ephemeral storage for which the scheduler sets room aside."""
    requests = requests_of_pod(spec)
    return {name: requests[name] for name in (CPU, MEMORY, STORAGE) if name in requests}


def requests_of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """What a pod takes of a node: containers and sidecars together, or the largest init container with the sidecars
    that were started before it; what the pod asks for as a whole instead, where it does; its overhead on top.
    """
    together = [_requests(container) for container in spec.get("containers") or []]
    sidecars: list[Mapping[str, int]] = []
    peaks: list[dict[str, int]] = []
    for container in spec.get("initContainers") or []:
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.append(own)
        peaks.append(_sum([own, *sidecars] if container.get("restartPolicy") != "Always" else sidecars))
    peaks.append(_sum([*together, *sidecars]))
    names = {name for peak in peaks for name in peak}
    most = {name: max(peak.get(name, 0) for peak in peaks) for name in sorted(names)}
    requests = _sum([most | _requests(spec), _counted(spec.get("overhead"))])
    return {name: units for name, units in requests.items() if units > 0}


def _requests(asker: Mapping[str, Any]) -> dict[str, int]:
    """Of a container, or of a pod that asks as a whole."""
    resources = asker.get("resources") or {}
    # A limit alone is a request.
    return _counted(resources.get("limits")) | _counted(resources.get("requests"))


def _counted(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    named = ((name, value) for name, value in (amounts or {}).items() if name != PODS)
    return {
        name: units_of(name, str(value))
        for name, value in named
        if name in OTHERS or name.startswith(GPU_PREFIXES)
    }


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, units in part.items():
            total[name] = total.get(name, 0) + units
    return total
