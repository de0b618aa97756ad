"""Why a pod, or one of its containers, came to its end, and whether another attempt would help. Pure.

An interruption is an end that uses up no retry: preemption, drain, a lost or refusing node. The rules follow
the DisruptionTarget reasons and pod status reasons of Kubernetes 1.36, and the exit codes of POSIX shells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.placement import SPOT
from workloads.podspec import model_source
from workloads.podspec.git_source import CONTAINER_PREFIX
from workloads.podspec.pod_template import CAPACITY_ANNOTATION
from workloads.states import Reason

Json = Mapping[str, Any]

OOM_KILLED = "OOMKilled"
NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
SHUTDOWN_REASONS = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
REFUSED_REASONS = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError", "PodOSNotSupported"}
)
_DISRUPTIONS_OF_THE_NODE: Mapping[str, str] = {
    "DeletionByTaintManager": "its node became unusable",
    "EvictionByEvictionAPI": "its node was drained",
    "DeletionByPodGC": "its node is gone",
    "DeletionByDeviceTaintManager": "its GPU became unusable",
}
_OWN_LIMIT = re.compile(r"exceeded its local ephemeral storage limit|exceeds the (?:total )?limit")
_GPU_MEMORY = re.compile(r"CUDA out of memory|torch\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY")
_GPU_DRIVER = re.compile(
    r"no kernel image is available|driver version is insufficient|CUDA_ERROR_NO_DEVICE|Failed to initialize NVML"
)
_MODEL_ABSENT = re.compile(
    # Triton; vLLM, and the library it reads models with; TorchServe.
    r"failed to load all models|failed to poll from model repository|unable to find '[^']*' in (?:the )?model repository"
    r"|Invalid repository ID or local directory specified|is not a local folder and is not a valid model identifier"
    r"|We couldn't connect to 'https://huggingface|ModelNotFoundException|Model store path .* does not exist"
)
_SENTENCES: Mapping[int, str] = {
    126: "The command is not executable",
    127: "The command was not found",
    128: "The container could not be started",
    130: "It was interrupted (SIGINT)",
    134: "It aborted (SIGABRT), often a failed assertion of CUDA or NCCL",
    135: "It crashed (SIGBUS), often because /dev/shm is too small",
    137: "It was killed (SIGKILL)",
    139: "It crashed (SIGSEGV)",
    143: "It was told to stop (SIGTERM)",
}
_USER_EXIT_CODES = frozenset({126, 127, 128})
_STOPPED_FROM_OUTSIDE = frozenset({137, 143})


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    reason: Reason
    message: str
    interruption: bool = False
    retryable: bool = False
    exit_code: int | None = None


def end_of_pod(pod: Json) -> End | None:
    """Why the pod has ended or is being ended; None while nothing ends it. A success is not asked here."""
    status = pod.get("status") or {}
    ended = status.get("phase") == "Failed"
    for item in status.get("conditions") or ():
        if item.get("type") == "DisruptionTarget" and item.get("status") == "True":
            return _disrupted(pod, item.get("reason") or "", item.get("message") or "")
    word, text = status.get("reason") or "", status.get("message") or ""
    if word:
        by_reason = _by_status_reason(pod, word, text)
        if by_reason is not None:
            return by_reason
    if not ended:
        return None
    return _by_containers(pod, text)


def end_of_container(pod: Json, status: Json, ended: Json) -> End:
    """Why one container ended; `ended` is its `terminated` state."""
    name, word = status.get("name") or "", ended.get("reason") or ""
    code = ended.get("exitCode")
    last_words = (ended.get("message") or "").strip()
    if word == OOM_KILLED:
        limit = _memory_limit(pod, name)
        message = (
            f"Container {name} used more memory than its limit{limit} and was killed (exit code {code})."
        )
        return End(reason=Reason.OOM_KILLED, message=message, exit_code=code)
    if word == "ContainerStatusUnknown":
        message = f"The node lost track of container {name}. {last_words}"
        return _lost(pod, message, exit_code=code)
    if word in NEVER_STARTED:
        message = f"Container {name} did not start: {last_words or word}"
        return End(reason=Reason.START_ERROR, message=message, exit_code=code)
    return _by_exit_code(pod, name, code, last_words)


def reason_of_disruption(word: str, *, spot: bool) -> tuple[Reason, str]:
    """Why a pod was removed, as a reason and in words, by the word of its DisruptionTarget condition."""
    reason = Reason.PREEMPTED if word == "PreemptionByScheduler" else reason_of_loss(spot=spot)
    return reason, _DISRUPTIONS_OF_THE_NODE.get(word, "it was disrupted")


def reason_of_loss(*, spot: bool) -> Reason:
    """The reason for a pod whose node was lost; on spot capacity, a reclaimed node."""
    return Reason.SPOT_RECLAIMED if spot else Reason.NODE_LOST


def _by_exit_code(pod: Json, name: str, code: int | None, last_words: str) -> End:
    if code in _STOPPED_FROM_OUTSIDE and pod["metadata"].get("deletionTimestamp"):
        message = f"The pod was deleted while container {name} was running (exit code {code})."
        return End(reason=Reason.DELETED_EXTERNALLY, message=message, interruption=True, exit_code=code)
    tail = f" Its last words: {last_words}" if last_words else ""
    if _GPU_MEMORY.search(last_words):
        message = f"Container {name} ran out of GPU memory (exit code {code}).{tail}"
        return End(reason=Reason.APPLICATION_ERROR, message=message, exit_code=code)
    if _GPU_DRIVER.search(last_words):
        message = (
            f"The image of container {name} does not fit the node's GPU driver (exit code {code}).{tail}"
        )
        return End(reason=Reason.APPLICATION_ERROR, message=message, exit_code=code)
    if name.startswith(CONTAINER_PREFIX):
        # Git ends with 128 on every failure, also if only the network failed.
        message = f"Container {name} could not bring the code of source.git (exit code {code}).{tail}"
        return End(reason=Reason.APPLICATION_ERROR, message=message, retryable=True, exit_code=code)
    end = _of_the_model(name, code, last_words, tail)
    if end is not None:
        return end
    sentence = _SENTENCES.get(code or 0, "It ended with an error" if code else "It ended")
    return End(
        reason=Reason.APPLICATION_ERROR,
        message=f"Container {name} ended with exit code {code}. {sentence}.{tail}",
        retryable=code not in _USER_EXIT_CODES,
        exit_code=code,
    )


def _of_the_model(name: str, code: int | None, last_words: str, tail: str) -> End | None:
    """The end of a container that lacked its model; None if that was not the reason."""
    if name == model_source.FETCH:
        message = f"Container {name} could not fetch the model of model.uri (exit code {code}).{tail}"
    elif name == model_source.CHECK:
        message = (
            f"A model that the request names is not where model.path says, or cannot be read (exit code {code}): look "
            f"what the claim or the address holds.{tail}"
        )
    elif _MODEL_ABSENT.search(last_words):
        message = (
            f"Container {name} found no model that it can load (exit code {code}): look what model.path and "
            f"runtime_options.models name, and that it has the layout which the server wants.{tail}"
        )
    else:
        return None
    return End(reason=Reason.APPLICATION_ERROR, message=message, retryable=True, exit_code=code)


def _disrupted(pod: Json, word: str, text: str) -> End:
    status = pod.get("status") or {}
    if word == "TerminationByKubelet":
        status_text = status.get("message") or text
        by_reason = _by_status_reason(pod, status.get("reason") or "", status_text)
        return by_reason or _evicted(pod, status_text)
    reason, what = reason_of_disruption(word, spot=_is_on_spot(pod))
    message = f"The pod was removed because {what} ({word}: {text})."
    if reason is Reason.PREEMPTED:
        message = f"Preempted: {text or 'a pod of higher priority needs its place'}"
    return _interrupted(pod, reason, message)


def _by_status_reason(pod: Json, word: str, text: str) -> End | None:
    """None for a reason that says nothing about the end."""
    if word == "Evicted":
        return _evicted(pod, text)
    if word in SHUTDOWN_REASONS:
        return _lost(pod, f"The node was shut down: {text or word}")
    if word == "NodeLost":
        return _lost(pod, f"The node is lost: {text or word}")
    if word == "Preempting":
        message = f"The node needed its place for a critical pod: {text or word}"
        return _interrupted(pod, Reason.PREEMPTED, message)
    return _by_refusal(pod, word, text)


def _by_refusal(pod: Json, word: str, text: str) -> End | None:
    """The end of a pod that the kubelet refused to run or stopped at its deadline; None for other ends."""
    if word == "DeadlineExceeded":
        message = text or "The pod was active longer than its deadline."
        return End(reason=Reason.DEADLINE_EXCEEDED, message=message)
    if "maximum request size for shared resources" in text:
        return End(reason=Reason.INVALID_SPEC, message=f"A shared GPU can be asked for only once: {text}")
    if word in REFUSED_REASONS or word.startswith("OutOf") or text.startswith("Pod was rejected"):
        return _interrupted(pod, Reason.NODE_LOST, f"The node refused the pod ({word}): {text}")
    return None


def _evicted(pod: Json, text: str) -> End:
    """A pod that exceeded its own limit is to blame; one that a full node evicted is not."""
    if _OWN_LIMIT.search(text):
        return End(reason=Reason.APPLICATION_ERROR, message=f"Evicted: {text}")
    return _interrupted(pod, Reason.NODE_LOST, f"Evicted by its node: {text or 'it ran short of a resource'}")


def _by_containers(pod: Json, text: str) -> End:
    status = pod.get("status") or {}
    for item in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for key in ("state", "lastState"):
            ended = (item.get(key) or {}).get("terminated")
            if ended and ended.get("exitCode") != 0:
                return end_of_container(pod, item, ended)
    return End(
        reason=Reason.APPLICATION_ERROR,
        message=text or "The pod failed, and its status does not say why.",
        retryable=True,
    )


def _lost(pod: Json, message: str, *, exit_code: int | None = None) -> End:
    """The node went away under the pod."""
    return _interrupted(pod, reason_of_loss(spot=_is_on_spot(pod)), message, exit_code=exit_code)


def _is_on_spot(pod: Json) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return bool(annotations.get(CAPACITY_ANNOTATION) == SPOT)


def _interrupted(pod: Json, reason: Reason, message: str, *, exit_code: int | None = None) -> End:
    for item in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (item.get("state") or {}).get("terminated") or {}
        if exit_code is None:
            exit_code = ended.get("exitCode")
    return End(reason=reason, message=message, interruption=True, retryable=True, exit_code=exit_code)


def _memory_limit(pod: Json, name: str) -> str:
    """The words " of 16Gi", or nothing where the container has no limit."""
    spec = pod.get("spec") or {}
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and limit:
            return f" of {limit}"
    return ""
