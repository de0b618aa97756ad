"""The Job controller: the conditions, reasons, counts and labels of the real one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.errors import ApiError
from devcluster.kinds import JOB, POD
from devcluster.objects import Obj, condition, deleting, finished, name_of, namespace_of, phase_of, uid_of
from devcluster.store import Change

from .adoption import pod_of
from .indexes import INDEX, index_of, indexes_of, numbered, ranges
from .loop import Controller

TRACKING = "batch.kubernetes.io/job-tracking"
LONGEST_BACKOFF = 60
_LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")


@dataclass(slots=True)
class _Round:
    """What one look at a Job has found and decided."""

    job: Obj
    status: Obj
    pods: list[Obj]
    active: list[Obj] = field(default_factory=list)
    settled: list[Obj] = field(default_factory=list)
    policy_failure: str = ""

    @property
    def spec(self) -> Obj:
        spec: Obj = self.job["spec"]
        return spec

    @property
    def indexed(self) -> bool:
        return bool(self.spec["completionMode"] == "Indexed")

    def succeeded_indexes(self) -> set[int]:
        return indexes_of(self.status.get("completedIndexes", ""))

    def succeed(self, pod: Obj) -> None:
        """Count a pod that has succeeded; of numbered ones each number once."""
        if not self.indexed:
            self.status["succeeded"] = self.status.get("succeeded", 0) + 1
            return
        done = self.succeeded_indexes() | {index_of(pod)}
        self.status["completedIndexes"] = ranges(done)
        self.status["succeeded"] = len(done)

    def has(self, type_: str) -> bool:
        return objects.is_true({"status": self.status}, type_)

    def say(self, type_: str, reason: str, message: str, status: str = "True") -> None:
        new = objects.made_condition(type_, status, reason, message) | {"lastProbeTime": objects.timestamp()}
        self.status["conditions"] = objects.with_condition(self.status.get("conditions", []), new)


class Jobs(Controller):
    """Key: (namespace, job)."""

    kind, owned, source = JOB, (POD,), "job-controller"

    def __init__(self, cluster: Any) -> None:
        super().__init__(cluster)
        # uid of a Job -> failures in a row, and when the next pod may start.
        self._backoff: dict[str, tuple[int, float]] = {}

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        yield from super().keys(change)
        if change.kind is JOB and change.type == "DELETED":
            self._backoff.pop(uid_of(change.obj), None)
        elif change.kind is POD and (objects.controller_of(change.obj) or {}).get("kind") != JOB.name:
            self._untrack([change.obj])

    @override
    def reconcile(self, key: Any) -> float | None:
        job = self.store.get(JOB, *key)
        pods = self._pods(key, job)
        if job is None:
            return None
        if deleting(job):
            self._untrack([p for p in pods if deleting(p) or finished(p)])
            return None
        turn = _Round(job, dict(job["status"]), pods)
        if turn.has("Complete") or turn.has("Failed"):
            self._untrack(pods)
            ended = (condition(job, "Complete") or condition(job, "Failed") or {})["lastTransitionTime"]
            after = turn.spec.get("ttlSecondsAfterFinished")
            return self.expire(job, ended, after, propagationPolicy="Foreground")
        self._settle(turn)
        wait = self._decide(turn)
        self._count(turn)
        self.cluster.set_status(JOB, job, turn.status)
        self._untrack(turn.settled)
        return wait

    def _pods(self, key: tuple[str, str], job: Obj | None) -> list[Obj]:
        """The Job's pods; those of a Job that is gone are let go."""
        mine = []
        for pod in self.store.list(POD, key[0]):
            owner = objects.controller_of(pod)
            if owner is None or owner["kind"] != JOB.name or owner["name"] != key[1]:
                continue
            if job is not None and owner["uid"] == uid_of(job):
                mine.append(pod)
            else:
                self._untrack([pod])
        return mine

    def _untrack(self, pods: list[Obj]) -> None:
        for pod in pods:
            if TRACKING in pod["metadata"].get("finalizers", ()):
                self.cluster.drop_finalizer(POD, pod, TRACKING)

    def _settle(self, turn: _Round) -> None:
        """Count the pods that have ended; the finalizer says which are not counted yet."""
        for pod in turn.pods:
            counted = TRACKING not in pod["metadata"].get("finalizers", ())
            if phase_of(pod) == "Succeeded":
                if not counted:
                    turn.succeed(pod)
                    self._backoff.pop(uid_of(turn.job), None)
                    turn.settled.append(pod)
            elif _failed(pod, turn.spec):
                if not counted:
                    self._count_failure(turn, pod)
                    turn.settled.append(pod)
            elif not deleting(pod):
                turn.active.append(pod)

    def _count_failure(self, turn: _Round, pod: Obj) -> None:
        action, text = _judge(turn.spec.get("podFailurePolicy"), pod)
        if action == "FailJob":
            turn.policy_failure = turn.policy_failure or text
        if action != "Ignore":
            turn.status["failed"] = turn.status.get("failed", 0) + 1
            failures = self._backoff.get(uid_of(turn.job), (0, 0.0))[0] + 1
            pause = self.cluster.backoff * min(2 ** (failures - 1), LONGEST_BACKOFF)
            self._backoff[uid_of(turn.job)] = (failures, time.monotonic() + pause)

    # Decisions

    def _decide(self, turn: _Round) -> float | None:
        failure = self._failure(turn)
        if failure is not None:
            return self._fail(turn, *failure)
        completions = turn.spec.get("completions")
        done = turn.status.get("succeeded", 0)
        if (completions is not None and done >= completions) or (
            completions is None and done and not turn.active
        ):
            return self._complete(turn)
        if turn.spec.get("suspend"):
            self._suspend(turn)
            return None
        self._resume(turn)
        wait = self._scale(turn)
        deadline = self._deadline_left(turn)
        return min((w for w in (wait, deadline) if w is not None), default=None)

    def _failure(self, turn: _Round) -> tuple[str, str] | None:
        decided = condition({"status": turn.status}, "FailureTarget")
        if decided is not None and decided["status"] == "True":
            return decided["reason"], decided["message"]
        if turn.policy_failure:
            return "PodFailurePolicy", turn.policy_failure
        limit = turn.spec["backoffLimit"]
        restarts = sum(
            s.get("restartCount", 0) for p in turn.pods for s in p["status"].get("containerStatuses", ())
        )
        on_failure = turn.spec["template"]["spec"]["restartPolicy"] == "OnFailure"
        if turn.status.get("failed", 0) > limit or (on_failure and restarts and restarts >= limit):
            return _LIMIT
        left = self._deadline_left(turn)
        return _DEADLINE if left is not None and left <= 0 else None

    @staticmethod
    def _deadline_left(turn: _Round) -> float | None:
        limit, started = turn.spec.get("activeDeadlineSeconds"), turn.status.get("startTime")
        if limit is None or started is None or turn.spec.get("suspend"):
            return None
        return float(objects.seconds(started) + limit - time.time())

    def _fail(self, turn: _Round, reason: str, message: str) -> float | None:
        if not turn.has("FailureTarget"):
            turn.say("FailureTarget", reason, message)
        self._stop(turn)
        if self._remaining(turn):
            return None
        turn.say("Failed", reason, message)
        self.event(turn.job, reason, message, warning=True)
        return None

    def _complete(self, turn: _Round) -> float | None:
        text = "Reached expected number of succeeded pods"
        if not turn.has("SuccessCriteriaMet"):
            turn.say("SuccessCriteriaMet", "CompletionsReached", text)
        self._stop(turn)
        if self._remaining(turn):
            return None
        turn.say("Complete", "CompletionsReached", text)
        turn.status["completionTime"] = objects.timestamp()
        self.event(turn.job, "Completed", "Job completed")
        return None

    def _stop(self, turn: _Round) -> None:
        """Delete what runs; the pods stay `active` until they have ended."""
        for pod in turn.active:
            self.drop(POD, turn.job, pod)
        turn.active = []

    def _remaining(self, turn: _Round) -> list[Obj]:
        """Pods that have not ended; a final condition has to wait for them."""
        live = (self.store.newest(POD, pod) for pod in turn.pods)
        return [pod for pod in live if pod is not None and not finished(pod)]

    def _dismiss(self, job: Obj, pod: Obj) -> None:
        """Delete a pod that is too many: without the finalizer its end is no failure."""
        self._untrack([pod])
        self.drop(POD, job, pod)

    def _suspend(self, turn: _Round) -> None:
        for pod in turn.active:
            self._dismiss(turn.job, pod)
        turn.active = []
        if not turn.has("Suspended"):
            turn.say("Suspended", "JobSuspended", "Job suspended")
            self.event(turn.job, "Suspended", "Job suspended")
        turn.status.pop("startTime", None)

    def _resume(self, turn: _Round) -> None:
        if turn.has("Suspended"):
            turn.say("Suspended", "JobResumed", "Job resumed", "False")
            self.event(turn.job, "Resumed", "Job resumed")
        turn.status.setdefault("startTime", objects.timestamp())

    # Pods

    def _scale(self, turn: _Round) -> float | None:
        completions = turn.spec.get("completions")
        wanted = turn.spec["parallelism"]
        if completions is not None:
            wanted = min(wanted, completions - turn.status.get("succeeded", 0))
        for pod in turn.active[wanted:]:
            self._dismiss(turn.job, pod)
        del turn.active[wanted:]
        ending = sum(deleting(pod) and not finished(pod) for pod in turn.pods)
        missing = wanted - len(turn.active)
        if turn.spec["podReplacementPolicy"] == "Failed":
            missing -= ending
        pause = self._backoff.get(uid_of(turn.job), (0, 0.0))[1] - time.monotonic()
        if missing > 0 and pause > 0:
            return pause
        for index in self._indexes_to_start(turn, missing):
            try:
                turn.active.append(self.make(POD, turn.job, _pod(turn.job, index)))
            except ApiError:
                return 1.0
        return None

    @staticmethod
    def _indexes_to_start(turn: _Round, missing: int) -> Sequence[int | None]:
        """The lowest numbers that no pod has; None for each pod where pods have no numbers."""
        if not turn.indexed:
            return [None] * missing
        going = {index_of(pod) for pod in turn.pods if not finished(pod)}
        taken = turn.succeeded_indexes() | going
        return [index for index in range(turn.spec["completions"]) if index not in taken][: max(0, missing)]

    def _count(self, turn: _Round) -> None:
        live = [self.store.newest(POD, pod) or pod for pod in [*turn.pods, *turn.active]]
        unique = {uid_of(pod): pod for pod in live if not finished(pod)}.values()
        going = sum(map(deleting, unique))
        ready = sum(objects.is_true(pod, "Ready") and not deleting(pod) for pod in unique)
        turn.status |= {"active": len(unique) - going, "terminating": going, "ready": ready}
        if not turn.status["active"]:
            del turn.status["active"]
        turn.status.setdefault("uncountedTerminatedPods", {})


def _pod(job: Obj, index: int | None) -> Obj:
    """One of its pods, with the number where they have one."""
    if index is None:
        return pod_of(JOB, job, finalizers=[TRACKING])
    name = f"{name_of(job)}-{index}"
    body = pod_of(JOB, job, name, finalizers=[TRACKING])
    body["spec"] = numbered(body["spec"], name)
    for part in ("labels", "annotations"):
        body["metadata"][part] = {**body["metadata"].get(part, {}), INDEX: str(index)}
    return body


def _failed(pod: Obj, spec: Obj) -> bool:
    """A deleted pod counts as failed at once unless the Job waits for real ends."""
    if phase_of(pod) == "Failed" or spec["podReplacementPolicy"] == "Failed":
        return phase_of(pod) == "Failed"
    return deleting(pod) and phase_of(pod) != "Succeeded"


def _judge(policy: Obj | None, pod: Obj) -> tuple[str, str]:
    """The action of the first rule that fits, and the words for a FailJob."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        where = f"matching {rule['action']} rule at index {index}"
        codes = rule.get("onExitCodes")
        for status in _terminated(pod) if codes else ():
            code = status["state"]["terminated"]["exitCode"]
            named = codes.get("containerName") in {None, status["name"]}
            if named and code and (code in codes["values"]) == (codes["operator"] == "In"):
                pod_name = f"{namespace_of(pod)}/{name_of(pod)}"
                text = f"Container {status['name']} for pod {pod_name} failed with exit code {code} {where}"
                return rule["action"], text
        for pattern in rule.get("onPodConditions") or ():
            actual = condition(pod, pattern["type"])
            if actual is not None and actual["status"] == pattern["status"]:
                text = f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {pattern['type']} {where}"
                return rule["action"], text
    return "Count", ""


def _terminated(pod: Obj) -> list[Obj]:
    status = pod.get("status", {})
    every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return [s for s in every if "terminated" in s.get("state", {})]
