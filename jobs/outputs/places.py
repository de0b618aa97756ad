"""Where an output lies once its pods are gone, and the commands that fetch it. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import Any, Final

from jobs.specs import TrainingRunSpec
from workloads.podspec.grammar import is_inside
from workloads.podspec.pod_template import container_security, pod_security
from workloads.podspec.specs import Volume

IMAGE: Final = "busybox:1.37"
"""Has `tar`, which `kubectl cp` needs in the pod."""
_FOLDER: Final = "/claim"
_SECONDS: Final = 900
"""How long the pod that fetches stays when nobody deletes it."""
_NAME_LENGTH_MAX: Final = 100
_UNSAFE = re.compile(r"[^-A-Za-z0-9._]", re.ASCII)


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """`inside` a claim of the team, which the run has mounted at `mount`."""

    claim: str
    mount: str
    inside: str
    """From the claim's own root, without a slash before it; empty for all of it."""


def place_of(path: str, spec: TrainingRunSpec) -> OutputPlace | None:
    """The claim that holds the path; None where it lies in the pod alone, and goes with it.

    Code and ConfigMaps may be mounted inside a claim: what lies there is not in the claim.
    """
    mounts: list[tuple[str, Volume | None]] = [(volume.path, volume) for volume in spec.mounted_volumes]
    mounts += [(mount.path, None) for mount in spec.config_maps]
    mounts += [(spec.source.path, None)] if spec.source else []
    around = [mount for mount in mounts if is_inside(path, mount[0])]
    _, nearest = max(around, key=lambda mount: len(mount[0]), default=("", None))
    if nearest is None:
        return None
    return OutputPlace(nearest.claim, nearest.path, path.removeprefix(nearest.path).lstrip("/"))


def local_name(path: str) -> str:
    """`./best.pt`: the last part of the path, in characters that neither a shell nor kubectl takes for something else."""
    return "./" + (_UNSAFE.sub("_", posixpath.basename(path))[:_NAME_LENGTH_MAX] or "output")


def fetched_from_claim(place: OutputPlace, *, namespace: str, name: str, user: int) -> str:
    """Commands, a line each, for who may make pods in the namespace; they need none of the run's own."""
    pod = fetching_pod(place.claim, name=name, user=user)
    source = posixpath.join(_FOLDER, place.inside) if place.inside else f"{_FOLDER}/."
    at = f"-n {shlex.quote(namespace)}"
    return "\n".join(
        (
            f"echo {shlex.quote(json.dumps(pod, separators=(',', ':')))} | kubectl create {at} -f -",
            f"kubectl wait {at} --for=condition=Ready pod/{shlex.quote(name)}",
            f"kubectl cp {at} {shlex.quote(f'{name}:{source}')} {local_name(place.inside or place.claim)}",
            f"kubectl delete pod {at} {shlex.quote(name)}",
        )
    )


def fetched_from_pod(path: str, *, namespace: str, pod: str) -> str:
    """The command, as long as the pod runs."""
    return f"kubectl cp -n {shlex.quote(namespace)} {shlex.quote(f'{pod}:{path}')} {local_name(path)}"


def fetching_pod(claim: str, *, name: str, user: int) -> dict[str, Any]:
    """A pod that has the claim, read-only, and does nothing. `user` is the run's, who may read what the run wrote."""
    container = {
        "name": "fetch",
        "image": IMAGE,
        "command": ["sleep", str(_SECONDS)],
        "resources": {amount: {"cpu": "100m", "memory": "64Mi"} for amount in ("requests", "limits")},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "claim", "mountPath": _FOLDER, "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _SECONDS,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(user),
        "containers": [container],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
