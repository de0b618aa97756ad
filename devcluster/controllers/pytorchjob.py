"""The PyTorchJob controller: conditions, reasons, counts and habits of the Kubeflow training operator 1.9."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field

from typing_extensions import override

from devcluster import objects
from devcluster.errors import ApiError
from devcluster.kinds import POD, PYTORCH_JOB, SERVICE, Kind
from devcluster.objects import Obj, condition, deleting, finished, name_of, namespace_of, phase_of, timestamp
from devcluster.validation.training import OPERATOR

from . import replicas
from .loop import Controller
from .replicas import by_index

_RETRIED = ("OnFailure", "Always", "ExitCode")
# Exit codes from here on are worth another try under the policy ExitCode.
_RETRYABLE = 128


@dataclass(slots=True)
class _Round:
    """What one look at a PyTorchJob has found and decided."""

    job: Obj
    spec: Obj
    status: Obj
    pods: list[Obj]
    services: list[Obj]
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return name_of(self.job)

    @property
    def policy(self) -> Obj:
        policy: Obj = self.spec["runPolicy"]
        return policy

    def has(self, type_: str) -> bool:
        return objects.is_true({"status": self.status}, type_)

    @property
    def over(self) -> bool:
        return self.has("Succeeded") or self.has("Failed")

    def say(self, type_: str, message: str, *, reason: str = "", status: str = "True") -> None:
        """Add a condition, newest last. Failed is the last word, and some conditions push others out."""
        reason, now = f"PyTorchJob{reason or type_}", timestamp()
        conditions: list[Obj] = self.status.get("conditions", [])
        known = condition({"status": self.status}, type_)
        if self.has("Failed") or (
            known is not None and (known["status"], known["reason"]) == (status, reason)
        ):
            return
        gone = {type_, {"Restarting": "Running", "Running": "Restarting"}.get(type_, type_)}
        kept = [c for c in conditions if c["type"] not in gone]
        if type_ in {"Failed", "Succeeded"}:
            kept = [c | {"status": "False"} if c["type"] == "Running" else c for c in kept]
        same = known is not None and known["status"] == status
        since = known["lastTransitionTime"] if known is not None and same else now
        new = objects.made_condition(type_, status, reason, message)
        times = {"lastUpdateTime": now, "lastTransitionTime": since}
        self.status["conditions"] = [*kept, new | times]


class PyTorchJobs(Controller):
    """Key: (namespace, job)."""

    kind, owned, source = PYTORCH_JOB, (POD, SERVICE), replicas.SOURCE

    @override
    def bring(self, obj: Obj) -> float | None:
        if deleting(obj) or not (obj.get("spec") or {}).get("pytorchReplicaSpecs"):
            return None
        spec = replicas.with_defaults(obj["spec"])
        if spec["runPolicy"].get("managedBy", OPERATOR) != OPERATOR:
            return None
        status = copy.deepcopy(obj.get("status") or {})
        mine = self.cluster.dependants(obj)
        pods, services = ([one for kind, one in mine if kind is wanted] for wanted in (POD, SERVICE))
        turn = _Round(obj, spec, status, pods, services)
        turn.say("Created", f"PyTorchJob {turn.name} is created.")
        if turn.over:
            return self._finish(turn)
        if turn.policy.get("suspend"):
            self._suspend(turn)
            return None
        return self._proceed(turn)

    def _store(self, turn: _Round) -> None:
        for role, counts in turn.counts.items():
            shown = {name: number for name, number in counts.items() if number}
            shown_as = shown | {"selector": replicas.selector(turn.job, role)}
            turn.status.setdefault("replicaStatuses", {})[role] = shown_as
        self.cluster.set_status(PYTORCH_JOB, turn.job, turn.status)

    # The end, and the pause

    def _finish(self, turn: _Round) -> float | None:
        self._clean(turn)
        if turn.has("Succeeded"):
            for status in turn.status.get("replicaStatuses", {}).values():
                if "active" in status:
                    status["succeeded"] = status.get("succeeded", 0) + status.pop("active")
        self._store(turn)
        # Without a completion time, after a permanent exit code, it never expires.
        ended = turn.status.get("completionTime")
        return self.expire(turn.job, ended, turn.policy.get("ttlSecondsAfterFinished")) if ended else None

    def _clean(self, turn: _Round) -> None:
        """Delete pods with their Services; once the job is over its cleanPodPolicy says which."""
        policy = turn.policy["cleanPodPolicy"] if turn.over else "All"
        for one in turn.pods if policy != "None" else ():
            if policy != "Running" or not finished(one):
                self._delete(turn, POD, one)
                live = self.store.get(SERVICE, namespace_of(one), name_of(one))
                if live is not None:
                    self._delete(turn, SERVICE, live)

    def _delete(self, turn: _Round, kind: Kind, obj: Obj) -> None:
        if not deleting(obj):
            self.drop(kind, turn.job, obj, kind.name)

    def _suspend(self, turn: _Round) -> None:
        self._clean(turn)
        for status in turn.status.get("replicaStatuses", {}).values():
            status.pop("active", None)
        text = f"PyTorchJob {turn.name} is suspended."
        if turn.has("Running"):
            turn.say("Running", text, reason="Suspended", status="False")
        if not turn.has("Suspended"):
            turn.say("Suspended", text)
        self.event(turn.job, "PyTorchJobSuspended", text)
        self._store(turn)

    # Running

    def _proceed(self, turn: _Round) -> float | None:
        if turn.has("Suspended"):
            text = f"PyTorchJob {turn.name} is resumed."
            turn.say("Suspended", text, reason="Resumed", status="False")
            turn.status["startTime"] = timestamp()
            self.event(turn.job, "PyTorchJobResumed", text)
        active = [p for p in turn.pods if not finished(p) and not deleting(p)]
        for reason, message in (trouble for one in active for trouble in replicas.troubles(one)):
            self.event(turn.job, reason, message, warning=True)
        failure = self._limit(turn, len(active))
        if failure is not None:
            turn.status.setdefault("completionTime", timestamp())
            self._clean(turn)
            self.event(turn.job, "PyTorchJobFailed", failure)
            turn.say("Failed", failure)
            self._store(turn)
            return None
        try:
            for role in replicas.roles_of(turn.spec):
                self._keep_pods(turn, role)
                self._keep_services(turn, role)
        except ApiError:
            # The event has reported it; the status waits until all could be made.
            return 1.0
        self._judge(turn)
        self._store(turn)
        return None

    def _limit(self, turn: _Round, active: int) -> str | None:
        """Why the job has to end by its policy. The deadline is only looked at when something changes."""
        limit, about = turn.policy.get("backoffLimit"), f"Job {turn.name} has failed because it"
        if limit is not None:
            known = sum(s.get("failed", 0) for s in turn.status.get("replicaStatuses", {}).values())
            fresh = sum(phase_of(p) == "Failed" for p in turn.pods) > known
            # The operator counts no earlier failures, so that a failed pod ends the job only with a limit of 0.
            failed = (
                fresh
                and active
                != sum(replica["replicas"] for replica in turn.spec["pytorchReplicaSpecs"].values())
                and limit < 1
            )
            restarts = self._restarts(turn)
            if failed or (restarts > 0 if limit == 0 else restarts >= limit):
                return f"{about} has reached the specified backoff limit"
        allowed, started = turn.policy.get("activeDeadlineSeconds"), turn.status.get("startTime")
        if allowed is not None and started is not None and time.time() - objects.seconds(started) >= allowed:
            return f"{about} was active longer than specified deadline"
        return None

    @staticmethod
    def _restarts(turn: _Round) -> int:
        """The restarts of the containers of running pods, where they may restart."""
        total = 0
        for role, replica in turn.spec["pytorchReplicaSpecs"].items():
            mine = by_index(turn.pods, role).values() if replica["restartPolicy"] in _RETRIED else ()
            for one in (one for pods in mine for one in pods if phase_of(one) == "Running"):
                lists = (
                    one["status"].get(part, ()) for part in ("initContainerStatuses", "containerStatuses")
                )
                total += sum(status.get("restartCount", 0) for part in lists for status in part)
        return total

    def _keep_pods(self, turn: _Round, role: str) -> None:
        wanted = turn.spec["pytorchReplicaSpecs"][role]["replicas"]
        numbered = by_index(turn.pods, role)
        for index in sorted(set(numbered) | set(range(wanted))):
            mine = numbered.get(index, [])
            if not mine:
                self._start(turn, role, index)
            elif index >= wanted:
                self._delete(turn, POD, mine[0])
            else:
                self._ended(turn, role, mine[0])
        turn.counts[role] = replicas.count(one for pods in numbered.values() for one in pods[:1])

    def _start(self, turn: _Round, role: str, index: int) -> None:
        if turn.spec["pytorchReplicaSpecs"][role]["template"]["spec"].get("restartPolicy"):
            text = "Restart policy in pod template will be overwritten by restart policy in replica spec"
            self.event(turn.job, "SetPodTemplateRestartPolicy", text, warning=True)
        self.make(POD, turn.job, replicas.pod(turn.job, turn.spec, role, index), POD.name)

    def _ended(self, turn: _Round, role: str, one: Obj) -> None:
        """Tell of an exit, and let a failed pod go where its replica is to be retried."""
        code, policy = replicas.exit_code(one), turn.spec["pytorchReplicaSpecs"][role]["restartPolicy"]
        if code is not None:
            text = f"Pod: {namespace_of(one)}.{name_of(one)} exited with code {code}"
            self.event(turn.job, "ExitedWithCode", text)
        if phase_of(one) != "Failed" or policy not in _RETRIED:
            return
        # A pod that failed without its container's end counts as worth a try.
        if policy == "ExitCode" and code is not None and code < _RETRYABLE:
            text = f'job "{turn.name}" is failing because "{role}" replica(s) failed.'
            self.event(turn.job, "PyTorchJobFailed", text, warning=True)
            turn.say("Failed", text)
            return
        self._delete(turn, POD, one)
        text = f"job {turn.name} is restarting because {role} replica(s) failed."
        self.event(turn.job, "PyTorchJobRestarting", text, warning=True)
        turn.say("Restarting", text)

    def _keep_services(self, turn: _Round, role: str) -> None:
        wanted = turn.spec["pytorchReplicaSpecs"][role]["replicas"]
        numbered = by_index(turn.services, role)
        for index in range(wanted):
            if index not in numbered:
                body = replicas.service(turn.job, turn.spec, role, index)
                self.make(SERVICE, turn.job, body, SERVICE.name)
        for index in sorted(set(numbered) - set(range(wanted))):
            self._delete(turn, SERVICE, numbered[index][0])

    # Judging

    def _judge(self, turn: _Round) -> None:
        """What the counts mean; with a master its success is the job's."""
        turn.status.setdefault("startTime", timestamp())
        master = "Master" in turn.counts
        for role, counts in turn.counts.items():
            wanted = turn.spec["pytorchReplicaSpecs"][role]["replicas"]
            if role == "Master" or not master:
                self._progress(turn, counts, wanted, master=master)
                if master and turn.has("Succeeded"):
                    return
            if counts["failed"] and wanted > counts["succeeded"] + counts["active"]:
                self._failed(turn, role, counts["failed"])

    def _progress(self, turn: _Round, counts: dict[str, int], wanted: int, *, master: bool) -> None:
        who = turn.name if master else f"{namespace_of(turn.job)}/{turn.name}"
        # One worker that has come to the end is enough where their number may change.
        enough = "elasticPolicy" in turn.spec and not master and counts["succeeded"]
        if wanted == counts["succeeded"] or enough:
            text = f"PyTorchJob {who} {'is ' if master else ''}successfully completed."
            self.event(turn.job, "PyTorchJobSucceeded", text)
            turn.status.setdefault("completionTime", timestamp())
            turn.say("Succeeded", text)
        elif counts["active"]:
            turn.say("Running", f"PyTorchJob {who} is running.")

    def _failed(self, turn: _Round, role: str, failed: int) -> None:
        if turn.spec["pytorchReplicaSpecs"][role]["restartPolicy"] != "Never":
            text = f"PyTorchJob {turn.name} is restarting because {failed} {role} replica(s) failed."
            self.event(turn.job, "PyTorchJobRestarting", text, warning=True)
            turn.say("Restarting", text)
            return
        text = f"PyTorchJob {turn.name} is failed because {failed} {role} replica(s) failed."
        self.event(turn.job, "PyTorchJobFailed", text)
        turn.status.setdefault("completionTime", timestamp())
        turn.say("Failed", text)
