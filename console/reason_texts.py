"""What each reason means, and what comes next: the one table that pages, REST and docs/reference read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workloads.states import Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    """`meaning` is for readers who look the token up, `next_step` for owners of a workload with it: what comes, or what to do."""

    meaning: str
    next_step: str = ""


REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({
    Reason.PENDING_EVALUATION: ReasonText(
        "Just submitted or resumed; nobody has judged it yet.",
        "It has just been handed in; admission looks at it within seconds.",
    ),
    Reason.WAITING_FOR_QUOTA: ReasonText(
        "The team's quota and what it may borrow are used, or others stand before it in the queue.",
        "It starts by itself when units that it may use are given back.",
    ),
    Reason.WAITING_FOR_TEAM_CEILING: ReasonText(
        "The team holds so much of its ceiling of CPU, memory, ephemeral storage or pods that this does not fit beside it.",
        "It starts by itself when others of the team end and enough is given back.",
    ),
    Reason.WAITING_FOR_BUDGET: ReasonText(
        "What is left of the team's budget does not pay for the least that it must be able to run.",
        "It starts by itself when others give money back or the budget begins anew; with fewer GPUs or on spot it needs less.",
    ),
    Reason.EXCEEDS_MAX_QUOTA: ReasonText(
        "It asks for more than its team, or one member, may ever hold, or for a longer time limit.",
        "It can only start with a larger quota or ceiling, or when it asks for less.",
    ),
    Reason.NO_MATCHING_FLAVOR: ReasonText(
        "It was possible once: since then the quota row or the nodes have vanished.",
        "The nodes or the quota it was accepted for are gone; it waits until they come back.",
    ),
    Reason.TOPOLOGY_PLACEMENT_FAILED: ReasonText(
        "The quota would do, but no node has enough units free for each of its pods.",
    ),
    Reason.WAITING_FOR_PREEMPTED_WORKLOADS: ReasonText(
        "Others were asked to leave so that it may start; they have their grace period.",
    ),
    Reason.QUEUE_STOPPED: ReasonText(
        "Somebody stopped the team's queue; nothing of it is admitted until it is started again.",
    ),
    Reason.BACKOFF_WAITING: ReasonText(
        "No node took it within `schedule_deadline_seconds`; it gave its claim back and waits.",
        "The last try failed; the next one follows after a pause.",
    ),
    Reason.CLUSTER_UNAVAILABLE: ReasonText(
        "The cluster does not answer, so nothing is admitted.",
        "The cluster does not answer. Nothing is lost; the portal goes on trying.",
    ),
    Reason.PREEMPTED: ReasonText(
        "It had to leave so that another one starts; the message says by whose need. No retry is used up.",
    ),
    Reason.SPOT_RECLAIMED: ReasonText(
        "The spot node was taken back. No retry is used up.",
    ),
    Reason.NODE_LOST: ReasonText(
        "Its node is gone, drained or does not answer. No retry is used up; too often ends as Failed.",
        "The node went away. This does not count as a retry.",
    ),
    Reason.CREATING: ReasonText(
        "Its objects are being made.",
    ),
    Reason.SCHEDULING: ReasonText(
        "Its pod waits for the scheduler.",
    ),
    Reason.UNSCHEDULABLE: ReasonText(
        "The scheduler says that no node fits; the message is the scheduler's own.",
        "It is admitted, but no node has room now. Nodes may still be coming up.",
    ),
    Reason.PULLING: ReasonText(
        "The image is pulled and volumes are mounted.",
    ),
    Reason.INITIALIZING: ReasonText(
        "Init containers run.",
    ),
    Reason.GANG_WAITING: ReasonText(
        "Some of its pods run and wait for the others, which are still being started.",
    ),
    Reason.LOADING: ReasonText(
        "The container runs and its readiness probe does not succeed yet.",
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
        "Part of it is not up.",
        "Some of its pods are not ready. The pods and the logs show which.",
    ),
    Reason.UPDATING: ReasonText(
        "The endpoint replaces pods of the old revision by new ones.",
    ),
    Reason.SCALED_TO_ZERO: ReasonText(
        "Nobody calls the endpoint, and its scaler has taken the last replica away; it keeps its claim.",
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
        "It is leaving so that another one may start, and is queued again afterwards.",
    ),
    Reason.QUOTA_REDUCED: ReasonText(
        "A quota was cut below what its team uses, and it had to leave. No retry is used up.",
    ),
    Reason.USER_REQUESTED: ReasonText(
        "A user asked for it.",
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
    ),
    Reason.BUDGET_EXHAUSTED: ReasonText(
        "What the team's budget had for it is spent: it was stopped with its grace period, so that it ends within that.",
        "Resume it when the budget has money again: it waits for that in the queue and goes on from its last checkpoint.",
    ),
    Reason.DEADLINE_EXCEEDED: ReasonText(
        "It used its time limit, counted over Starting and Running of all attempts.",
        "It reached its time limit. Start it again with a longer one, best from a checkpoint.",
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
    ),
    Reason.OOM_KILLED: ReasonText(
        "It used more memory than its limit.",
        "The container used more memory than its limit. Ask for more memory, or make the batch smaller.",
    ),
    Reason.INVALID_SPEC: ReasonText(
        "The cluster refuses it for good; the message is the API server's own.",
        "The cluster refused the objects; the message above is the API server's own.",
    ),
    Reason.APPLICATION_ERROR: ReasonText(
        "Its program ended with an exit code other than 0.",
        "The program ended with an error. Its last lines are in the logs.",
    ),
    Reason.START_ERROR: ReasonText(
        "Its container did not start: the image has no such program, or may not run it. Where the node tries again, it fails after `image_pull_deadline_seconds`.",
        "The program never ran, so it wrote no log. Look at the command's first argument: that is what the image must have.",
    ),
    Reason.DELETED_EXTERNALLY: ReasonText(
        "Somebody else deleted its object in the cluster.",
        "Somebody deleted its object in the cluster, not through the portal.",
    ),
})  # fmt: skip


def next_step(reason: str) -> str:
    """What comes next for a workload with this reason, or what to do; empty if nothing comes and nothing is to be done."""
    text = REASON_TEXTS.get(Reason(reason)) if reason in set(Reason) else None
    return text.next_step if text else ""


def glossary() -> str:
    """All reasons with their meanings, as a Markdown list: what the OpenAPI document says of a `reason`."""
    return "\n".join(f"* `{reason}` - {text.meaning}" for reason, text in REASON_TEXTS.items())
