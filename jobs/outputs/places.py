"""Where an output lies once its pods are gone, and the commands that fetch it. Pure."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from workloads.podspec.grammar import is_inside
from workloads.podspec.specs import Volume

IMAGE: Final = "busybox:1.37"
"""Has `tar`, which `kubectl cp` needs in the pod."""
_FOLDER: Final = "/claim"
_SECONDS: Final = 900
"""How long the pod that fetches stays when nobody deletes it."""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """`inside` a claim of the team, which the run has mounted at `mount`."""

    claim: str
    mount: str
    inside: str
    """From the claim's own root, without a slash before it; empty for all of it."""


def place_of(path: str, volumes: Sequence[Volume]) -> OutputPlace | None:
    """The claim that holds the path; None where it lies in the pod alone, and goes with it."""
    around = [volume for volume in volumes if is_inside(path, volume.path)]
    nearest = max(around, key=lambda volume: len(volume.path), default=None)
    if nearest is None:
        return None
    return OutputPlace(nearest.claim, nearest.path, path.removeprefix(nearest.path).lstrip("/"))


def fetched_from_claim(place: OutputPlace, *, namespace: str, name: str) -> str:
    """Commands, a line each, for who may make pods in the namespace; they need none of the run's own."""
    pod = fetching_pod(place.claim, name=name)
    source = posixpath.join(_FOLDER, place.inside) if place.inside else f"{_FOLDER}/."
    target = posixpath.basename(place.inside) or place.claim
    at = f"-n {shlex.quote(namespace)}"
    return "\n".join(
        (
            f"echo {shlex.quote(json.dumps(pod, separators=(',', ':')))} | kubectl create {at} -f -",
            f"kubectl wait {at} --for=condition=Ready pod/{shlex.quote(name)}",
            f"kubectl cp {at} {shlex.quote(f'{name}:{source}')} {shlex.quote(f'./{target}')}",
            f"kubectl delete pod {at} {shlex.quote(name)}",
        )
    )


def fetched_from_pod(path: str, *, namespace: str, pod: str) -> str:
    """The command, as long as the pod runs."""
    target = posixpath.basename(path) or "output"
    return (
        f"kubectl cp -n {shlex.quote(namespace)} {shlex.quote(f'{pod}:{path}')} {shlex.quote(f'./{target}')}"
    )


def fetching_pod(claim: str, *, name: str) -> dict[str, Any]:
    """A pod that has the claim, read-only, and does nothing; Pod Security `restricted` takes it."""
    container = {
        "name": "fetch",
        "image": IMAGE,
        "command": ["sleep", str(_SECONDS)],
        "resources": {amount: {"cpu": "100m", "memory": "64Mi"} for amount in ("requests", "limits")},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "claim", "mountPath": _FOLDER, "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _SECONDS,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
