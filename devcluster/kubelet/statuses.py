"""What `containerStatuses` and the conditions of a pod look like."""

from __future__ import annotations

from devcluster.objects import Obj, made_condition, timestamp

ABSENT_IMAGE = "does-not-exist"
"""An image whose name has this is never pulled."""


def waiting(reason: str, message: str = "") -> Obj:
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def terminated(code: int, reason: str, since: str, message: str = "") -> Obj:
    ended = {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": timestamp()}
    return {"terminated": ended | ({"message": message} if message else {})}


def container_status(container: Obj, state: Obj, image_id: str = "", *, ready: bool = False) -> Obj:
    return {
        "name": container["name"], "image": container["image"], "imageID": image_id, "ready": ready, "started": ready,
        "restartCount": 0, "state": state,
    }  # fmt: skip


def without_image(pod: Obj) -> list[Obj]:
    """The statuses of a pod that names an absent image; empty where it names none."""
    containers = pod["spec"]["containers"]
    if not any(ABSENT_IMAGE in container["image"] for container in containers):
        return []
    text = 'Back-off pulling image "{}": not found'
    return [container_status(c, waiting("ImagePullBackOff", text.format(c["image"]))) for c in containers]


def ended_conditions(phase: str) -> list[Obj]:
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return [made_condition(type_, "False", reason) for type_ in ("Ready", "ContainersReady")]


def ready_conditions() -> list[Obj]:
    types = ("Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    return [made_condition(type_, "True") for type_ in types]
