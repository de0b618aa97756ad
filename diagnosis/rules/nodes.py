"""G and C8: nodes whose GPUs are missing or broken, and claims that get no volume. They explain what a pod runs into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from diagnosis.evidence import Case, NodeEvidence
from diagnosis.findings import (
    Confidence,
    Proof,
    Rule,
    Sign,
    WhoActs,
    case_rule,
    gpus_in_words,
    proof_of_said,
)
from workloads.placement import WHOLE_GPU

_XID: Final = re.compile(r"\bXid\b|GPU has fallen off|GpuUnhealthy|DeviceUnhealthy", re.IGNORECASE)
_MIG_STATE: Final = "nvidia.com/mig.config.state"
_PRESENT: Final = "nvidia.com/gpu.present"
_WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"


def _in_trouble(case: Case) -> list[NodeEvidence]:
    """The nodes that its failed pods were on, or where its pods have not started, and those with the right labels for pods
    that no node takes. Of a request without GPUs, and of pods that run, no node's GPUs matter.
    """
    if not case.asked.gpus:
        return []
    failed = {
        pod.node for pod in case.pods if pod.node and (pod.failed or (pod.told and pod.started_at is None))
    }
    homeless = [pod for pod in case.pods if not pod.node and not pod.ended and pod.condition("PodScheduled")]
    return [
        node
        for node in case.there
        if node.facts.name in failed or any(pod.asks and node.matches(pod.asks) for pod in homeless)
    ]


@case_rule(
    "G1",
    "A node's GPU is unhealthy",
    signal="a node offers fewer GPUs than it has, or an XID error is reported of it",
    next_step="Tell the operator the node's name. If the run fails there, use Run again: it may get another node.",
    who=WhoActs.ADMIN,
)
def unhealthy_gpu(case: Case) -> Iterator[Sign]:
    resource = case.resource or WHOLE_GPU
    for node in _in_trouble(case):
        has, offers = node.capacity.get(resource, 0), node.facts.allocatable.get(resource, 0)
        xid = [said for said in node.said if _XID.search(f"{said.reason} {said.message}")][:1]
        broken = [
            item
            for item in node.conditions
            if _XID.search(f"{item.get('type')} {item.get('reason')} {item.get('message')}")
        ]
        if 0 < offers < has or xid or broken:
            name = f"Node {node.facts.name}"
            proofs = (
                [Proof(name, f"status.allocatable[{resource}]", f"{offers} of {has}")] if offers < has else []
            )
            proofs += [proof_of_said(said) for said in xid]
            proofs += [
                Proof(name, f"status.conditions[{item.get('type')}]", str(item.get("message", "")))
                for item in broken[:1]
            ]
            words = (
                f"{name} offers {offers} of its {has} {gpus_in_words(resource)}."
                if offers < has
                else f"{name} reports an error of a GPU."
            )
            yield _matters(case, node, f"{words} {_meaning(case, node)}", tuple(proofs))
            return


def _meaning(case: Case, node: NodeEvidence) -> str:
    """What a node in trouble means for the workload."""
    on_it = next((pod for pod in case.pods if pod.node == node.facts.name), None)
    if on_it is None:
        return f"A pod of this {case.noun} waits for such a node: it may start later for it."
    if on_it.failed:
        return f"Pod {on_it.name} of this {case.noun} failed there, perhaps for it."
    return (
        f"Pod {on_it.name} of this {case.noun} is on that node and has not started: it may be late, or fail."
    )


def _matters(case: Case, node: NodeEvidence, words: str, proofs: tuple[Proof, ...]) -> Sign:
    name = node.facts.name
    on_it = any(pod.node == name for pod in case.pods)
    step = f"Tell the operator the name of the node, `{name}`."
    if on_it and case.over and case.ends:
        step += " Use Run again: it may get another node."
    elif on_it and case.ends:
        step += " If it does not start in some minutes, cancel it and use Run again: it may get another node."
    elif not on_it:
        step += f" Nothing else is to be done: the {case.noun} starts by itself where there is room."
    return Sign(words, proofs, Confidence.LIKELY, step)


@case_rule(
    "G2",
    "A node does not offer its GPUs",
    signal="a node that should have GPUs has none to give: device plugin, driver or MIG configuration is not ready",
    next_step="Wait some minutes if the node is new; else an admin looks at its device plugin and MIG configuration.",
    who=WhoActs.ADMIN,
)
def no_plugin(case: Case) -> Iterator[Sign]:
    resource = case.resource or WHOLE_GPU
    for node in _in_trouble(case):
        labels = node.facts.labels
        state = labels.get(_MIG_STATE, "")
        lacks = labels.get(_PRESENT) == "true" and not any(node.facts.allocatable.values())
        if not node.facts.allocatable.get(resource) and (
            lacks or state in {"pending", "failed", "rebooting"}
        ):
            name = f"Node {node.facts.name}"
            proofs = [Proof(name, f"status.allocatable[{resource}]", "0")]
            if state:
                proofs.append(Proof(name, f"metadata.labels[{_MIG_STATE}]", state))
            yield Sign(
                f"{name} has GPUs and offers no {gpus_in_words(resource)}{': its MIG configuration is ' + state if state and state != 'success' else ''}. {_meaning(case, node)}",
                tuple(proofs),
                Confidence.LIKELY,
            )
            return


@case_rule(
    "C8",
    "A volume claim gets no volume",
    signal="events ProvisioningFailed or FailedBinding of a claim that is not bound",
    next_step="Look at the claim's StorageClass: it has to exist and be able to make such a volume; an admin sees its provisioner's log.",
    who=WhoActs.OWNER,
)
def not_provisioned(case: Case) -> Iterator[Sign]:
    for claim in case.claims:
        heard = [said for said in claim.said if said.reason in {"ProvisioningFailed", "FailedBinding"}][:1]
        if claim.phase == "Pending" and heard and _WAITS_FOR_CONSUMER not in heard[0].message:
            yield Sign(
                f"Claim {claim.name} gets no volume: {heard[0].message}", tuple(map(proof_of_said, heard))
            )


STORAGE: Final[tuple[Rule, ...]] = (not_provisioned,)
GPUS: Final[tuple[Rule, ...]] = (unhealthy_gpu, no_plugin)
