"""What each reason means, and what comes next: the one table that pages, REST and docs/reference read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workloads.states import Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    """`meaning` is for readers who look the token up, `next_step` for owners of a workload with it: what comes, or what to do.

    `called` is what pages call it, where the words of the token itself say it to those alone who know the machine.
    """

    meaning: str
    next_step: str = ""
    called: str = ""


REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({
    Reason.PENDING_EVALUATION: ReasonText(
        "Just submitted or resumed; admission has not looked at it yet.",
        "The portal looks at it within seconds.",
        called="Not looked at yet",
    ),
    Reason.WAITING_FOR_QUOTA: ReasonText(
        "The team's quota and what it may borrow are used, or others stand before it in the queue.",
        "It starts by itself when GPUs that its team may use are free again.",
    ),
    Reason.WAITING_FOR_TEAM_CEILING: ReasonText(
        "The team holds so much of the CPU, memory, ephemeral storage or pods that it may hold that this does not fit beside it.",
        "It starts by itself when enough of the team's other work has ended.",
        called="The team holds all that it may",
    ),
    Reason.WAITING_FOR_BUDGET: ReasonText(
        "What is left of the team's budget does not pay for the least that it must be able to run.",
        "It starts by itself when other work ends for less than was set aside, or when the budget begins anew. With fewer GPUs or on spot it needs less.",
    ),
    Reason.EXCEEDS_MAX_QUOTA: ReasonText(
        "It asks for more than its team, or one member, may ever hold, or for a longer time limit.",
        "Waiting does not help: ask for less, or ask a quota manager for more.",
        called="Asks for more than its team may have",
    ),
    Reason.NO_MATCHING_FLAVOR: ReasonText(
        "It was possible once: since then the quota or the nodes have gone.",
        "The nodes or the quota that it was accepted for are gone; it waits until they come back.",
        called="Its nodes or its quota are gone",
    ),
    Reason.TOPOLOGY_PLACEMENT_FAILED: ReasonText(
        "The quota would do, but no node has enough GPUs, CPU or memory free for each of its pods.",
        "It starts by itself when enough is free on one node.",
        called="No node has room",
    ),
    Reason.WAITING_FOR_PREEMPTED_WORKLOADS: ReasonText(
        "Others are being stopped so that it can start; they have their grace period to save what they did.",
        "It starts by itself once they have stopped.",
        called="Others are being stopped for it",
    ),
    Reason.QUEUE_STOPPED: ReasonText(
        "Somebody stopped the team's queue; nothing of it starts until the queue is started again.",
        "A lead of the team can start the queue again, on the page of its quota.",
    ),
    Reason.BACKOFF_WAITING: ReasonText(
        "No node took it within `schedule_deadline_seconds`; it gave its GPUs back and waits.",
        "The last try failed; the next one follows by itself after a pause.",
        called="Pause before the next try",
    ),
    Reason.CLUSTER_UNAVAILABLE: ReasonText(
        "The cluster does not answer, so nothing can start.",
        "The cluster does not answer. Nothing is lost; the portal goes on trying.",
    ),
    Reason.PREEMPTED: ReasonText(
        "It had to leave so that another one starts; the message says by whose need. No retry is used up.",
    ),
    Reason.SPOT_RECLAIMED: ReasonText(
        "The spot node was taken back. No retry is used up.",
        called="Its spot node was taken back",
    ),
    Reason.NODE_LOST: ReasonText(
        "Its node is gone, drained or does not answer. No retry is used up; too often ends as Failed.",
        "The node went away. This does not count as a retry.",
    ),
    Reason.CREATING: ReasonText(
        "Its objects are being made in the cluster.",
    ),
    Reason.SCHEDULING: ReasonText(
        "Kubernetes is choosing a node for its pod.",
    ),
    Reason.UNSCHEDULABLE: ReasonText(
        "Kubernetes finds no node for it; the message is the scheduler's own.",
        "It has its GPUs by quota, but no node has room now. Nodes may still be coming up.",
        called="No node takes it yet",
    ),
    Reason.PULLING: ReasonText(
        "The image is being pulled and volumes are being mounted.",
        called="Pulling its image",
    ),
    Reason.INITIALIZING: ReasonText(
        "What runs before its program (init containers) is at work.",
    ),
    Reason.GANG_WAITING: ReasonText(
        "Some of its pods run and wait for the others, which are still being started.",
        called="Waiting for its other pods",
    ),
    Reason.LOADING: ReasonText(
        "The container runs and is not ready yet: mostly it loads its model.",
    ),
    Reason.RESTARTING: ReasonText(
        "The last attempt failed and the next one follows, or a container is started again.",
    ),
    Reason.PROGRESSING: ReasonText(
        "The container runs.",
    ),
    Reason.READY: ReasonText(
        "All replicas of the endpoint are ready.",
    ),
    Reason.DEGRADED: ReasonText(
        "Some of its pods are not ready.",
        "The pods and the logs show which.",
    ),
    Reason.UPDATING: ReasonText(
        "The endpoint replaces pods of the old revision by new ones.",
    ),
    Reason.SCALED_TO_ZERO: ReasonText(
        "Nobody calls the endpoint, and its scaler has taken the last replica away; its GPUs stay reserved for it.",
        "The next request wakes it; that one waits until a replica is ready.",
    ),
    Reason.WAKING: ReasonText(
        "A request came for an endpoint without replicas: they are being started again.",
        "Requests are held until the first replica is ready.",
    ),
    Reason.SCALER_FAILED: ReasonText(
        "The scaler cannot do its work: the message says what it lacks, and how many replicas run meanwhile.",
        "It serves with the replicas it has, and does not follow the load until this is put right.",
    ),
    Reason.PREEMPTING: ReasonText(
        "It is being stopped so that another one can start, and is queued again afterwards.",
        called="Making room for another",
    ),
    Reason.QUOTA_REDUCED: ReasonText(
        "A quota was cut below what its team uses, and it was stopped for that. No retry is used up.",
    ),
    Reason.USER_REQUESTED: ReasonText(
        "A user asked for it.",
        called="A user asked for it",
    ),
    Reason.WAITING_FOR_SWEEP: ReasonText(
        "A member of a sweep beyond those that may run at once (`max_parallel`); it asks for no GPU yet.",
        "It is queued by itself when another member of its sweep has ended; Resume queues it at once.",
    ),
    Reason.EARLY_STOPPED: ReasonText(
        "A rule of its sweep (`early_stop`) stopped it; the message holds the metric and what it was compared with.",
    ),
    Reason.IDLE_POLICY: ReasonText(
        "The idle policy of its template stopped it with its grace period: all its GPUs did nothing for longer than that allows.",
        "Look at why it did nothing, then resume it: it goes on from its last checkpoint.",
        called="Stopped for being idle",
    ),
    Reason.BUDGET_EXHAUSTED: ReasonText(
        "What the team's budget had for it is spent: it was stopped with its grace period, so that it ends within that.",
        "Resume it when the budget has money again: it waits for that in the queue and goes on from its last checkpoint.",
    ),
    Reason.DEADLINE_EXCEEDED: ReasonText(
        "It used its time limit, counted over Starting and Running of all attempts.",
        "It reached its time limit. Start it again with a longer one, best from a checkpoint.",
        called="Time limit reached",
    ),
    Reason.IMAGE_PULL_FAILED: ReasonText(
        "The image cannot be pulled; after `image_pull_deadline_seconds` it fails.",
        "Check the image's name and tag, and whether the cluster may pull it.",
    ),
    Reason.COMPLETED: ReasonText(
        "It did what it was asked for.",
    ),
    Reason.BACKOFF_LIMIT_EXCEEDED: ReasonText(
        "The Job reports failure and no pod is left to say why.",
        "It failed as often as its retries allow. The logs of each attempt are kept.",
        called="Failed as often as it may",
    ),
    Reason.OOM_KILLED: ReasonText(
        "It used more memory than its limit.",
        "The container used more memory than its limit. Ask for more memory, or make the batch smaller.",
        called="Out of memory (OOMKilled)",
    ),
    Reason.INVALID_SPEC: ReasonText(
        "The cluster refuses it for good; the message is the API server's own.",
        "The cluster does not take what was asked for; its message says why. Change that in a copy, and submit it anew.",
        called="Refused by the cluster",
    ),
    Reason.APPLICATION_ERROR: ReasonText(
        "Its program ended with an exit code other than 0.",
        "The program ended with an error. Its last lines are in the logs.",
        called="Its program failed",
    ),
    Reason.START_ERROR: ReasonText(
        "Its container did not start: the image has no such program, or may not run it. Where the node tries again, it fails after `image_pull_deadline_seconds`.",
        "The program never ran, so it wrote no log. Look at the command's first word: the image must have a program of that name.",
        called="Its program could not start",
    ),
    Reason.DELETED_EXTERNALLY: ReasonText(
        "Somebody else deleted its object in the cluster.",
        "Somebody deleted its object in the cluster, not through the portal.",
        called="Deleted in the cluster",
    ),
})  # fmt: skip


def next_step(reason: str) -> str:
    """What comes next for a workload with this reason, or what to do; empty if nothing comes and nothing is to be done."""
    text = REASON_TEXTS.get(Reason(reason)) if reason in set(Reason) else None
    return text.next_step if text else ""


def called(reason: str) -> str:
    """What pages call this reason, where that is not the words of the token; empty for those, and for no reason."""
    text = REASON_TEXTS.get(Reason(reason)) if reason in set(Reason) else None
    return text.called if text else ""


def glossary() -> str:
    """All reasons with their meanings, as a Markdown list: what the OpenAPI document says of a `reason`."""
    return "\n".join(f"* `{reason}` - {text.meaning}" for reason, text in REASON_TEXTS.items())
