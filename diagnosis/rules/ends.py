"""T: how the program ended, by its exit code and its last lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from diagnosis.evidence import Case, ContainerEvidence, LogEvidence, PodEvidence
from diagnosis.findings import (
    Confidence,
    Proof,
    Rule,
    Sign,
    WhoActs,
    pod_rule,
    proof_of_container,
    such_as_twice,
)
from diagnosis.rules.containers import CRASH_LOOP, killed_by_probe, states
from diagnosis.tracebacks import error_line, traceback_before

_GPU_MEMORY: Final = re.compile(
    r"CUDA out of memory|torch\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemoryError: CUDA"
)
_DRIVER: Final = re.compile(
    r"no kernel image is available|driver version is insufficient|CUDA_ERROR_NO_DEVICE|Failed to initialize NVML"
    r"|no CUDA-capable device is detected"
)
_RENDEZVOUS: Final = re.compile(
    r"NCCL (?:error|WARN.*(?:timeout|failed))|ncclSystemError|ncclRemoteError|Watchdog caught collective operation timeout"
    r"|[Cc]onnection refused.*(?:2\d{4}|MASTER_ADDR)|(?:MASTER_ADDR|rendezvous|c10d|TCPStore).*(?:refused|timed out|timeout)"
    r"|[Aa]ddress already in use"
)
_NCCL: Final = re.compile(r"NCCL|nccl|Watchdog caught")
_IN_USE: Final = re.compile(r"[Aa]ddress already in use")
_SHARED_MEMORY: Final = re.compile(r"bus error.*shared memory|insufficient shared memory", re.IGNORECASE)
_ERROR_LINE: Final = re.compile(
    r"^(?:\[?(?:default|rank)\d+\]?:\s?)?(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b|\bFATAL\b|\bpanic:",
    re.MULTILINE,
)
_SIGNALS: Final = {134: "SIGABRT", 135: "SIGBUS", 139: "SIGSEGV", 143: "SIGTERM", 130: "SIGINT"}
STOPPING: Final = "Stopping"
"""In this phase pods are told to stop, and are killed who do not: that is no cause of anything."""
PODS_TOLD: Final = 8
OFTEN: Final = 3
LATELY: Final = timedelta(minutes=10)
"""After so long without an end the kubelet, too, forgets that a container ended often."""
_OOM: Final = "OOMKilled"
_NO_START: Final = frozenset({"StartError", "ContainerCannotRun", "ContainerStatusUnknown"})


def ends(case: Case, pod: PodEvidence) -> list[ContainerEvidence]:
    """The ends of its containers with an exit code other than 0; of each container the newest. One that was got over is of
    the past.
    """
    if pod.condition("DisruptionTarget") or killed_by_probe(pod):
        # It did not end of itself.
        return []
    found: dict[str, ContainerEvidence] = {}
    for item in pod.containers():
        if item.kind == "terminated" and item.exit_code and not _got_over(case, item):
            found.setdefault(item.name, item)
    return list(found.values())


def _got_over(case: Case, item: ContainerEvidence) -> bool:
    """Whether the container is up again, and did not just end for the third time or more."""
    if not item.previous or not item.ready:
        return False
    lately = item.finished_at is not None and case.now - item.finished_at < LATELY
    return not (lately and item.restarts >= OFTEN)


def _times(pod: PodEvidence) -> str:
    return f" It was restarted {pod.restarts} times." if pod.restarts else ""


def _by_code(case: Case, pod: PodEvidence, *codes: int) -> Iterator[ContainerEvidence]:
    return (
        item
        for item in ends(case, pod)
        if item.exit_code in codes and item.reason != _OOM and item.reason not in _NO_START
    )


@pod_rule(
    "T1",
    "It used more memory than its limit",
    signal="container ended with reason OOMKilled",
    next_step="Use Clone with more `memory`, or make the batch or the number of data loader workers smaller.",
    who=WhoActs.OWNER,
    repeats=True,
)
def oom_killed(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in ends(case, pod):
        if item.reason == _OOM:
            limit = f" of {case.asked.memory}" if case.asked.memory else ""
            words = f"Container {item.name} of pod {pod.name} used more memory (RAM, not that of the GPU) than its limit{limit}, of which /dev/shm is a part, and was killed (exit code {item.exit_code}).{_times(pod)}"
            more = such_as_twice(case.asked.memory)
            step = f"Use Clone with more `memory`{more}, or make the batch or the number of data loader workers smaller. More GPU memory does not help."
            yield Sign(words, (proof_of_container(pod, item),), next_step=step, pod=pod.name)


def _lines(
    case: Case, pod: PodEvidence, pattern: re.Pattern[str]
) -> Iterator[tuple[str, Proof, LogEvidence | None]]:
    """The last line that matches, of its log or of its last words, if it did not end well."""
    ended = ends(case, pod)
    if not ended:
        return
    for line in reversed(case.lines_of(pod)):
        if pattern.search(line.text):
            text = line.text.strip()
            yield text, Proof(f"Pod {pod.name}", "log", text[:400], line.at), line
            return
    for item in ended:
        if pattern.search(item.message):
            yield item.message, proof_of_container(pod, item), None
            return


def _by_line(
    case: Case,
    pod: PodEvidence,
    pattern: re.Pattern[str],
    words: str,
    *,
    confidence: Confidence = Confidence.LIKELY,
) -> Iterator[Sign]:
    for _text, proof, line in _lines(case, pod, pattern):
        codes = ", ".join(str(item.exit_code) for item in ends(case, pod))
        ended = tuple(proof_of_container(pod, item) for item in ends(case, pod)[:1])
        yield Sign(
            f"{words} (exit code {codes}).{_times(pod)}",
            tuple(dict.fromkeys((proof, *ended))),
            confidence,
            line=line.at if line else None,
            pod=pod.name,
            traceback=_traceback(case, pod, line),
        )


def _traceback(case: Case, pod: PodEvidence, line: LogEvidence | None) -> tuple[str, ...]:
    """What its log says up to that line, from where a traceback begins."""
    if line is None:
        return ()
    lines = case.lines_of(pod)
    last = max(place for place, each in enumerate(lines) if each is line)
    return traceback_before([each.text for each in lines[: last + 1]])


@pod_rule(
    "T5",
    "The GPU's memory is full",
    signal="exit code other than 0, and a line such as `CUDA out of memory`",
    next_step="Make the batch smaller, or use Clone with a flavor of more GPU memory.",
    who=WhoActs.OWNER,
    repeats=True,
)
def gpu_memory(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    words = f"Pod {pod.name} ran out of GPU memory"
    step = "Make the batch smaller, or use Clone with a flavor of more GPU memory."
    if case.asked.sharing == "mig":
        step += f" A unit of {case.asked.flavor} is a slice of a card, with a part of its memory."
    elif case.asked.sharing:
        step += f" The cards of {case.asked.flavor} are shared: other pods may hold a part of the memory."
    for found in _by_line(case, pod, _GPU_MEMORY, words, confidence=Confidence.CERTAIN):
        # What others hold of a shared card is another time another amount.
        yield replace(found, next_step=step, repeats=case.asked.sharing in {"", "mig"})


@pod_rule(
    "T6",
    "The image does not fit the node's GPU driver",
    signal="exit code other than 0, and a line such as `driver version is insufficient` or `no kernel image is available`",
    next_step="Take an image for the CUDA version that the node's driver knows; if it saw no GPU at all, ask for one or tell an admin.",
    who=WhoActs.OWNER,
)
def gpu_driver(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    node = case.node(pod.node)
    label = node.facts.labels.get("nvidia.com/cuda.driver-version.full", "") if node else ""
    known = f" of node {pod.node}{', driver ' + label if label else ''}" if pod.node else ""
    yield from _by_line(case, pod, _DRIVER, f"What pod {pod.name} runs does not fit the GPU driver{known}")


@pod_rule(
    "T7",
    "Its pods did not find each other",
    signal="exit code other than 0, and a line of NCCL or of the rendezvous: time-out, connection refused, address in use",
    next_step="Look whether all its pods came up, and at the log of the first one that ended.",
    who=WhoActs.OWNER,
)
def rendezvous(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for text, _, _ in _lines(case, pod, _RENDEZVOUS):
        title, words, step = _not_met(case, pod, text)
        for found in _by_line(case, pod, _RENDEZVOUS, words):
            yield replace(found, words=f"{found.words}{_pods(case)}", title=title, next_step=step)


def _not_met(case: Case, pod: PodEvidence, text: str) -> tuple[str, str, str]:
    """Title, words and next step: of NCCL, of a port that is taken, of one pod that looks for others, of one that was refused."""
    alone = len(case.pods) == 1 and case.asked.pods == 1
    first = "" if alone else "Look at the log of the pod that ended first: the others only lost it. "
    if _NCCL.search(text):
        met = "among its GPUs" if alone else "to the other pods"
        step = f"{first}With `NCCL_DEBUG=INFO` in the environment the log says more; `NCCL_SOCKET_IFNAME` names the network that NCCL takes."
        return "", f"Pod {pod.name} lost, or never had, NCCL's connection {met}", step
    if _IN_USE.search(text):
        return (
            "The port of its rendezvous is taken",
            f"Pod {pod.name} could not listen: another process of it has the port",
            "Use Clone and let one process of the pod alone listen there, or take another `MASTER_PORT`.",
        )
    if alone:
        return (
            "Its program waits for other pods, and the run has one",
            f"Pod {pod.name} wanted to meet other pods, and the run has one pod",
            "Use Clone with more pods (`replicas`, and a `kind` such as PyTorchJob); or start the program for one pod, as by `torchrun --standalone`.",
        )
    return (
        "",
        f"Pod {pod.name} did not reach the pod where all meet",
        (f"{first}Nothing listens there before that pod's program has started, or after it has ended."),
    )


def _pods(case: Case) -> str:
    """Which pods there are, and which of them ended first."""
    if len(case.pods) < 2:
        return ""
    ended = [pod for pod in case.pods if pod.finished_at is not None]
    first = min(ended, key=lambda pod: (str(pod.finished_at), pod.name), default=None)
    names = [f"{pod.name} ({_state(pod)})" for pod in case.pods[:PODS_TOLD]]
    more = f" and {len(case.pods) - PODS_TOLD} more" if len(case.pods) > PODS_TOLD else ""
    said = f" Its pods: {', '.join(names)}{more}."
    return f"{said} The first that ended was {first.name}." if first else said


def _state(pod: PodEvidence) -> str:
    if pod.finished_at is not None:
        return f"ended {pod.finished_at:%H:%M:%S}"
    return "never started" if pod.started_at is None else "runs" if pod.gone_at is None else "gone"


@pod_rule(
    "T8",
    "The command is not there, or may not be run",
    signal="exit code 126 or 127",
    next_step="Use Clone and correct the command: 127 means that it was not found, 126 that it is not executable.",
    who=WhoActs.OWNER,
    repeats=True,
)
def no_command(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in _by_code(case, pod, 126, 127):
        what = "was not found" if item.exit_code == 127 else "is not executable"
        words = f"The command of container {item.name}, or one that it calls, {what} (exit code {item.exit_code}).{_times(pod)}"
        yield Sign(words, (proof_of_container(pod, item),), pod=pod.name)


@pod_rule(
    "T2",
    "It was killed",
    signal="exit code 137 without OOMKilled",
    next_step="If it was not asked to stop, its node may have run out of memory: ask for the `memory` that it really takes.",
    who=WhoActs.OWNER,
)
def killed(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if case.phase == STOPPING:
        return
    for item in _by_code(case, pod, 137):
        why = "its grace period was over" if pod.deletion_at else "nothing says by whom"
        words = f"Container {item.name} of pod {pod.name} was killed (SIGKILL, exit code 137); {why}.{_times(pod)}"
        step = (
            "Save a checkpoint and end within the grace period when SIGTERM comes." if pod.deletion_at else ""
        )
        yield Sign(words, (proof_of_container(pod, item),), Confidence.POSSIBLE, step, pod=pod.name)


@pod_rule(
    "T3",
    "It was told to stop",
    signal="exit code 143 or 130",
    next_step="Look who stopped it: the events say it. A program that saves a checkpoint on SIGTERM loses nothing.",
    who=WhoActs.OWNER,
)
def stopped(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if case.phase == STOPPING:
        return
    for item in _by_code(case, pod, 143, 130):
        signal = _SIGNALS[item.exit_code or 143]
        words = f"Container {item.name} of pod {pod.name} ended on {signal} (exit code {item.exit_code}).{_times(pod)}"
        yield Sign(words, (proof_of_container(pod, item),), Confidence.LIKELY, pod=pod.name)


@pod_rule(
    "T4",
    "It crashed",
    signal="exit code 139, 134 or 135",
    next_step="Look at the last lines of its log; with NCCL_DEBUG=INFO or CUDA_LAUNCH_BLOCKING=1 they say more.",
    who=WhoActs.OWNER,
)
def crashed(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in _by_code(case, pod, 139, 134, 135):
        code = item.exit_code or 0
        small = next(_lines(case, pod, _SHARED_MEMORY), None)
        step = (
            f"Use Clone with more shared memory (`shm`{such_as_twice(case.asked.shm)}): /dev/shm is too small for what its processes share."
            if code == 135 or small
            else ""
        )
        proofs = (proof_of_container(pod, item), *((small[1],) if small else ()))
        words = f"Container {item.name} of pod {pod.name} crashed ({_SIGNALS[code]}, exit code {code}).{_times(pod)}"
        line = small[2].at if small and small[2] else None
        yield Sign(words, proofs, Confidence.LIKELY, step, line=line, pod=pod.name)


@pod_rule(
    "A1",
    "Its program ended with an error",
    signal="an exit code that no other row explains",
    next_step="Its last lines say what went wrong: correct that, and use Clone to submit it anew.",
    who=WhoActs.OWNER,
    repeats=True,
)
def own_error(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if any(True for _ in states(pod, CRASH_LOOP)):
        return
    known = {126, 127, 130, 134, 135, 137, 139, 143}
    for item in ends(case, pod):
        if item.reason == _OOM or item.reason in _NO_START or item.exit_code in known:
            continue
        last = next(_lines(case, pod, _ERROR_LINE), None)
        title = error_line(last[0]) if last else ""
        said = f" It wrote: {last[0][:200]}" if last else ""
        words = f"The program of container {item.name} in pod {pod.name} ended by itself with exit code {item.exit_code}: this is the program's own error.{said}"
        proofs = (proof_of_container(pod, item), *((last[1],) if last and last[2] else ()))
        line = last[2] if last else None
        yield Sign(
            words,
            tuple(dict.fromkeys(proofs)),
            title=title,
            line=line.at if line else None,
            pod=pod.name,
            traceback=_traceback(case, pod, line),
        )
        return


BY_LOG: Final[tuple[Rule, ...]] = (gpu_memory, gpu_driver, rendezvous)
BY_EXIT: Final[tuple[Rule, ...]] = (oom_killed, no_command, crashed, killed, stopped)
LAST: Final[tuple[Rule, ...]] = (own_error,)
