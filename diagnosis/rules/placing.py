"""S: no node takes the pod. The scheduler counts nodes by the first check that each fails; the latest check is the cause.

The checks run in the order of `_STAGES`, so that a node which fails a later one has passed all before it: nodes that
were never meant for the pod (another GPU, a taint) fail early, and do not tell why it waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from cluster import quantities
from diagnosis.evidence import Case, NodeEvidence, PodEvidence, Unfit, unfit
from diagnosis.findings import (
    Confidence,
    Proof,
    Rule,
    Sign,
    WhoActs,
    gpus_in_words,
    pod_rule,
    proof_of_condition,
    proof_of_said,
)

UNSEEN_FOR: Final = timedelta(seconds=60)
"""How long a scheduler may say nothing of a pod: it takes seconds."""
NAMES_TOLD: Final = 3
_CORDON: Final = "node.kubernetes.io/unschedulable"
_HOST: Final = r"cpu|memory|ephemeral-storage|hugepages-\S+"
_STAGES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("S6", re.compile(r"were unschedulable")),
    ("S4", re.compile(r"untolerated taint|taints? that the pod didn't tolerate")),
    ("S5", re.compile(r"didn't match Pod's node affinity|didn't match node selector|node affinity/selector")),
    ("S10", re.compile(r"free ports")),
    ("S1", re.compile(r"Insufficient |Too many pods")),
    ("S9", re.compile(r"max volume count|enough free storage|ReadWriteOncePod")),
    ("S8", re.compile(r"volume node affinity conflict|PersistentVolume's node affinity|available volume zone")),
    ("S11", re.compile(r"cannot allocate all claims|resource ?claim|device class", re.IGNORECASE)),
    ("S10", re.compile(r"topology spread|pod (?:anti-)?affinity|anti-affinity")),
    ("S17", re.compile(r"tasks in gang unschedulable|minCount pods|from a gang|min ?member|gang", re.IGNORECASE)),
    ("S7", re.compile(r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim \"")),
)  # fmt: skip
_SPLIT_RESOURCES: Final = (
    ("S3", re.compile(rf"Insufficient (?:{_HOST})(?:\s|,|$)|Too many pods")),
    ("S2", re.compile(r"Insufficient nvidia\.com/(?:mig-|\S*\.shared)")),
)
_WORKS_ON: Final = frozenset({"TriggeredScaleUp"})


def cause_of(reason: Unfit) -> tuple[int, str]:
    """How late the scheduler asks this, and the row that it belongs to; -1 and nothing for what is not known."""
    for stage, (row, pattern) in reversed(list(enumerate(_STAGES))):
        if pattern.search(reason.text):
            split = _SPLIT_RESOURCES if row == "S1" else ()
            return stage, next((other for other, exact in split if exact.search(reason.text)), row)
    return -1, ""


def reasons(pod: PodEvidence, row: str) -> list[Unfit]:
    """The parts of the scheduler's answer that are the cause, where that is of this row."""
    scheduled = pod.condition("PodScheduled")
    if pod.node or pod.ended or scheduled.get("reason") != "Unschedulable":
        return []
    known = [(cause_of(reason), reason) for reason in unfit(scheduled.get("message") or "")]
    latest = max((stage for (stage, _), _ in known), default=-1)
    return [reason for (stage, of_row), reason in known if stage == latest and of_row == row]


def _nodes(found: list[Unfit]) -> str:
    count = max((reason.nodes or 0 for reason in found), default=0)
    return f"{count} node{'s' if count != 1 else ''}" if count else "No node"


def _found(pod: PodEvidence, words: str, *more: Proof, next_step: str = "", sure: bool = True) -> Sign:
    confidence = Confidence.CERTAIN if sure else Confidence.LIKELY
    return Sign(words, (proof_of_condition(pod, "PodScheduled"), *more), confidence, next_step, pod=pod.name)


def _asked(pod: PodEvidence, name: str) -> str:
    return str((pod.asks.get("resources") or {}).get(name) or "")


def _fitting(case: Case, pod: PodEvidence) -> list[NodeEvidence]:
    """The nodes that have the labels that it asks for, and no taint that keeps it away."""
    tolerations = pod.asks.get("tolerations") or ()
    return [node for node in case.there if node.matches(pod.asks) and not node.untolerated(tolerations)]


def _too_large(case: Case, pod: PodEvidence, resource: str) -> int | None:
    """The most that any node has that is meant for it, where that is less than it asks for."""
    asked = _asked(pod, resource)
    most = max((node.facts.allocatable.get(resource, 0) for node in _fitting(case, pod)), default=None)
    return most if most is not None and asked.isdigit() and int(asked) > most > 0 else None


def _of_resource(case: Case, pod: PodEvidence, row: str) -> Iterator[Sign]:
    found = reasons(pod, row)
    if not found:
        return
    resource = (
        found[0].text.partition("Insufficient ")[2].split()[0].rstrip(",.")
        if "Insufficient" in found[0].text
        else case.resource
    )
    asked, most = _asked(pod, resource), _too_large(case, pod, resource)
    if most is not None:
        yield _never(case, pod, resource, asked=asked, most=most)
        return
    each = gpus_in_words(resource, asked)
    words = f"{_nodes(found)} that would do for pod {pod.name} {'has' if found[0].nodes == 1 else 'have'} too few {gpus_in_words(resource)} free; it asks for {each}."
    yield _found(pod, words)


def _never(case: Case, pod: PodEvidence, resource: str, *, asked: str, most: int) -> Sign:
    """More is asked for a pod than any node that is meant for it has."""
    words = f"Pod {pod.name} asks for {gpus_in_words(resource, asked)}, and the largest node that is meant for it has {most}: it can never start."
    several = (
        "; a program that is made for several pods can get the rest by more of them (field Pods, in REST `replicas`)"
        if case.ends
        else ""
    )
    step = f"Use Clone and ask for at most {gpus_in_words(resource, str(most))} a pod (field GPUs, in REST `gpus_per_replica`){several}."
    found = _found(pod, words, next_step=step)
    title = f"No node is large enough: {gpus_in_words(resource, asked)} a pod, at most {most} a node"
    return replace(found, title=title, repeats=True)


@pod_rule(
    "S12",
    "Another queue holds it back",
    signal="condition PodScheduled with reason SchedulingGated",
    next_step="Whoever set the gate lets it go: for Kueue look at its Workload, or ask an admin.",
    who=WhoActs.ADMIN,
)
def gated(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("reason") == "SchedulingGated":
        yield _found(
            pod,
            f"Pod {pod.name} has scheduling gates that something else has to take away: {scheduled.get('message', '')}",
        )


@pod_rule(
    "S13",
    "No scheduler looks at it",
    signal="no condition PodScheduled and no event for a minute",
    next_step="An admin looks whether the scheduler that the pod names runs.",
    who=WhoActs.ADMIN,
)
def unseen(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    waits = case.now - pod.created_at
    if pod.told.get("unseen") and not pod.ended and not pod.said and waits > UNSEEN_FOR:
        name = pod.asks.get("scheduler") or "default-scheduler"
        proof = Proof(f"Pod {pod.name}", "spec.schedulerName", str(name), pod.created_at)
        words = (
            f"Pod {pod.name} was made {int(waits.total_seconds())} s ago, and {name} has said nothing of it."
        )
        yield Sign(words, (proof,), Confidence.LIKELY, pod=pod.name)


@pod_rule(
    "S14",
    "The scheduler failed",
    signal="condition PodScheduled with reason SchedulerError",
    next_step="It tries again; if it lasts, an admin looks at the scheduler's log.",
    who=WhoActs.ADMIN,
)
def scheduler_error(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("reason") == "SchedulerError":
        yield _found(pod, f"The scheduler failed on pod {pod.name}: {scheduled.get('message', '')}")


@pod_rule(
    "S7",
    "A volume that it mounts is not ready",
    signal="the scheduler names a PersistentVolumeClaim that is unbound, missing or being deleted",
    next_step="Make the claim, or wait until it is bound; its StorageClass has to exist.",
    who=WhoActs.OWNER,
)
def no_claim(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    found = reasons(pod, "S7")
    if found:
        states = [
            Proof(f"PersistentVolumeClaim {claim.name}", "status.phase", claim.phase or "absent")
            for claim in case.claims
            if claim.phase != "Bound"
        ]
        yield _found(pod, f"Pod {pod.name} waits for a volume: {found[0].text}.", *states)


@pod_rule(
    "S11",
    "No device can be allocated",
    signal="the scheduler names resource claims or device classes",
    next_step="Wait until devices are given back; if a device class is named that does not exist, an admin corrects it.",
    who=WhoActs.OWNER,
)
def no_device(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if found := reasons(pod, "S11"):
        yield _found(pod, f"Pod {pod.name} gets no device: {found[0].text}.")


@pod_rule(
    "S8",
    "Its volume is in another zone than the nodes",
    signal="volume node affinity conflict, or no available volume zone",
    next_step="Mount a volume that all zones can reach (ReadWriteMany), or ask for nodes in the volume's zone.",
    who=WhoActs.OWNER,
)
def other_zone(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if found := reasons(pod, "S8"):
        yield _found(
            pod, f"{_nodes(found)} with room cannot reach a volume of pod {pod.name}: {found[0].text}."
        )


@pod_rule(
    "S9",
    "Volumes of the nodes are used up, or its own is in use",
    signal="max volume count, not enough free storage, or ReadWriteOncePod in use",
    next_step="End what holds the claim, or mount fewer volumes.",
    who=WhoActs.OWNER,
)
def volume_limits(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if found := reasons(pod, "S9"):
        yield _found(
            pod, f"{_nodes(found)} with room cannot attach the volumes of pod {pod.name}: {found[0].text}."
        )


@pod_rule(
    "S2",
    "No such slice of a card is free",
    signal="`Insufficient nvidia.com/mig-…` or `nvidia.com/gpu.shared`",
    next_step="Wait for one to be given back, or take a flavor of another profile; an admin can cut cards in another way.",
    who=WhoActs.OWNER,
)
def no_slice(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    yield from _of_resource(case, pod, "S2")


@pod_rule(
    "S1",
    "No node has its GPUs free",
    signal="`Insufficient nvidia.com/gpu` (or of another device) on the nodes that pass all other checks",
    next_step="Wait: it starts when others end. Fewer GPUs a pod fit sooner.",
    who=WhoActs.OWNER,
)
def no_gpus(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    yield from _of_resource(case, pod, "S1")


@pod_rule(
    "S3",
    "GPUs may be free, but no CPU, memory, disk or pod slot beside them",
    signal="`Insufficient cpu`, `memory` or `ephemeral-storage`, `Too many pods`",
    next_step="Ask for less CPU and memory a GPU: a node shares its own among its GPUs.",
    who=WhoActs.OWNER,
)
def no_host_room(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    found = reasons(pod, "S3")
    for reason in found:
        name = (
            reason.text.partition("Insufficient ")[2].split()[0] if "Insufficient" in reason.text else "pods"
        )
        asked = _asked(pod, name)
        has = max(
            (node.others.get(name, "") for node in _fitting(case, pod) if node.others.get(name)),
            key=quantities.parse,
            default="",
        )
        largest = f"; the largest node that is meant for it has {has} in all" if has else ""
        words = f"{_nodes([reason])} that would do for pod {pod.name}: too little {name} free. It asks for {asked or 'some'} {name}{largest}."
        yield _found(pod, words)


@pod_rule(
    "S10",
    "Its own rules keep it apart",
    signal="topology spread, pod affinity or anti-affinity, or host ports",
    next_step="Loosen `topology`, or wait until nodes in the same place are free.",
    who=WhoActs.OWNER,
)
def own_rules(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if found := reasons(pod, "S10"):
        yield _found(
            pod,
            f"{_nodes(found)} with room for pod {pod.name} would break a rule of its own: {found[0].text}.",
        )


@pod_rule(
    "S17",
    "Not all of its pods find a place at once",
    signal="PodGroup unschedulable: so many of so many pods of the gang have a place",
    next_step="Wait until all find a place together, or ask for fewer replicas.",
    who=WhoActs.OWNER,
)
def gang(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if found := reasons(pod, "S17"):
        yield _found(pod, f"Pod {pod.name} waits for the others of its gang: {found[0].text}.")
        return
    for item in case.objects:
        told = item.condition("Unschedulable")
        if item.kind == "PodGroup" and told.get("status") == "True" and not pod.node and not pod.ended:
            yield Sign(
                f"Not all pods of the gang find a place: {told.get('message', '')}",
                (
                    Proof(
                        f"PodGroup {item.name}",
                        "status.conditions[Unschedulable]",
                        str(told.get("message", "")),
                    ),
                ),
                pod=pod.name,
            )


@pod_rule(
    "S6",
    "The nodes for it are closed",
    signal="`node(s) were unschedulable`",
    next_step="An admin has cordoned them: wait, or ask when they come back.",
    who=WhoActs.ADMIN,
)
def cordoned(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    found = _closed_to_it(case, pod)
    if found:
        names = [node.facts.name for node in _closed(case, pod)]
        more = (Proof("Nodes", "spec.unschedulable", ", ".join(names[:10])),) if names else ()
        yield _found(
            pod,
            f"{_nodes(found)} meant for pod {pod.name} take no new pods{': ' + ', '.join(names[:3]) if names else ''}.",
            *more,
        )


def _closed(case: Case, pod: PodEvidence) -> list[NodeEvidence]:
    """The closed nodes that would take it if they were open."""
    tolerations = [*(pod.asks.get("tolerations") or ()), {"key": _CORDON, "operator": "Exists"}]
    return [
        node
        for node in case.there
        if node.facts.unschedulable and node.matches(pod.asks) and not node.untolerated(tolerations)
    ]


def _closed_to_it(case: Case, pod: PodEvidence) -> list[Unfit]:
    """What the scheduler says of closed nodes, where these are the cause. That a node is closed it asks first: the others
    that fail early were never meant for the pod, if a closed one was.
    """
    if found := reasons(pod, "S6"):
        return found
    said = [
        item
        for item in unfit(pod.condition("PodScheduled").get("message") or "")
        if cause_of(item)[1] == "S6"
    ]
    early = reasons(pod, "S4") or reasons(pod, "S5")
    return said if said and early and _closed(case, pod) else []


def _taints(case: Case, pod: PodEvidence) -> dict[str, list[str]]:
    """The taints of the nodes with the right labels that keep it away, and the nodes on which each stands."""
    found: dict[str, list[str]] = {}
    for node in case.there:
        if node.matches(pod.asks):
            for taint in node.untolerated(pod.asks.get("tolerations") or ()):
                found.setdefault(taint, []).append(node.facts.name)
    return found


def _is_of_labels(case: Case, pod: PodEvidence) -> bool:
    """Whether no node has the labels that it asks for: what other nodes are tainted with does not matter then."""
    return bool(case.there) and bool(pod.asks) and not any(node.matches(pod.asks) for node in case.there)


@pod_rule(
    "S4",
    "The nodes for it are reserved for others (by a taint)",
    signal="untolerated taints on the nodes with the right labels",
    next_step="Ask the operator whether that is meant. If it is, use Clone with another flavor; if not, the operator adds the toleration to the flavor, or takes the taint off the nodes.",
    who=WhoActs.ADMIN,
)
def untolerated(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    found = reasons(pod, "S4") or reasons(pod, "S5")
    if _closed_to_it(case, pod):
        return
    tainted = [
        reason
        for reason in unfit(pod.condition("PodScheduled").get("message") or "")
        if cause_of(reason)[1] == "S4"
    ]
    if not found or not tainted or _is_of_labels(case, pod):
        return
    taints = _taints(case, pod)
    if not taints and case.there and reasons(pod, "S5"):
        return
    names = ", ".join(f"{taint} (on {_some(nodes)})" for taint, nodes in sorted(taints.items()))
    more = (Proof("Nodes", "spec.taints", names),) if names else ()
    count = max((reason.nodes or 0 for reason in tainted), default=0)
    words = f"The scheduler counts {count or 'no'} node{'s' if count != 1 else ''} with a taint that keeps pod {pod.name} away."
    if names:
        words += f" Of those that the portal sees for it now: {names}."
    step = (
        f"Ask the operator whether these nodes are reserved on purpose. If they are, use Clone with another flavor. If not, the operator "
        f"takes the taint off, and the {case.noun} starts by itself; or adds a toleration to flavor {case.asked.flavor or 'of it'}, for what starts then."
    )
    yield _found(pod, words, *more, next_step=step, sure=bool(names))


def _some(names: list[str]) -> str:
    """The first names of them, and how many more."""
    told = ", ".join(names[:NAMES_TOLD])
    return f"{told} and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else told


@pod_rule(
    "S5",
    "No node has the labels that it asks for",
    signal="`node(s) didn't match Pod's node affinity/selector`",
    next_step="Take a flavor or capacity type that the cluster has nodes of, or ask an admin to label or add nodes.",
    who=WhoActs.OWNER,
)
def no_labels(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    found = reasons(pod, "S5") or (reasons(pod, "S4") if _is_of_labels(case, pod) else [])
    if not found or _closed_to_it(case, pod) or (not _is_of_labels(case, pod) and _taints(case, pod)):
        return
    wanted: dict[str, set[str]] = {
        key: {str(value)} for key, value in (pod.asks.get("selector") or {}).items()
    }
    for term in pod.asks.get("terms") or ():
        for wish in term.get("matchExpressions") or ():
            if wish.get("operator") == "In":
                wanted.setdefault(str(wish.get("key")), set()).update(wish.get("values") or ())
    counts = [
        f"{key} in {', '.join(sorted(values))}: {sum(node.facts.labels.get(key) in values for node in case.there)} nodes"
        for key, values in sorted(wanted.items())
    ]
    more = (Proof("Nodes", "metadata.labels", "; ".join(counts)),) if counts and case.there else ()
    said = f" ({'; '.join(counts)})" if more else ""
    yield _found(
        pod, f"Of the cluster's nodes none has all labels that pod {pod.name} asks for{said}.", *more
    )


@pod_rule(
    "S15",
    "No new node comes for it",
    signal="event NotTriggerScaleUp of the cluster autoscaler, or FailedScheduling of karpenter",
    next_step="Take another flavor, zone or capacity type; or an admin raises what the autoscaler may bring.",
    who=WhoActs.OWNER,
)
def no_new_node(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if pod.node or pod.ended:
        return
    heard = [
        said
        for said in pod.said
        if said.reason in {"NotTriggerScaleUp", "InsufficientCapacityError"}
        or (said.reason == "FailedScheduling" and "karpenter" in said.source)
    ][:1]
    grows = [said for said in pod.said if said.reason in _WORKS_ON]
    if heard and not (grows and (grows[0].at or case.now) > (heard[0].at or case.now)):
        yield Sign(
            f"The autoscaler brings no node for pod {pod.name}: {heard[0].message}",
            tuple(map(proof_of_said, heard)),
            pod=pod.name,
        )


@pod_rule(
    "S16",
    "It waits for others to leave",
    signal="status.nominatedNodeName is set",
    next_step="Nothing to do: it starts when the pods that it displaces have ended, at most after their grace period.",
    who=WhoActs.NOBODY,
)
def displacing(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    node = pod.told.get("nominated")
    if node and not pod.node and not pod.ended:
        proof = Proof(f"Pod {pod.name}", "status.nominatedNodeName", str(node))
        yield Sign(
            f"Pods of lower priority on node {node} are leaving for pod {pod.name}.", (proof,), pod=pod.name
        )


RULES: Final[tuple[Rule, ...]] = (
    *(gated, unseen, scheduler_error, displacing, no_claim, no_device, other_zone, volume_limits),
    *(no_slice, no_gpus, no_host_room, own_rules, gang, cordoned, untolerated, no_labels, no_new_node),
)
