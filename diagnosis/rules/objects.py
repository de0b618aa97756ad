"""F, J, K and U: what the objects say that make the pods, scale them, or do not go away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cluster import quantities
from diagnosis.evidence import Case
from diagnosis.findings import (
    Confidence,
    Proof,
    Rule,
    Sign,
    WhoActs,
    case_rule,
    gpus_in_words,
    proof_of_condition,
    proof_of_said,
)
from workloads.pods.evidence import GATE_OF_WORKERS
from workloads.pods.pod_facts import parse_time

PORTALS_QUOTA: Final = "mlportal-gpus"
"""The ResourceQuota that the portal sets in namespaces of teams."""
STUCK_AFTER: Final = timedelta(minutes=10)
"""How long a pod may take to go: longer than any grace period that the portal gives."""
FAILURES_TOLD: Final = 3
_MAKERS: Final = ("Job", "ReplicaSet", "PyTorchJob", "TFJob", "MPIJob", "TrainJob", "JobSet", "Deployment")
_NOT_MADE: Final = ("FailedCreate", "FailedCreatePod", "ReplicaSetCreateError", "FailedCreatePodGroup")
_QUOTA: Final = re.compile(r"exceeded quota: (\S+?), requested: (.+?), used: (.+?), limited: (.+)$")
_MUST: Final = re.compile(r"failed quota: \S+: must specify")
_RANGE: Final = re.compile(
    r"(?:maximum|minimum) \S+ (?:usage|limit) per (?:Container|Pod)|limit to request ratio per"
)
_SECURITY: Final = re.compile(r'violates PodSecurity "')
_ADMISSION: Final = re.compile(
    r"no PriorityClass with name|serviceaccount \"[^\"]*\" not found|error looking up service account"
    r"|admission webhook \"[^\"]*\" denied|is forbidden"
)
_INVALID: Final = "InvalidSpec"


def _refusals(case: Case) -> Iterator[tuple[str, Proof]]:
    """What the API server said when it refused pods, or the object, and has not made since; the newest first."""
    newest = max((pod.created_at for pod in case.pods), default=None)
    for item in case.objects:
        if item.kind not in _MAKERS:
            continue
        for said in item.said:
            if said.reason in _NOT_MADE and (newest is None or (said.at or newest) > newest):
                yield said.message, proof_of_said(said)
        if item.condition("ReplicaFailure").get("status") == "True":
            yield (
                str(item.condition("ReplicaFailure").get("message", "")),
                proof_of_condition(item, "ReplicaFailure"),
            )
    if case.reason == _INVALID:
        yield case.message, Proof(f"{case.noun} {case.name}", "message", case.message, case.since)


def _refused(
    case: Case, pattern: re.Pattern[str], *but: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str, Proof]]:
    for text, proof in _refusals(case):
        match = pattern.search(text)
        if match and not any(other.search(text) for other in but):
            yield match, text, proof
            return


@case_rule(
    "F1",
    "The namespace's ResourceQuota has too little left",
    signal="event FailedCreate with `exceeded quota`",
    next_step="Wait: it goes on by itself when enough is free. End something in the namespace, ask for less with Clone, or have the operator raise the limit.",
    who=WhoActs.OWNER,
)
def quota_exceeded(case: Case) -> Iterator[Sign]:
    for match, text, proof in _refused(case, _QUOTA):
        asked, used, limits = (_amounts(match[number]) for number in (2, 3, 4))
        short = [_room(name, asked[name], used.get(name, ""), limits.get(name, "")) for name in asked]
        if not short:
            yield Sign(f"No pod can be made: {text}", (proof,))
            return
        whose = (
            "It is what the portal sets by the team's quotas."
            if match[1] == PORTALS_QUOTA
            else "It is a limit of the namespace itself, and not the team's quota in the portal."
        )
        words = f"ResourceQuota {match[1]} has too little left for this pod: it asks for {'; and for '.join(each.words for each in short)}. {whose}"
        room = [gpus_in_words(each.name, each.left) for each in short if each.left not in {"", "0"}]
        less = f" To start now, use Clone and ask for at most {' and '.join(room)};" if room else ""
        never = any(each.never for each in short)
        goes = "Use Run again" if case.over else "It goes on by itself"
        step = (
            "It can never start as it is: use Clone and ask for less, or have the cluster's operator raise the limit."
            if never
            else f"{goes} when enough is free: pods that the portal did not make count too.{less or ' To start sooner, end something of the namespace;'} or have the cluster's operator raise the limit."
        )
        yield Sign(words, (proof,), next_step=step, repeats=never)


@dataclass(frozen=True, slots=True)
class _Room:
    """What a quota has left of a resource: in words, and as it is asked for. `never`: more is asked for than there is."""

    name: str
    words: str
    left: str
    never: bool


def _amounts(text: str) -> dict[str, str]:
    """`{name: amount}` of `name=amount,name=amount`."""
    pairs = (part.partition("=") for part in text.rstrip(".").split(","))
    return {name.strip(): amount.strip() for name, _, amount in pairs if amount}


def _room(name: str, asked: str, used: str, limit: str) -> _Room:
    try:
        left = quantities.parse(limit) - quantities.parse(used)
        never = quantities.parse(asked) > quantities.parse(limit)
    except ValueError:
        return _Room(name, f"{gpus_in_words(name, asked)}, and {used} of {limit} are used", "", never=False)
    want = gpus_in_words(name, asked)
    if not all(amount.isdigit() for amount in (asked, used, limit)):
        return _Room(name, f"{want}, and {used} of {limit} are used", "", never)
    have = f"{max(int(left), 0)} of {limit} {'is' if left == 1 else 'are'} left"
    return _Room(name, f"{want}, and {have}", str(max(int(left), 0)), never)


@case_rule(
    "F2",
    "The namespace's ResourceQuota wants amounts that the pod does not name",
    signal="event FailedCreate with `failed quota: … must specify`",
    next_step="Use Clone and give `cpu`, `memory` and what else is named; or the operator adds a LimitRange.",
    who=WhoActs.OWNER,
    repeats=True,
)
def quota_wants(case: Case) -> Iterator[Sign]:
    for _, text, proof in _refused(case, _MUST):
        yield Sign(f"No pod can be made: {text}", (proof,))


@case_rule(
    "F3",
    "The namespace's LimitRange allows less",
    signal="event FailedCreate with `maximum … usage per Container`",
    next_step="Use Clone and ask for less than the limit that is named.",
    who=WhoActs.OWNER,
    repeats=True,
)
def limit_range(case: Case) -> Iterator[Sign]:
    for _, text, proof in _refused(case, _RANGE):
        yield Sign(f"No pod can be made: {text}", (proof,))


@case_rule(
    "F4",
    "Pod Security refuses it",
    signal="event FailedCreate with `violates PodSecurity`",
    next_step="Use Clone and take out what is named, such as `run_as_user: 0`; or the operator changes the team's `pod_security`.",
    who=WhoActs.OWNER,
    repeats=True,
)
def pod_security(case: Case) -> Iterator[Sign]:
    for _, text, proof in _refused(case, _SECURITY):
        yield Sign(f"No pod can be made: {text}", (proof,))


@case_rule(
    "F5",
    "The cluster's admission refuses it",
    signal="a PriorityClass or ServiceAccount that is not there, or a webhook that says no",
    next_step="The message says who refuses: change what it names, or ask an admin of the cluster.",
    who=WhoActs.ADMIN,
)
def admission(case: Case) -> Iterator[Sign]:
    for _, text, proof in _refused(case, _ADMISSION, _QUOTA, _MUST, _RANGE, _SECURITY):
        yield Sign(f"The cluster refuses it: {text}", (proof,))


@case_rule(
    "J1",
    "Its Job gave up",
    signal="Job condition Failed: PodFailurePolicy, DeadlineExceeded, FailedIndexes, BackoffLimitExceeded",
    next_step="Look at the pod that failed first, and the last lines of its log.",
    who=WhoActs.OWNER,
)
def job_failed(case: Case) -> Iterator[Sign]:
    for item in case.objects:
        failed = item.condition("Failed")
        if failed.get("status") == "True" and case.ends:
            words = f"{item.kind} {item.name} ended as failed ({failed.get('reason', '')}): {failed.get('message', '')}"
            yield Sign(words, (proof_of_condition(item, "Failed"),))
            return


@case_rule(
    "J2",
    "Its pods fail together and are started again",
    signal="condition Restarting of a PyTorchJob, TFJob or MPIJob",
    next_step="Look at the pod that ended first: the others only lost it.",
    who=WhoActs.OWNER,
)
def restarting(case: Case) -> Iterator[Sign]:
    for item in case.objects:
        told = item.condition("Restarting")
        if told.get("status") == "True" and item.gone_at is None:
            first = min(
                (pod for pod in case.pods if pod.failed and pod.finished_at),
                key=lambda pod: str(pod.finished_at),
                default=None,
            )
            named = f" The first that ended was {first.name}." if first else ""
            yield Sign(
                f"{item.kind} {item.name} starts its pods again: {told.get('message', '')}{named}",
                (proof_of_condition(item, "Restarting"),),
            )
            return


@case_rule(
    "J3",
    "Workers wait for a master that does not come up",
    signal="init container `init-pytorch` does not end while the master has not started",
    next_step="See why the master does not start; if it runs, an admin checks DNS and NetworkPolicy between the pods.",
    who=WhoActs.OWNER,
)
def waits_for_master(case: Case) -> Iterator[Sign]:
    master = next((pod for pod in case.pods if "-master-" in pod.name and not pod.ended), None)
    waiting = [
        (pod, item)
        for pod in case.pods
        for item in pod.containers()
        if item.init and item.name == GATE_OF_WORKERS and item.kind == "running" and not pod.ended
    ]
    if not waiting or master is None:
        return
    up = master.started_at is not None
    since = min((item.started_at for _, item in waiting if item.started_at), default=case.now)
    if case.now - since < timedelta(minutes=2):
        return
    what = (
        f"runs since {master.started_at:%H:%M:%S} UTC and is not reached by its name"
        if up
        else "has not started"
    )
    proof = Proof(f"Pod {waiting[0][0].name}", waiting[0][1].field, f"{GATE_OF_WORKERS} still waits", since)
    yield Sign(
        f"{len(waiting)} pods wait for the master {master.name}, which {what}.",
        (proof,),
        Confidence.LIKELY,
        pod=master.name,
    )


@case_rule(
    "K1",
    "Its scaler cannot read what it scales by",
    signal="ScaledObject Ready False (TriggerError) or its health Failing; autoscaler FailedGetExternalMetric",
    next_step="Run the query of `scaling` in Prometheus: it has to give one number. If it does, an admin checks KEDA's way there.",
    who=WhoActs.OWNER,
)
def trigger(case: Case) -> Iterator[Sign]:
    for item in case.objects:
        if item.gone_at is not None or item.kind not in {"ScaledObject", "HorizontalPodAutoscaler"}:
            continue
        ready = item.condition("Ready")
        failing = {
            name: value
            for name, value in (item.told.get("health") or {}).items()
            if int(value.get("failures") or 0) >= FAILURES_TOLD
        }
        active = item.condition("ScalingActive")
        heard = [said for said in item.said if said.warning][:1]
        if item.kind == "ScaledObject" and (ready.get("status") == "False" or failing):
            proof = (
                proof_of_condition(item, "Ready")
                if ready.get("status") == "False"
                else Proof(f"ScaledObject {item.name}", "status.health", ", ".join(failing))
            )
            words = f"KEDA cannot read the metric of scaler {item.name}: {heard[0].message if heard else ready.get('message', 'its trigger fails')}"
            yield Sign(words, (proof, *map(proof_of_said, heard)))
            return
        if active.get("status") == "False" and str(active.get("reason", "")).startswith(
            "FailedGetExternalMetric"
        ):
            yield Sign(
                f"The autoscaler cannot read its metric: {active.get('message', '')}",
                (proof_of_condition(item, "ScalingActive"),),
            )
            return


@case_rule(
    "K2",
    "The metrics server that autoscaling asks is down",
    signal="condition HPAActive False (HPAMetricsUnavailable), or ScalingActive False (FailedGetResourceMetric)",
    next_step="An admin looks at KEDA's metrics API server, or at metrics-server for CPU.",
    who=WhoActs.ADMIN,
)
def metrics_down(case: Case) -> Iterator[Sign]:
    for item in case.objects:
        active = item.condition("HPAActive") or item.condition("ScalingActive")
        words = str(active.get("reason", ""))
        down = words == "HPAMetricsUnavailable" or words in {
            "FailedGetResourceMetric",
            "FailedGetContainerResourceMetric",
        }
        if item.gone_at is None and active.get("status") != "True" and down:
            kind = "HPAActive" if item.condition("HPAActive") else "ScalingActive"
            yield Sign(
                f"Nothing scales it, as no metrics come: {active.get('message', '')}",
                (proof_of_condition(item, kind),),
                Confidence.LIKELY,
            )
            return


@case_rule(
    "K3",
    "Its pods were not ready in time",
    signal="Deployment condition Progressing False, ProgressDeadlineExceeded",
    next_step="Look at its newest pods: what keeps them from becoming ready is the cause.",
    who=WhoActs.OWNER,
)
def no_progress(case: Case) -> Iterator[Sign]:
    for item in case.objects:
        told = item.condition("Progressing")
        if told.get("reason") == "ProgressDeadlineExceeded" and item.gone_at is None:
            ready = sum(pod.ready for pod in case.pods)
            words = f"Deployment {item.name} waited for its pods until its deadline; {ready} of {len(case.pods)} are ready."
            yield Sign(words, (proof_of_condition(item, "Progressing"),))
            return


@case_rule(
    "U1",
    "It does not go away",
    signal="a pod or object that is being deleted for more than ten minutes",
    next_step="An admin looks at its node and its finalizers. Do not delete it by force while it may still write to a volume.",
    who=WhoActs.ADMIN,
)
def undeleted(case: Case) -> Iterator[Sign]:
    for pod in case.pods:
        if pod.gone_at is None and pod.deletion_at and case.now - pod.deletion_at > STUCK_AFTER:
            yield _stuck(
                case, f"Pod {pod.name}", pod.deletion_at, pod.told.get("finalizers") or (), node=pod.node
            )
            return
    for item in case.objects:
        deleted = parse_time(item.told.get("deleted_at"))
        if item.gone_at is None and deleted and case.now - deleted > STUCK_AFTER:
            yield _stuck(case, f"{item.kind} {item.name}", deleted, item.told.get("finalizers") or ())
            return


def _stuck(_case: Case, name: str, since: object, finalizers: object, *, node: str = "") -> Sign:
    held = ", ".join(map(str, finalizers)) if isinstance(finalizers, (list, tuple)) else ""
    why = (
        f"finalizers {held}" if held else f"node {node} has not confirmed it" if node else "nothing says why"
    )
    proof = Proof(name, "metadata.deletionTimestamp", f"{since:%Y-%m-%d %H:%M:%S} UTC; {why}")
    return Sign(f"{name} is being deleted since {since:%H:%M:%S} UTC; {why}.", (proof,), Confidence.LIKELY)


@case_rule(
    "A2",
    "The portal ended it",
    signal="a reason of the portal's own that no other row explains: time limit, deleted by somebody, no retries left",
    next_step="Its events say who or what ended it.",
    who=WhoActs.OWNER,
)
def own_reason(case: Case) -> Iterator[Sign]:
    if case.phase == "Failed" and case.message:
        yield Sign(case.message, (Proof(f"{case.noun} {case.name}", "reason", case.reason, case.since),))


MAKERS: Final[tuple[Rule, ...]] = (quota_exceeded, quota_wants, limit_range, pod_security, admission)
GANG: Final[tuple[Rule, ...]] = (waits_for_master, restarting)
SCALERS: Final[tuple[Rule, ...]] = (trigger, metrics_down, no_progress)
JOBS: Final[tuple[Rule, ...]] = (job_failed,)
STUCK: Final[tuple[Rule, ...]] = (undeleted,)
LAST: Final[tuple[Rule, ...]] = (own_reason,)
