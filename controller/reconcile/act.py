"""The acting half of a reconcile: makes a plan's cluster calls, and changes the plan if a call is refused."""

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
from controller.reconcile import drift, objects, orphans
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.decide import Action, Plan, rest, stop
from controller.reconcile.identity import get_own
from logs import workload_logs
from tenancy.namespaces import ensure_namespace, forget_namespace
from workloads.models import Attempt, Workload
from workloads.pods.observation import Observation
from workloads.states import Phase, Reason

logger = logging.getLogger(__name__)

STEERED = frozenset({Phase.ADMITTED, Phase.STARTING, Phase.RUNNING})
SURGE_RETRY_SECONDS = 15
SET_BACK_SECONDS = 1
SERVING = frozenset({Reason.READY, Reason.DEGRADED, Reason.UPDATING})
REFUSED_RETRY_SECONDS = 30
REFUSED_RETRY_SECONDS_MIN = 2
NAMESPACE_RETRY_SECONDS = 2
NAMESPACE_ENDS = "because it is being terminated"


@dataclass
class Look:
    """One observation, with the raw objects needed to act on it."""

    observation: Observation
    primary: dict[str, Any] | None
    companions: Sequence[dict[str, Any]] = ()
    pods: Sequence[dict[str, Any]] = ()
    """Of all attempts, as they were listed."""
    makers: Sequence[dict[str, Any]] = ()
    """Controllers of pods (such as ReplicaSets) that were orphaned when the primary was deleted."""
    strays: Sequence[dict[str, Any]] = ()
    """Pods that no controller has or will take over."""


@dataclass
class ActionContext:
    """What the actions on one workload need: the client, the workload, and its adapter and attempt."""

    client: ClusterClient
    workload: Workload
    adapter: WorkloadAdapter
    attempt: Attempt | None
    now: datetime
    patience: float
    """Seconds for which what is admitted may hold its claim while the cluster does not take its objects."""


def execute(plan: Plan, look: Look | None, hand: ActionContext) -> Plan:
    """Make the plan's cluster calls; returns the plan to record, a different one if a call was refused."""
    try:
        return _act(plan, look, hand)
    except ObjectNotFound:
        forget_namespace(hand.client, hand.workload.team)
        if Action.CREATE in plan.actions and not _served(hand):
            return _no_longer_served(hand)
        if look is not None and look.observation.incomplete:
            # The API of its kind may be gone: the observation says what that means.
            return replace(plan, actions=(), next_in_seconds=REFUSED_RETRY_SECONDS)
        return _unchanged(hand.workload, next_in_seconds=1)
    except (ClusterRejected, ForeignObject) as error:
        return _refused(plan, look, hand, error)
    except ClusterConflict:
        # Another client wrote at the same moment: look again, and decide again.
        return _unchanged(hand.workload, next_in_seconds=1)


def _served(hand: ActionContext) -> bool:
    """Whether the API serves the kind of the workload's object; some kinds are installed by an operator."""
    kind = hand.adapter.primary_of(hand.workload)
    return kind in kinds.CORE or (kind.api_version, kind.kind) in hand.client.served_kinds()


def _no_longer_served(hand: ActionContext) -> Plan:
    """The plan to release the claim and retry with back-off: the operator may be installed again."""
    kind = hand.adapter.primary_of(hand.workload)
    message = f"The cluster serves no {kind.kind} of {kind.api_version} now; it waits until it does again."
    return _at_once(rest(message))


def _at_once(stopped: Plan) -> Plan:
    """The plan without actions: the next reconcile, without delay, carries it out."""
    return replace(stopped, actions=(), next_in_seconds=0)


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
    elif _drifted(plan, look, hand):
        plan = replace(plan, next_in_seconds=SET_BACK_SECONDS)
    if Action.DELETE in plan.actions and look is not None:
        _delete(look, hand)
    _steer(plan, look, hand)
    return plan


def _drifted(plan: Plan, look: Look | None, hand: ActionContext) -> bool:
    """Whether somebody else had changed the object, which is set back now."""
    if plan.actions or plan.to not in STEERED or look is None or look.primary is None or hand.attempt is None:
        return False
    return drift.restore(hand.client, hand.workload, hand.adapter, hand.attempt, look.primary, now=hand.now)


def _delete(look: Look, hand: ActionContext) -> None:
    """Delete the attempt's primary object with its pods; if it is gone already, the objects that it orphaned."""
    if look.primary is None:
        _delete_left_behind(look, hand)
        return
    if not look.observation.deleting:
        _fetch_logs(hand)
    objects.delete(hand.client, look.primary)


def _delete_left_behind(look: Look, hand: ActionContext) -> None:
    """Delete orphaned pods and their controllers after the primary is gone, unless another controller deletes them
    (`kubectl delete --cascade=orphan`).
    """
    makers = [maker for maker in look.makers if not orphans.goes(maker)]
    pods = [pod for pod in look.pods if not orphans.goes(pod)]
    if hand.adapter.makers:
        # A pod with another controller is deleted with that one, or recreated by it.
        pods = [pod for pod in pods if orphans.controller_of(pod) is None]
    if makers or pods:
        _fetch_logs(hand)
    for maker in makers:
        objects.delete(hand.client, maker)
    _delete_pods(pods, hand)


def _delete_strays(look: Look, hand: ActionContext) -> None:
    """Delete stray pods, which hold GPUs beyond the claim. A refusal must not stop the rest of the workload."""
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
    """Patch the companions to the wanted state, even while a change of the object itself waits."""
    if look is None or not look.companions or plan.to not in STEERED:
        return
    changes = hand.adapter.adjustments(hand.workload, look.companions, look.observation, plan)
    objects.adjust(hand.client, changes)


def _fetch_logs(hand: ActionContext) -> None:
    """Store the remaining logs if possible: a node that returns no logs must not block the deletion."""
    if hand.attempt is None:
        return
    try:
        workload_logs.fetch_last(hand.client, hand.workload, attempt=hand.attempt.number, now=hand.now)
    except ClusterError:
        logger.warning("logs.incomplete", exc_info=True, extra={"workload_id": str(hand.workload.public_id)})


def _wait_for_surge(plan: Plan, look: Look | None, hand: ActionContext) -> Plan | None:
    """A plan that waits, if the change needs surge units that are not available; None if it can proceed."""
    stands = [] if look is None else [look.primary] if look.primary is not None else look.makers
    if not stands:
        return None
    asked = [hand.adapter.surge_units(hand.workload, stand) for stand in stands]
    units = max((more for more in asked if more is not None), default=None)
    judgement = scheduler.admit_surge(hand.workload, units=units, now=hand.now)
    if judgement.admitted:
        return None
    # Waking, or a scaler that cannot work, is more important to show than a waiting change.
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
    """The plan to change nothing and look again."""
    text = workload.message if message is None else message
    return Plan(Phase(workload.phase), Reason(workload.reason), text, next_in_seconds=next_in_seconds)


def _refused(plan: Plan, look: Look | None, hand: ActionContext, error: ClusterError) -> Plan:
    """The plan after a refusal: a delete or change waits; a start waits too, unless the refusal is permanent."""
    why, passing = str(error), isinstance(error, ClusterRejected) and not error.permanent
    if Action.DELETE in plan.actions:
        # The move to the target phase is retried; the objects hold their claim meanwhile.
        message = f"The cluster refuses to delete it: {why}"
        return replace(plan, message=message, actions=(), next_in_seconds=REFUSED_RETRY_SECONDS)
    if NAMESPACE_ENDS in why:
        forget_namespace(hand.client, hand.workload.team)
        message = "Its namespace is being deleted; it is made again after that."
        return _unchanged(hand.workload, next_in_seconds=NAMESPACE_RETRY_SECONDS, message=message)
    exists = look is not None and (look.observation.exists or look.observation.pods_alive > 0)
    if Action.APPLY in plan.actions and exists:
        # The running pods are kept, with a message that says why the change was not applied.
        message = f"The cluster refused the change: {why}"
        wait = REFUSED_RETRY_SECONDS
        final = "" if passing else why
        return replace(plan, message=message, actions=(), next_in_seconds=wait, refused=final)
    if passing:
        return _refused_for_now(hand, why)
    # Objects made before the refusal run, and hold GPUs, until they are deleted.
    made = exists or _was_made(hand)
    message = f"The cluster refused it: {why}"
    if made:
        return _at_once(stop(Reason.INVALID_SPEC, message, to=Phase.FAILED))
    ending = (Action.END_ATTEMPT, Action.RELEASE)
    return Plan(Phase.FAILED, Reason.INVALID_SPEC, message, ending, next_in_seconds=None)


def _refused_for_now(hand: ActionContext, why: str) -> Plan:
    """The plan to retry, soon at first; when the scheduling patience is over, the claim is released until later."""
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
