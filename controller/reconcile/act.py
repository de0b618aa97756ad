"""The acting half of a reconcile: a plan's cluster calls, and what their refusals mean for the plan."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterConflict, ClusterError, ClusterRejected, ForeignObject, ObjectNotFound
from cluster.kinds import ObjectRef
from controller.admission import scheduler
from controller.logs import workload_logs
from controller.namespaces.namespaces import ensure_namespace, forget_namespace
from controller.reconcile import objects, orphans
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.decide import Action, Plan, rest, stop
from workloads.models import Attempt, Workload
from workloads.pods.observation import Observation
from workloads.states import Phase, Reason

logger = logging.getLogger(__name__)

STEERED = frozenset({Phase.ADMITTED, Phase.STARTING, Phase.RUNNING})
SURGE_RETRY_SECONDS = 15
SERVING = frozenset({Reason.READY, Reason.DEGRADED, Reason.UPDATING})
REFUSED_RETRY_SECONDS = 30
REFUSED_RETRY_SECONDS_MIN = 2
NAMESPACE_RETRY_SECONDS = 2
NAMESPACE_ENDS = "because it is being terminated"


@dataclass
class Look:
    """One observation, with the raw facts that acting on it needs."""

    observation: Observation
    primary: dict[str, Any] | None
    companions: Sequence[dict[str, Any]] = ()
    pods: Sequence[dict[str, Any]] = ()
    """Of all attempts, as they were listed."""
    makers: Sequence[dict[str, Any]] = ()
    """What makes pods and was left behind without the primary."""
    strays: Sequence[dict[str, Any]] = ()
    """Pods that no controller has or will take over."""


@dataclass
class ActionContext:
    """What acts on one workload: the client, and whose objects it makes."""

    client: ClusterClient
    workload: Workload
    adapter: WorkloadAdapter
    attempt: Attempt | None
    now: datetime
    patience: float
    """Seconds for which what is admitted may hold its claim while the cluster does not take its objects."""


def execute(plan: Plan, look: Look | None, hand: ActionContext) -> Plan:
    """Make the plan's cluster calls. The plan that is left to record: another one where a call was refused."""
    try:
        return _act(plan, look, hand)
    except ObjectNotFound:
        forget_namespace(hand.client, hand.workload.team)
        if Action.CREATE in plan.actions and not _served(hand):
            return _no_longer_served(hand)
        if look is not None and look.observation.incomplete:
            # Perhaps the server of its kind is gone: the observation says what that means.
            return replace(plan, actions=(), next_in_seconds=REFUSED_RETRY_SECONDS)
        return _unchanged(hand.workload, next_in_seconds=1)
    except (ClusterRejected, ForeignObject) as error:
        return _refused(plan, look, hand, error)
    except ClusterConflict:
        # Another client wrote at the same moment: look again, and decide again.
        return _unchanged(hand.workload, next_in_seconds=1)


def _served(hand: ActionContext) -> bool:
    """Whether the API serves the kind of its object; some come with an operator, and go with it."""
    kind = hand.adapter.primary_of(hand.workload)
    return kind in kinds.CORE or (kind.api_version, kind.kind) in hand.client.served_kinds()


def _no_longer_served(hand: ActionContext) -> Plan:
    """It gives its claim back, and asks again now and then: who was taken away may come back."""
    kind = hand.adapter.primary_of(hand.workload)
    message = f"The cluster serves no {kind.kind} of {kind.api_version} now; it waits until it does again."
    return _at_once(rest(message))


def _at_once(stopped: Plan) -> Plan:
    """What a refusal has made of another plan: the next look does it, without waiting."""
    return replace(stopped, actions=(), next_in_seconds=0)


def get_own(client: ClusterClient, ref: ObjectRef, workload: Workload) -> dict[str, Any] | None:
    """The object, unless there is none or it is a stranger's."""
    try:
        item = client.get(ref)
    except ObjectNotFound:
        return None
    return item if objects.belongs_to(item, workload) else None


def _act(plan: Plan, look: Look | None, hand: ActionContext) -> Plan:
    client, workload, adapter, now = hand.client, hand.workload, hand.adapter, hand.now
    if look is not None and look.strays and Action.DELETE not in plan.actions:
        _delete_strays(look, hand)
    if Action.CREATE in plan.actions:
        ensure_namespace(client, workload.team)
        hand.attempt = hand.attempt or objects.open_attempt(workload, adapter, now=now)
        objects.create_or_update(client, workload, adapter, hand.attempt, now=now)
    if Action.APPLY in plan.actions and hand.attempt is not None:
        size = orphans.size(look.makers) if look is not None else None
        waiting = _wait_for_surge(plan, look, hand)
        if waiting is not None:
            lost = look is not None and look.primary is None
            objects.update_meanwhile(
                client, workload, adapter, hand.attempt, now=now, lost=lost, replicas=size
            )
            _steer(waiting, look, hand)
            return waiting
        ensure_namespace(client, workload.team)
        objects.update_live(client, workload, adapter, hand.attempt, now=now, replicas=size)
    if Action.DELETE in plan.actions and look is not None:
        _delete(look, hand)
    _steer(plan, look, hand)
    return plan


def _delete(look: Look, hand: ActionContext) -> None:
    """Its object, which takes its pods along; where that is gone already, what it has left behind."""
    if look.primary is None:
        _delete_left_behind(look, hand)
        return
    if not look.observation.deleting:
        _fetch_logs(hand)
    objects.delete(hand.client, look.primary)


def _delete_left_behind(look: Look, hand: ActionContext) -> None:
    """Its pods and what makes them, where their object is gone and no other controller deletes them
    (`kubectl delete --cascade=orphan`).
    """
    makers = [maker for maker in look.makers if not orphans.goes(maker)]
    pods = [pod for pod in look.pods if not orphans.goes(pod)]
    if hand.adapter.makers:
        # Who has another controller goes with that one, or is made anew by it.
        pods = [pod for pod in pods if orphans.controller_of(pod) is None]
    if makers or pods:
        _fetch_logs(hand)
    for maker in makers:
        objects.delete(hand.client, maker)
    _delete_pods(pods, hand)


def _delete_strays(look: Look, hand: ActionContext) -> None:
    """What holds GPUs beyond the claim and serves no longer as wanted. A refusal must not stop what is as it should be."""
    _fetch_logs(hand)
    try:
        _delete_pods(look.strays, hand)
    except (ClusterRejected, ClusterConflict):
        logger.warning("strays.kept", exc_info=True, extra={"workload_id": str(hand.workload.public_id)})


def _delete_pods(pods: Sequence[dict[str, Any]], hand: ActionContext) -> None:
    for pod in pods:
        metadata = pod["metadata"]
        hand.client.delete(
            ObjectRef("v1", "Pod", metadata["namespace"], metadata["name"]), uid=metadata["uid"]
        )


def _steer(plan: Plan, look: Look | None, hand: ActionContext) -> None:
    """Its companions do as people want now, also while a change of the object itself waits."""
    if look is None or not look.companions or plan.to not in STEERED:
        return
    changes = hand.adapter.adjustments(hand.workload, look.companions, look.observation, plan)
    objects.adjust(hand.client, changes)


def _fetch_logs(hand: ActionContext) -> None:
    """What is not stored yet, as far as it can be had: a node that gives no logs must not keep anything alive."""
    if hand.attempt is None:
        return
    try:
        workload_logs.fetch_last(hand.client, hand.workload, attempt=hand.attempt.number, now=hand.now)
    except ClusterError:
        logger.warning("logs.incomplete", exc_info=True, extra={"workload_id": str(hand.workload.public_id)})


def _wait_for_surge(plan: Plan, look: Look | None, hand: ActionContext) -> Plan | None:
    """A plan that waits, if the change needs units on top that the quota does not have; None if it may go on."""
    stands = [] if look is None else [look.primary] if look.primary is not None else look.makers
    if not stands:
        return None
    units = max(hand.adapter.surge_units(hand.workload, stand) for stand in stands)
    judgement = scheduler.admit_surge(hand.workload, units=units, now=hand.now)
    if judgement.admitted:
        return None
    # That it wakes, or cannot scale, is worse than that a change waits.
    reason = Reason.UPDATING if plan.reason in SERVING else plan.reason
    wait = SURGE_RETRY_SECONDS
    return replace(
        plan,
        reason=reason,
        message=f"The new revision waits. {judgement.message}",
        actions=(),
        next_in_seconds=wait,
        no_surge=judgement.message,
    )


def _unchanged(workload: Workload, *, next_in_seconds: float, message: str | None = None) -> Plan:
    """Leave everything as it is and look again."""
    text = workload.message if message is None else message
    return Plan(Phase(workload.phase), Reason(workload.reason), text, next_in_seconds=next_in_seconds)


def _refused(plan: Plan, look: Look | None, hand: ActionContext, error: ClusterError) -> Plan:
    """What a refusal means: for a delete or a change to wait, for a start to wait too unless no time mends it."""
    why, passing = str(error), isinstance(error, ClusterRejected) and not error.permanent
    if Action.DELETE in plan.actions:
        # It goes on to where people want it; what exists still holds its claim meanwhile.
        message = f"The cluster refuses to delete it: {why}"
        return replace(plan, message=message, actions=(), next_in_seconds=REFUSED_RETRY_SECONDS)
    if NAMESPACE_ENDS in why:
        forget_namespace(hand.client, hand.workload.team)
        message = "Its namespace is being deleted; it is made again after that."
        return _unchanged(hand.workload, next_in_seconds=NAMESPACE_RETRY_SECONDS, message=message)
    exists = look is not None and (look.observation.exists or look.observation.pods_alive > 0)
    if Action.APPLY in plan.actions and exists:
        # What runs is worth more than the change: it stays, and says why the change did not come.
        message = f"The cluster refused the change: {why}"
        wait = REFUSED_RETRY_SECONDS
        final = "" if passing else why
        return replace(plan, message=message, actions=(), next_in_seconds=wait, refused=final)
    if passing:
        return _refused_for_now(hand, why)
    # What was made before the refusal runs, and holds GPUs, until it is taken down again.
    made = exists or _was_made(hand)
    message = f"The cluster refused it: {why}"
    if made:
        return _at_once(stop(Reason.INVALID_SPEC, message, to=Phase.FAILED))
    ending = (Action.END_ATTEMPT, Action.RELEASE)
    return Plan(Phase.FAILED, Reason.INVALID_SPEC, message, ending, next_in_seconds=None)


def _refused_for_now(hand: ActionContext, why: str) -> Plan:
    """It asks again, soon at first; after as long as one that no node takes, others get what it holds meanwhile."""
    began = hand.attempt.created_at if hand.attempt is not None else hand.now
    age = (hand.now - max(began, hand.workload.since)).total_seconds()
    if age >= hand.patience:
        message = (
            f"The cluster did not take it within {hand.patience:.0f} seconds; it tries again later. {why}"
        )
        return _at_once(rest(message))
    message = f"The cluster does not take it now, so it is tried again: {why}"
    wait = min(max(REFUSED_RETRY_SECONDS_MIN, age), REFUSED_RETRY_SECONDS)
    return _unchanged(hand.workload, next_in_seconds=wait, message=message)


def _was_made(hand: ActionContext) -> bool:
    if hand.attempt is None:
        return False
    ref = objects.primary_ref(hand.workload, hand.adapter, hand.attempt)
    return get_own(hand.client, ref, hand.workload) is not None
