"""Brings the rows of revisions up to date with what the reconciler saw and did, and rolls back what fails."""

from __future__ import annotations

from datetime import datetime, timedelta

from controller.reconcile.decide import Action, Plan
from foundation.models import PlatformSettings
from inference.changes import with_size_of
from inference.models import Endpoint, EndpointRevision, RevisionCause, RevisionState, RolloutStrategy
from inference.rollouts import Bounds, Judgement, RolloutOutcome, RolloutStep, judge, progress_words
from inference.specs import WHEN_REPLACE, EndpointSpec
from quotas.queries import holds_surge
from workloads.models import Workload
from workloads.pods.observation import Observation, RolloutFacts
from workloads.services import change_generation, note
from workloads.states import HOLDS_CLAIM, Phase

ACTOR = "rollout"
HELD_SECONDS_MAX = 7200
PROGRESS_STEPS = 10
NO_ROOM = "There is no room for a pod more, so its pods are replaced in place"
LIVE = HOLDS_CLAIM - {Phase.STOPPING}


def way_back(endpoint: Endpoint) -> EndpointRevision | None:
    """The revision that takes over where the applied one fails; None where none may.

    Never a second time in a row: a rollback that fails says so, and people decide.
    """
    applied = endpoint.applied
    if applied.live_at is not None or applied.cause == RevisionCause.AUTOMATIC_ROLLBACK.value:
        return None
    if endpoint.stable_revision is None:
        return None
    stable = endpoint.revisions.get(number=endpoint.stable_revision)
    return None if stable.pods_of == applied.pods_of else stable


def settle(workload: Workload, observation: Observation | None, plan: Plan, now: datetime) -> float | None:
    """The endpoint's revisions after one look at it, in the transaction that records the look.

    Seconds until it wants another look. Where people have changed something since the look began, the next one is
    due anyway and knows more.
    """
    fresh = Workload.objects.values_list("generation", flat=True).get(pk=workload.pk)
    endpoint = Endpoint.objects.filter(workload=workload).first()
    if endpoint is None or fresh != workload.generation:
        return None
    return _Settling(workload, endpoint, plan, now).run(observation)


class _Settling:
    def __init__(self, workload: Workload, endpoint: Endpoint, plan: Plan, now: datetime) -> None:
        self.workload, self.endpoint, self.plan, self.now = workload, endpoint, plan, now

    def run(self, observation: Observation | None) -> float | None:
        plan = self.plan
        if plan.to is Phase.FAILED and self.endpoint.current.live_at is None:
            self._mark_failed(self.endpoint.current, plan.message)
        if plan.to not in LIVE:
            return None
        if plan.no_surge and not self._waits(self.endpoint.current):
            return 0
        if plan.refused:
            self._fails(self.endpoint.to_tell, f"The cluster refused it: {plan.refused}")
        elif Action.APPLY in plan.actions or Action.CREATE in plan.actions:
            self._applied(self.endpoint.to_tell)
        elif observation is not None and observation.rollout is not None:
            return self._looked(observation, observation.rollout)
        return None

    def _applied(self, revision: EndpointRevision) -> None:
        """The cluster has its objects now."""
        if self.endpoint.target != revision.number:
            self.endpoint.target = revision.number
            self.endpoint.save(update_fields=["target"])
        if Action.CREATE in self.plan.actions and revision.down_since is not None:
            # It was stopped meanwhile: no caller expected an answer then.
            revision.down_since = None
            revision.save(update_fields=["down_since"])
        if revision.state != RevisionState.PENDING.value:
            return
        revision.state, revision.message = RevisionState.ROLLING_OUT.value, ""
        revision.started_at = revision.started_at or self.now
        revision.save(update_fields=["state", "message", "started_at"])
        self._note(
            revision,
            RolloutStep.STARTED,
            f"Revision {revision.number} is being rolled out ({revision.strategy}).",
        )
        own = revision.pods_of == revision.number
        if own and revision.strategy == RolloutStrategy.SURGE.value and holds_surge(self.workload):
            gpus = revision.parsed.gpus_per_replica
            what = (
                f"{gpus} {self.workload.flavor} ({self.workload.capacity_type}) are" if gpus else "A pod is"
            )
            self._note(revision, RolloutStep.SURGE_CLAIMED, f"{what} claimed on top until it is over.")

    def _waits(self, revision: EndpointRevision) -> bool:
        """Nothing was applied: its surge has no quota or no room now, and what runs stays. False where it goes in place."""
        why = self.plan.no_surge
        if revision.parsed.when_blocked == WHEN_REPLACE:
            self._in_place(revision, f"{NO_ROOM}, as asked. {why}")
            return False
        if revision.state == RevisionState.ROLLING_OUT.value:
            revision.state = RevisionState.PENDING.value
        if not revision.message:
            self._note(revision, RolloutStep.WAITS, f"Revision {revision.number} waits. {why}")
        if revision.message != why:
            revision.message = why
            revision.save(update_fields=["state", "message"])
        return True

    def _in_place(self, revision: EndpointRevision, text: str) -> None:
        revision.strategy = RolloutStrategy.REPLACE.value
        revision.save(update_fields=["strategy"])
        change_generation(self.workload, now=self.now)
        self._note(revision, RolloutStep.IN_PLACE, text)

    def _looked(self, observation: Observation, rollout: RolloutFacts) -> float | None:
        applied = self.endpoint.applied
        if rollout.revision != applied.pods_of:
            return None
        held = self._try_again(rollout)
        if applied.live_at is not None and applied.state != RevisionState.ROLLING_OUT.value:
            return held
        self._progress(applied, observation, rollout)
        judgement = judge(
            rollout,
            observation.pods,
            self._bounds(applied),
            now=self.now,
            began=applied.started_at,
            down_since=applied.down_since,
        )
        return self._follow(applied, judgement, observation, rollout)

    def _bounds(self, revision: EndpointRevision) -> Bounds:
        spec, settings = revision.parsed, PlatformSettings.current()
        in_place = revision.strategy == RolloutStrategy.REPLACE.value
        may_return = way_back(self.endpoint) is not None
        return Bounds(
            load=spec.probes.load_budget_seconds,
            image_pull=self.workload.image_pull_deadline_seconds or settings.image_pull_deadline_seconds,
            schedule=settings.schedule_deadline_seconds,
            downtime=spec.max_downtime_seconds or None if in_place and may_return else None,
        )

    def _progress(self, revision: EndpointRevision, observation: Observation, rollout: RolloutFacts) -> None:
        before = revision.ready
        revision.updated, revision.ready, revision.total = rollout.updated, rollout.ready, rollout.total
        if observation.ready_replicas or not rollout.total:
            revision.down_since = None
        else:
            revision.down_since = revision.down_since or self.now
        if revision.state == RevisionState.ROLLING_OUT.value:
            revision.message = "" if rollout.total else "No replica runs now; it proves itself when one does."
        revision.save(update_fields=["updated", "ready", "total", "down_since", "message"])
        step = max(1, rollout.total // PROGRESS_STEPS)
        if rollout.ready // step > before // step and rollout.ready < rollout.total:
            self._note(revision, RolloutStep.PROGRESS, progress_words(revision.number, rollout))

    def _follow(
        self, applied: EndpointRevision, judgement: Judgement, observation: Observation, rollout: RolloutFacts
    ) -> float | None:
        if judgement.outcome is RolloutOutcome.LIVE:
            self._live(applied, observation, rollout)
        elif self.plan.no_surge:
            # The applied revision is not the wanted one: it need not find room, but what waits must not wait for it.
            if judgement.outcome is RolloutOutcome.FAILED:
                self._makes_way(applied, judgement.message)
                return 0
        elif judgement.outcome is RolloutOutcome.FAILED:
            self._fails(applied, judgement.message)
        elif judgement.outcome is RolloutOutcome.NO_ROOM and rollout.old:
            self._finds_no_room(applied, judgement.message)
        return judgement.look_in

    def _live(self, revision: EndpointRevision, observation: Observation, rollout: RolloutFacts) -> None:
        loads = [
            (pod.ready_at - pod.scheduled_at).total_seconds()
            for pod in observation.pods
            if pod.revision == revision.pods_of and pod.ready_at and pod.scheduled_at
        ]
        revision.state, revision.message = RevisionState.LIVE.value, ""
        live_at = rollout.completed_at or self.now
        # The cluster's times are whole seconds, and it may have had the pods before there was this revision of them.
        revision.live_at, revision.failed_at = max(live_at, revision.started_at or live_at), None
        revision.load_seconds = max(0, round(max(loads))) if loads else None
        revision.save(update_fields=["state", "message", "live_at", "failed_at", "load_seconds"])
        older = self.endpoint.revisions.filter(number__lt=revision.number)
        older.exclude(state=RevisionState.FAILED.value).update(
            state=RevisionState.SUPERSEDED.value, held_until=None
        )
        self.endpoint.stable_revision = revision.number
        self.endpoint.save(update_fields=["stable_revision"])
        self._note(
            revision,
            RolloutStep.LIVE,
            f"Revision {revision.number} is live: {revision.total} pods are ready.",
        )

    def _fails(self, revision: EndpointRevision, why: str) -> None:
        if revision.state in {RevisionState.LIVE.value, RevisionState.SUPERSEDED.value}:
            # A revision that has proved good was applied again: the refusal is not its fault.
            return
        stable = way_back(self.endpoint) if self.endpoint.target == revision.number else None
        automatic = revision.cause == RevisionCause.AUTOMATIC_ROLLBACK.value
        if self.endpoint.target != revision.number and self.endpoint.stable_revision and not automatic:
            # It was refused before any of it was there: the revision that was applied last is still there.
            applied = self.endpoint.applied
            stable = way_back(self.endpoint) if applied.state == RevisionState.FAILED.value else applied
        if revision.state != RevisionState.FAILED.value or stable is not None:
            self._mark_failed(revision, why)
        if stable is not None:
            self._roll_back(revision, stable, why)

    def _makes_way(self, failed: EndpointRevision, why: str) -> None:
        """The revision that waits for room beside a failed one takes the room of the failed one."""
        if failed.state != RevisionState.FAILED.value:
            self._mark_failed(failed, why)
        text = f"{NO_ROOM}, because revision {failed.number}, which holds the room, failed. {why}"
        self._in_place(self.endpoint.current, text)

    def _mark_failed(self, revision: EndpointRevision, why: str) -> None:
        revision.state, revision.message = RevisionState.FAILED.value, why
        revision.failed_at = self.now
        revision.save(update_fields=["state", "message", "failed_at"])
        self._note(revision, RolloutStep.FAILED, f"Revision {revision.number} failed. {why}")

    def _roll_back(self, failed: EndpointRevision, stable: EndpointRevision, why: str) -> None:
        """Make a revision with what ran before; the number of replicas did not fail, so it stays."""
        endpoint = self.endpoint
        endpoint.revision += 1
        endpoint.save(update_fields=["revision"])
        body = with_size_of(stable.spec, failed.spec)
        endpoint.bound_hold(EndpointSpec.from_json(body))
        revision = EndpointRevision.objects.create(
            endpoint=endpoint,
            number=endpoint.revision,
            spec=body,
            actor=ACTOR,
            created_at=self.now,
            cause=RevisionCause.AUTOMATIC_ROLLBACK.value,
            returns_to=stable.number,
            pods_of=stable.pods_of,
            strategy=self._strategy_back(failed),
        )
        change_generation(self.workload, now=self.now)
        text = (
            f"Rolled back to revision {stable.number}, as revision {revision.number}, because revision "
            f"{failed.number} failed. {why}"
        )
        self._note(revision, RolloutStep.ROLLED_BACK, text)

    def _strategy_back(self, failed: EndpointRevision) -> str:
        """In place where its rollout held no room on top, as when it began while stopped or asleep: a surge of
        its own might never be granted, and no replica answers meanwhile.
        """
        if failed.parsed.gpus_per_replica and not holds_surge(self.workload):
            return RolloutStrategy.REPLACE.value
        return failed.strategy

    def _finds_no_room(self, revision: EndpointRevision, why: str) -> None:
        """Not its fault: the old pods go on alone, what was claimed on top is given back, and it is tried again."""
        surges = revision.strategy == RolloutStrategy.SURGE.value
        if surges and revision.parsed.when_blocked == WHEN_REPLACE:
            self._in_place(revision, f"{NO_ROOM}, as asked. {why}")
            return
        stable = way_back(self.endpoint)
        if stable is None or not surges:
            return
        revision.tries += 1
        rest = PlatformSettings.current().schedule_deadline_seconds * 2**revision.tries
        revision.held_until = self.now + timedelta(seconds=min(rest, HELD_SECONDS_MAX))
        revision.state, revision.message = RevisionState.PENDING.value, why
        revision.save(update_fields=["tries", "held_until", "state", "message"])
        self.endpoint.target = stable.number
        self.endpoint.save(update_fields=["target"])
        change_generation(self.workload, now=self.now)
        text = (
            f"Revision {revision.number} waits and revision {stable.number} goes on: there is no room. {why}"
        )
        self._note(revision, RolloutStep.TAKEN_BACK, text)

    def _try_again(self, rollout: RolloutFacts) -> float | None:
        """Let go a revision that was held back, once its time has come and what runs is ready; seconds until then."""
        current = self.endpoint.current
        if current.held_until is None:
            return None
        left = (current.held_until - self.now).total_seconds()
        if left > 0:
            return max(1.0, left)
        if not rollout.complete:
            return None
        current.held_until = None
        current.save(update_fields=["held_until"])
        change_generation(self.workload, now=self.now)
        return 0

    def _note(self, revision: EndpointRevision, step: RolloutStep, message: str) -> None:
        source = f"revision {revision.number}"
        note(self.workload, reason=step.value, message=message, actor=ACTOR, source=source, now=self.now)
