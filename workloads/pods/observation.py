"""What the cluster shows of one attempt or endpoint: the input of `decide`, made from raw JSON by the adapters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from workloads.pods.pod_facts import ENDED
from workloads.states import Reason


class Stage(StrEnum):
    """How far the objects have come."""

    ABSENT = "absent"
    """The primary object is not there."""
    CREATING = "creating"
    """It is there, and has no pod yet."""
    SCHEDULING = "scheduling"
    PULLING = "pulling"
    """On a node; the image is being brought."""
    INITIALIZING = "initializing"
    """On a node; volumes, init containers or configuration are not ready."""
    LOADING = "loading"
    """An endpoint's container runs and is not ready to serve yet."""
    RUNNING = "running"
    READY = "ready"
    DEGRADED = "degraded"
    """Fewer replicas serve than wanted; or a run's only pod was asked to stop."""
    UPDATING = "updating"
    ASLEEP = "asleep"
    """Its scaler has taken the last replica away."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod. Times are the API's own; those not known are None."""

    uid: str
    name: str
    node: str
    phase: str
    ready: bool
    restarts: int
    scheduled_at: datetime | None
    started_at: datetime | None
    """When the first container started."""
    finished_at: datetime | None
    """When the last container finished; only of a pod that has ended."""
    deletion_at: datetime | None
    exit_code: int | None
    """Of the container that decided the pod's end, or its last restart."""
    reason: str
    """Token for people: a Reason, or Kubernetes' own word where the portal has none."""
    message: str
    resource_version: str
    revision: int = 0
    """Of the template that an endpoint's pod was made from; 0 where its label tells none."""
    blocked: bool = False
    """Whether it cannot start until something changes outside it."""
    waiting_since: datetime | None = None
    """Since when its present wait has lasted, before it runs."""
    ready_at: datetime | None = None
    """Since when it has been ready; None while it is not."""
    unready_at: datetime | None = None
    """Since when it has not been ready, whether it was before or never; None while it is, or where no status says it."""

    @property
    def alive(self) -> bool:
        """Whether it may still hold its GPUs: it is there and has not ended."""
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerFacts:
    """What a scaler's status says. What it does not say is None or empty."""

    minimum: int | None = None
    maximum: int | None = None
    reach: int | None = None
    """Replicas that it may still come to ask for, as long as its objects are as they are."""
    wanted: int | None = None
    """Replicas that it asks for."""
    metric: str = ""
    """The metric that it reads, in the words of its own status."""
    value: float | None = None
    """The metric's newest value, in the unit of `target`."""
    target: float | None = None
    decision: str = ""
    """Token for why it holds this number: a condition's reason."""
    failure: str = ""
    """A sentence with the fix, while it cannot do its work."""
    falls_back: bool = False
    """Whether it runs the fixed number of replicas that is meant for when its metric cannot be read."""
    paused: bool = False
    unscaled: bool = False
    """Whether it has none, as none that was offered could do what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFacts:
    """How far the pods are that an endpoint's object asks for now."""

    revision: int
    """That its template names; 0 where it names none."""
    updated: int
    """Pods of that template that are not being deleted."""
    ready: int
    """Those of them that are ready."""
    total: int
    """Replicas that are wanted."""
    old: int
    """Pods of other templates that are not being deleted."""
    complete: bool
    """Whether all wanted replicas are of that template and ready, and no others are left."""
    completed_at: datetime | None = None
    """When that came about, by the cluster's own times; None while it has not, or where it tells none."""
    stuck: bool = False
    """Whether the object's controller has given up waiting for progress."""
    refused: str = ""
    """Why the cluster makes no pod of it, in its own words."""
    refused_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at the cluster. It has no memory: the caller compares it with what was seen before."""

    stage: Stage
    reason: Reason
    message: str
    """One or two sentences with the server's own words and numbers."""
    exists: bool = True
    """Whether the primary object is there, perhaps being deleted."""
    deleting: bool = False
    """Whether the primary object has a deletion time."""
    set_back: bool = False
    """Whether the cluster was set back to a state in which the primary object, which is not there, did not exist."""
    left_behind: bool = False
    """Whether what makes its pods exists without the primary, and belongs to no other object."""
    adoptable: bool = False
    """Whether a primary that is made again takes over all pods that are there: they are of what makes pods and stays,
    or of no controller and of the revision that it is made with."""
    interruption: bool = False
    """The attempt has ended, or is ending, through no fault of the user: no retry is used up. It may be set
    before the stage is `failed`: a pod on a lost node never gets there."""
    cause: Reason | None = None
    """Why it is ending, while `interruption` is set and the stage is not `failed` yet."""
    retryable: bool = False
    """Whether another attempt may help; always true of an interruption."""
    blocked: bool = False
    """The container cannot start until something changes outside it (image, ConfigMap, volume, quota);
    the caller's deadlines decide how long that may last."""
    waiting_since: datetime | None = None
    """Since when the present wait has lasted, in a stage before `running`."""
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    scheduled_at: datetime | None = None
    """When a run had all its nodes: from then on it counts as starting. Of an endpoint, when its first pod had one."""
    pods: tuple[PodFacts, ...] = ()
    ready_replicas: int = 0
    desired_replicas: int = 0
    scaler: ScalerFacts | None = None
    """Of what has a scaler, once that is there."""
    look_again_seconds: float | None = None
    """When to look again if nothing tells of a change before; None leaves it to the phase."""
    incomplete: bool = False
    """Whether something that was made beside the primary object is not there any more."""
    rollout: RolloutFacts | None = None
    """Of an endpoint whose object is there."""

    @property
    def pods_alive(self) -> int:
        """Pods that may still hold GPUs."""
        return sum(pod.alive for pod in self.pods)

    @property
    def final(self) -> bool:
        """Whether the primary object has ended and will not change any more."""
        return self.stage in {Stage.SUCCEEDED, Stage.FAILED}
