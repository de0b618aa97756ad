"""Validation of pod specs, with the wording of the real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .errors import Fault, duplicate, not_implemented, required, unsupported, wrong
from .objects import Obj, quantity

LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_1123_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
ENV_NAME = re.compile(r"[^=\x00-\x1f\x7f-\U0010ffff]+")
ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
VOLUMES = {"name", "configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI"}
_MUST_MATCH_LIMIT = "must be equal to {key} limit of {limit}"


def label(value: Any, field: str) -> Iterator[Fault]:
    """A DNS label."""
    if not isinstance(value, str) or not LABEL_1123.fullmatch(value):
        yield wrong(field, value, LABEL_1123_TEXT)
    elif len(value) > 63:
        yield wrong(field, value, "must be no more than 63 bytes")


def pod_spec(
    spec: Obj, field: str, policies: tuple[str, ...] = ("Always", "OnFailure", "Never")
) -> Iterator[Fault]:
    volumes = yield from _volumes(spec.get("volumes") or (), f"{field}.volumes")
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{field}.containers")
    seen: set[str] = set()
    for list_name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            where = f"{field}.{list_name}[{index}]"
            yield from _container(container, where, volumes)
            if container.get("name") in seen:
                yield duplicate(f"{where}.name", container["name"])
            seen.add(container.get("name", ""))
    if spec.get("restartPolicy") not in policies and policies[0] == "Always":
        yield unsupported(f"{field}.restartPolicy", spec.get("restartPolicy"), policies)
    if spec.get("hostNetwork") or spec.get("hostPID") or spec.get("hostIPC"):
        raise not_implemented(f"host namespaces ({field})")
    if "activeDeadlineSeconds" in spec:
        raise not_implemented(f"{field}.activeDeadlineSeconds of a pod (a Job's own works)")
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield wrong(
            f"{field}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], NOT_NEGATIVE
        )
    yield from _tolerations(spec.get("tolerations") or (), f"{field}.tolerations")


NOT_NEGATIVE = "must be greater than or equal to 0"


def _volumes(volumes: Any, field: str) -> Any:
    """Yields faults and returns the names."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{field}[{index}]"
        other = sorted(set(volume) - VOLUMES)
        if other:
            raise not_implemented(f"the volume source {other[0]} ({where}.{other[0]})")
        if not volume.get("name"):
            yield required(f"{where}.name")
        else:
            yield from label(volume["name"], f"{where}.name")
        if volume.get("name") in names:
            yield duplicate(f"{where}.name", volume["name"])
        if len(set(volume) - {"name"}) > 1:
            yield Fault(where, "FieldValueForbidden", "Forbidden: may not specify more than 1 volume type")
        if "persistentVolumeClaim" in volume and not volume["persistentVolumeClaim"].get("claimName"):
            yield required(f"{where}.persistentVolumeClaim.claimName")
        names.add(volume.get("name", ""))
    return names


def _container(container: Obj, field: str, volumes: set[str]) -> Iterator[Fault]:
    if not container.get("name"):
        yield required(f"{field}.name")
    else:
        yield from label(container["name"], f"{field}.name")
    if not container.get("image"):
        yield required(f"{field}.image")
    yield from _ports(container.get("ports") or (), f"{field}.ports")
    yield from _environment(container.get("env") or (), f"{field}.env")
    yield from _mounts(container.get("volumeMounts") or (), f"{field}.volumeMounts", volumes)
    if "restartPolicy" in container:
        raise not_implemented(f"{field}.restartPolicy (sidecars)")
    hooks = container.get("lifecycle") or {}
    if "postStart" in hooks or set(hooks.get("preStop") or ()) - {"exec", "sleep"}:
        raise not_implemented(f"{field}.lifecycle but preStop.exec and preStop.sleep")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            yield from _probe(container[probe], f"{field}.{probe}")
    yield from resources(container.get("resources") or {}, f"{field}.resources")


def _ports(ports: Any, field: str) -> Iterator[Fault]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        number, name = port.get("containerPort"), port.get("name")
        if not number:
            yield required(f"{field}[{index}].containerPort")
        elif not 0 < number < 65536:
            yield wrong(f"{field}[{index}].containerPort", number, "must be between 1 and 65535, inclusive")
        if port.get("hostPort"):
            raise not_implemented(f"{field}[{index}].hostPort")
        if name and name in names:
            yield duplicate(f"{field}[{index}].name", name)
        names.add(name)


def _environment(env: Any, field: str) -> Iterator[Fault]:
    for index, variable in enumerate(env):
        name = variable.get("name", "")
        if not name:
            yield required(f"{field}[{index}].name")
        elif not ENV_NAME.fullmatch(name):
            yield wrong(f"{field}[{index}].name", name, ENV_TEXT)
        if variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            yield wrong(f"{field}[{index}].valueFrom", "", detail)


def _mounts(mounts: Any, field: str, volumes: set[str]) -> Iterator[Fault]:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        if mount.get("name") not in volumes:
            text = f'Not found: "{mount.get("name", "")}"'
            yield Fault(f"{field}[{index}].name", "FieldValueNotFound", text)
        if not mount.get("mountPath"):
            yield required(f"{field}[{index}].mountPath")
        elif mount["mountPath"] in paths:
            yield wrong(f"{field}[{index}].mountPath", mount["mountPath"], "must be unique")
        paths.add(mount.get("mountPath", ""))


def _probe(probe: Obj, field: str) -> Iterator[Fault]:
    handlers = [h for h in ("exec", "httpGet", "tcpSocket", "grpc") if h in probe]
    if not handlers:
        yield required(field, "must specify a handler type")
    if "grpc" in handlers:
        raise not_implemented(f"{field}.grpc")
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"):
        if probe.get(name, 1) < 0:
            yield wrong(f"{field}.{name}", probe[name], NOT_NEGATIVE)


def resources(block: Obj, field: str) -> Iterator[Fault]:
    limits, requests = block.get("limits") or {}, block.get("requests") or {}
    bad = False
    for part, values in (("limits", limits), ("requests", requests)):
        for key, value in values.items():
            faults = list(_amount(key, value, f"{field}.{part}"))
            bad = bad or bool(faults)
            yield from faults
    if bad:
        return
    for key, value in requests.items():
        if extended(key) and key not in limits:
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif key in limits and extended(key) and quantity(value) != quantity(limits[key]):
            text = _MUST_MATCH_LIMIT.format(key=key, limit=limits[key])
            yield wrong(f"{field}.requests", value, text)
        elif key in limits and quantity(value) > quantity(limits[key]):
            text = f"must be less than or equal to {key} limit of {limits[key]}"
            yield wrong(f"{field}.requests", value, text)


def extended(key: str) -> bool:
    return "/" in key and not key.startswith(("kubernetes.io/", "requests."))


def _amount(key: str, value: Any, field: str) -> Iterator[Fault]:
    try:
        amount = quantity(value)
    except ValueError:
        yield wrong(f"{field}.{key}", value, QUANTITY_TEXT)
        return
    if (
        "/" not in key
        and key not in {"cpu", "memory", "ephemeral-storage"}
        and not key.startswith("hugepages-")
    ):
        detail = "must be a standard resource type or fully qualified"
        yield wrong(f"{field}[{key}]", key, detail)
    if amount < 0:
        yield wrong(f"{field}[{key}]", value, NOT_NEGATIVE)
    if extended(key) and amount.denominator != 1:
        yield wrong(f"{field}[{key}]", value, "must be an integer")


def _tolerations(tolerations: Any, field: str) -> Iterator[Fault]:
    for index, toleration in enumerate(tolerations):
        operator = toleration.get("operator", "Equal")
        if operator not in {"Equal", "Exists"}:
            yield unsupported(f"{field}[{index}].operator", operator, ("Equal", "Exists"))
        if not toleration.get("key") and operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield wrong(f"{field}[{index}].operator", operator, detail)
