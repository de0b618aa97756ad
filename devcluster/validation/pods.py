"""What the API server asks of a pod's spec over several of its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devcluster.errors import Fault, forbidden_field, required, wrong
from devcluster.objects import Obj, containers_of, quantity

from .formats import amount, label_key, label_value

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MOST_VALUES = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def labels(values: dict[str, str] | None, field: str) -> Iterator[Fault]:
    for key, value in (values or {}).items():
        yield from (
            wrong(field, text, why)
            for text, why in ((key, label_key(key)), (value, label_value(value)))
            if why
        )


def pod_spec(spec: Obj, field: str) -> Iterator[Fault]:
    volumes = spec.get("volumes") or []
    for index, volume in enumerate(volumes):
        if len(volume) > 2:
            yield forbidden_field(f"{field}.volumes[{index}]", "may not specify more than 1 volume type")
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield from _container(
                container, f"{field}.{part}[{index}]", {volume.get("name") for volume in volumes}
            )
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        operator = toleration.get("operator", "Equal")
        if not toleration.get("key") and operator != "Exists":
            yield wrong(f"{field}.tolerations[{index}].operator", operator, _MOST_VALUES)


def template(spec: Obj, *policies: str) -> Iterator[Fault]:
    """The faults of a workload whose pods may be restarted by one of the `policies`."""
    made = spec["template"]
    yield from labels((made.get("metadata") or {}).get("labels"), "spec.template.labels")
    yield from pod_spec(made["spec"], "spec.template.spec")
    if made["spec"]["restartPolicy"] not in policies:
        listed = ", ".join(f'"{policy}"' for policy in policies)
        text = f"Required value: valid values: {listed}"
        yield Fault("spec.template.spec.restartPolicy", "FieldValueRequired", text)


def _container(container: Obj, field: str, volumes: set[str]) -> Iterator[Fault]:
    for index, variable in enumerate(container.get("env") or ()):
        if variable.get("value") and variable.get("valueFrom"):
            yield wrong(
                f"{field}.env[{index}].valueFrom", "", "may not be specified when `value` is not empty"
            )
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in volumes:
            text = f'Not found: "{mount.get("name", "")}"'
            yield Fault(f"{field}.volumeMounts[{index}].name", "FieldValueNotFound", text)
    yield from _resources(container.get("resources") or {}, f"{field}.resources")


def _resources(block: Obj, field: str) -> Iterator[Fault]:
    limits, requests = block.get("limits") or {}, block.get("requests") or {}
    faults = [
        *_amounts(limits, f"{field}.limits"), *_amounts(requests, f"{field}.requests"),
    ]  # fmt: skip
    yield from faults
    for key, value in () if faults else requests.items():
        if extended(key) and key not in limits:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif key in limits and extended(key) and quantity(value) != quantity(limits[key]):
            yield wrong(f"{field}.requests", value, f"must be equal to {key} limit of {limits[key]}")
        elif key in limits and quantity(value) > quantity(limits[key]):
            yield wrong(
                f"{field}.requests", value, f"must be less than or equal to {key} limit of {limits[key]}"
            )


def _amounts(values: Obj, field: str) -> Iterator[Fault]:
    for key, value in values.items():
        if "/" not in key and key not in _COMPUTE and not key.startswith("hugepages-"):
            yield wrong(f"{field}[{key}]", key, "must be a standard resource type or fully qualified")
        yield from counted(key, value, f"{field}[{key}]")


def extended(key: str) -> bool:
    return "/" in key and not key.startswith(("kubernetes.io/", "requests."))


def counted(key: str, value: Any, field: str) -> Iterator[Fault]:
    """An amount, whole where it counts devices."""
    why = amount(value)
    if not why and extended(key) and quantity(value).denominator != 1:
        why = "must be an integer"
    if why:
        yield wrong(field, value, why)


def container_names(spec: Obj) -> set[str]:
    return {str(container.get("name")) for container in containers_of(spec)}
