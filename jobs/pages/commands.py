"""Pages of a training run that ask for something: cancel, suspend, resume, another time limit, retry."""

from __future__ import annotations

from datetime import datetime

from typing_extensions import override

from console.pages.detail import (
    CommandPage,
)
from console.pages.forms import whole
from controller import services
from foundation.errors import Invalid
from foundation.http.problems import flatten
from jobs.models import TrainingRun
from jobs.pages.runs import OfRuns
from jobs.serializers import TrainingRunPatchSerializer
from jobs.services import submit_training_run, update_training_run
from jobs.specs import TrainingRunSpec
from teams.actors import Actor
from workloads.models import Workload


class RunCancelPage(OfRuns, CommandPage):
    """Stop it for good."""

    command = services.cancel
    done = "{name} is being cancelled."


class RunSuspendPage(OfRuns, CommandPage):
    """Stop it, free its GPUs and keep it."""

    command = services.suspend
    done = "{name} is being suspended."


class RunResumePage(OfRuns, CommandPage):
    """Queue a suspended run again."""

    command = services.resume
    done = "{name} is in the queue again."


class RunTimeLimitPage(OfRuns, CommandPage):
    """Another time limit, in seconds as `seconds`; one that waits may start sooner with a shorter one."""

    done = "{name} has another time limit now."

    @override
    def carry_out(self, workload: Workload, actor: Actor, now: datetime) -> Workload:
        seconds = whole(self.request.POST.get("seconds", ""))
        change = TrainingRunPatchSerializer(data={"time_limit_seconds": seconds})
        if not change.is_valid():
            problem = next(flatten(change.errors))
            raise Invalid.of_field("time_limit_seconds", f"No time limit: {problem.message}", code="invalid")
        update_training_run(
            run=TrainingRun.objects.select_related("workload__team").get(workload=workload),
            priority=None,
            time_limit_seconds=change.validated_data.get("time_limit_seconds"),
            actor=actor,
            now=now,
        )
        return workload


class RunRetryPage(OfRuns, CommandPage):
    """Submit the same request as a new run; with `?from_checkpoint=1` it goes on where this one left off."""

    done = "{name} is submitted again."
    after_the_end = True

    @override
    def carry_out(self, workload: Workload, actor: Actor, now: datetime) -> Workload:
        run = TrainingRun.objects.select_related("workload__team").get(workload=workload)
        return submit_training_run(
            spec=TrainingRunSpec.from_json(run.request),
            team=workload.team,
            actor=actor,
            now=now,
            origin=run,
            from_checkpoint=self.request.GET.get("from_checkpoint") == "1",
        ).workload
