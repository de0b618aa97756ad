"""D and P: something took the pod away, or its node refused it. None of these is the request's fault but a limit of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from diagnosis.evidence import Case, PodEvidence
from diagnosis.findings import (
    Proof,
    Rule,
    Sign,
    WhoActs,
    pod_rule,
    proof_of_condition,
    proof_of_said,
    proof_of_status,
    such_as_twice,
)

_TARGET: Final = "DisruptionTarget"
_AGAIN: Final = "Nothing to do: the portal tries again by itself, and no retry is used up."
_OWN_LIMIT: Final = re.compile(
    r"(?:exceeded its local ephemeral storage limit|exceeds the (?:total )?limit)"
    r"(?: of containers)?(?:\s+\"?(?P<limit>\d[\w.]*\w)\"?)?"
)
_VOLUME: Final = re.compile(r'EmptyDir volume "(?P<name>[^"]+)"')
_SHARED_MEMORY: Final = frozenset({"shm", "dshm"})
"""What the volume at /dev/shm is called: by the portal, and by charts."""
_REFUSED: Final = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError", "PodOSNotSupported"}
)
_SHUTDOWN: Final = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
UNREACHABLE: Final = frozenset({"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"})


def _by(pod: PodEvidence, word: str) -> bool:
    return pod.condition(_TARGET).get("reason") == word


def _disrupted(pod: PodEvidence, word: str, words: str) -> Iterator[Sign]:
    if _by(pod, word):
        yield Sign(words, (proof_of_condition(pod, _TARGET),), pod=pod.name)


@pod_rule(
    "D1",
    "Another pod of higher priority took its place",
    signal="condition DisruptionTarget with reason PreemptionByScheduler",
    next_step="Nothing to do: it goes back to its old place in the queue, and no retry is used up.",
    who=WhoActs.NOBODY,
)
def preempted(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for found in _disrupted(
        pod,
        "PreemptionByScheduler",
        f"The scheduler took pod {pod.name} off node {pod.node or 'its node'} for a pod of higher priority.",
    ):
        heard = tuple(proof_of_said(said) for said in list(pod.heard("Preempted"))[:1])
        yield Sign(found.words, (*found.proofs, *heard), pod=pod.name)


@pod_rule(
    "D2",
    "Its node became unusable",
    signal="condition DisruptionTarget with reason DeletionByTaintManager",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def tainted(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    node = case.node(pod.node)
    taints = (
        [item.get("key") for item in node.facts.taints if item.get("effect") == "NoExecute"] if node else []
    )
    named = f" (now tainted {', '.join(map(str, taints))})" if taints else ""
    words = f"Node {pod.node or 'of the pod'} got a taint that drives pods away{named}, and pod {pod.name} with them."
    yield from _disrupted(pod, "DeletionByTaintManager", words)


@pod_rule(
    "D3",
    "Its node was drained",
    signal="condition DisruptionTarget with reason EvictionByEvictionAPI",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def drained(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    words = f"Pod {pod.name} was evicted from node {pod.node or '?'}, by an admin, an upgrade or an autoscaler that empties it."
    yield from _disrupted(pod, "EvictionByEvictionAPI", words)


@pod_rule(
    "D4",
    "Its node is gone",
    signal="condition DisruptionTarget with reason DeletionByPodGC",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def node_gone(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    words = f"Node {pod.node or 'of the pod'} no longer exists, as when spot capacity is taken back; pod {pod.name} went with it."
    yield from _disrupted(pod, "DeletionByPodGC", words)


@pod_rule(
    "D6",
    "Its GPU became unusable",
    signal="condition DisruptionTarget with reason DeletionByDeviceTaintManager",
    next_step=f"{_AGAIN} If it happens on the same node again, tell an admin its name.",
    who=WhoActs.NOBODY,
)
def device_tainted(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    words = f"A GPU of node {pod.node or '?'} was marked as broken while pod {pod.name} held it."
    yield from _disrupted(pod, "DeletionByDeviceTaintManager", words)


def _status(pod: PodEvidence, words: str, *, next_step: str = "") -> Sign:
    return Sign(words, (proof_of_status(pod),), next_step=next_step, pod=pod.name)


@pod_rule(
    "P1",
    "Its node evicted it for want of disk or memory",
    signal="pod status reason Evicted",
    next_step="If a limit of its own is named, raise that or write less; if its node ran short, the portal tries again by itself.",
    who=WhoActs.OWNER,
)
def evicted(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.reason != "Evicted":
        return
    if own := _OWN_LIMIT.search(pod.message):
        yield _over_its_limit(case, pod, own["limit"] or "")
        return
    words = f"Node {pod.node or '?'} ran short and put pod {pod.name} off: {pod.message} No limit of the request was passed."
    again = "Use Run again." if case.over and case.ends else _AGAIN
    step = f"{again} A request that names what it needs is put off last."
    yield replace(_status(pod, words, next_step=step), who=None if again != _AGAIN else WhoActs.NOBODY)


def _over_its_limit(case: Case, pod: PodEvidence, limit: str) -> Sign:
    """A limit of the request was passed: of the shared memory, of another volume of its own, or of what lies outside of volumes."""
    volume = _VOLUME.search(pod.message)
    limit = limit or (case.asked.storage if volume is None else "")
    of = f" of {limit}" if limit else ""
    if volume and volume["name"] in _SHARED_MEMORY:
        words = f"Pod {pod.name} put more into its shared memory (/dev/shm, by which data loaders hand over batches) than its limit{of}."
        step = f"Use Clone with more shared memory (`shm`{such_as_twice(limit)}), which is a part of `memory`; or run fewer data loader workers."
    elif volume:
        words = f"Pod {pod.name} wrote more into its temporary volume {volume['name']} than its limit{of}."
        step = "Write less there, or to a volume of the team (a claim)."
    else:
        words = f"Pod {pod.name} wrote more outside of its volumes than its limit{of} (`ephemeral_storage`)."
        step = (
            "Write to a volume of the team (a claim); or use Clone with more ephemeral storage "
            f"(`ephemeral_storage`{such_as_twice(limit)})."
        )
    return replace(_status(pod, words, next_step=step), title="It wrote more than its limit", repeats=True)


@pod_rule(
    "P2",
    "Its node was shut down",
    signal="pod status reason Terminated, NodeShutdown or Shutdown",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def shut_down(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.reason in _SHUTDOWN:
        yield _status(pod, f"Node {pod.node or '?'} was shut down under pod {pod.name}, as spot nodes are.")


@pod_rule(
    "P3",
    "Its node refused it after it was placed there",
    signal="pod status reason OutOf…, UnexpectedAdmissionError, NodeAffinity, TopologyAffinityError and the like",
    next_step=f"{_AGAIN} If the same node refuses again, tell an admin its name: its device plugin may be down.",
    who=WhoActs.NOBODY,
)
def refused(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.reason.startswith("OutOf") or pod.reason in _REFUSED:
        yield _status(pod, f"Node {pod.node or '?'} refused pod {pod.name} ({pod.reason}): {pod.message}")


@pod_rule(
    "P4",
    "The pod used up its own deadline",
    signal="pod status reason DeadlineExceeded",
    next_step="Use Clone with a longer time limit (`time_limit_seconds`), or go on from a checkpoint.",
    who=WhoActs.OWNER,
    repeats=True,
)
def deadline(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.reason == "DeadlineExceeded":
        yield _status(pod, f"Pod {pod.name} was active on its node longer than it may be: {pod.message}")


@pod_rule(
    "P5",
    "Its node made room for a pod of the system",
    signal="pod status reason Preempting",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def kubelet_preempted(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.reason == "Preempting":
        yield _status(
            pod, f"Node {pod.node or '?'} ended pod {pod.name} to make room for a critical pod of the system."
        )


@pod_rule(
    "P6",
    "Its node does not answer",
    signal="pod status reason NodeLost, or condition Ready Unknown",
    next_step="Wait: after the toleration's time the pod is given up and the portal starts another one.",
    who=WhoActs.NOBODY,
)
def node_lost(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.phase == "Succeeded":
        return
    ready = pod.condition("Ready")
    if pod.reason != "NodeLost" and not ready:
        return
    node = case.node(pod.node)
    taints = (
        [str(item.get("key")) for item in node.facts.taints if item.get("key") in UNREACHABLE] if node else []
    )
    proof = proof_of_status(pod) if pod.reason else proof_of_condition(pod, "Ready")
    marks = (Proof(f"Node {pod.node}", "spec.taints", ", ".join(taints)),) if taints else ()
    yield Sign(
        f"Node {pod.node or '?'} does not answer, so nothing is known of pod {pod.name}.",
        (proof, *marks),
        pod=pod.name,
    )


@pod_rule(
    "D5",
    "The kubelet ended it",
    signal="condition DisruptionTarget with reason TerminationByKubelet, and no status reason that says why",
    next_step=_AGAIN,
    who=WhoActs.NOBODY,
)
def by_kubelet(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if not pod.reason:
        words = f"The kubelet of node {pod.node or '?'} ended pod {pod.name} and left no reason."
        yield from _disrupted(pod, "TerminationByKubelet", words)


RULES: Final[tuple[Rule, ...]] = (
    *(preempted, tainted, drained, node_gone, device_tainted),
    *(evicted, shut_down, refused, deadline, kubelet_preempted, node_lost, by_kubelet),
)
