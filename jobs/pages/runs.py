"""Pages of training runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from typing_extensions import override

from console.pages import panels as page_panels
from console.pages.bulk import WorkloadBulkPage
from console.pages.detail import (
    PageCommand,
    Tab,
    WorkloadDetailPage,
    WorkloadPage,
    refusal,
    resume_refusal,
    suspend_refusal,
)
from console.pages.forms import ContainerForm, unix
from console.pages.lists import WorkloadExportPage, WorkloadListPage
from console.pages.queries import watches_of
from console.pages.reading import PageReading
from console.pages.submit import SubmitPage, teams_to_submit
from controller.waiting_card import Card
from foundation import clock
from foundation.errors import FieldProblem, Invalid, Malformed, NotFound
from foundation.models import PlatformSettings
from foundation.number_words import limit_words
from jobs.adapter import KIND
from jobs.forms import TrainingRunForm, values_of
from jobs.importing import import_manifest
from jobs.imports import Imported
from jobs.imports.reading import TEXT_BYTES_MAX
from jobs.matrix import Matrix, text_of
from jobs.models import TrainingRun
from jobs.pages.outputs import outputs
from jobs.pages.sections import SECTIONS
from jobs.queries import enabled_templates, template_named
from jobs.services import preview_training_run, submit_training_run
from jobs.specs import TrainingRunSpec
from jobs.sweeps.card import preview_sweep
from jobs.sweeps.serializers import RunOrSweepSerializer
from jobs.sweeps.services import submit_sweep
from jobs.time_limit import running_out
from teams.actors import actor_of
from teams.models import Team, User
from telemetry.size_advice import right_size_of
from workloads.models import Checkpoint, Workload
from workloads.naming import free_name

BESIDE = ("training_run__origin", "training_run__sweep")
"""What is read with a run."""
TABS = (
    Tab("logs", "Logs"),
    Tab("events", "Events"),
    Tab("pods", "Pods"),
    Tab("gpus", "GPUs"),
    Tab("cost", "Cost"),
    Tab("outputs", "Outputs"),
    Tab("manifests", "Manifests"),
    Tab("spec", "Spec"),
)
EXAMPLE: Mapping[str, str] = {
    "capacity": "on-demand",
    "gpus": "1",
    "replicas": "1",
    "priority": "normal",
    "retries": "0",
}


class OfRuns(WorkloadPage):
    kind = KIND
    app = "jobs"
    beside = BESIDE


class RunListPage(WorkloadListPage):
    """All runs that the person may see, newest first."""

    kind = KIND
    template = "jobs/run_list.html"


class RunExportPage(WorkloadExportPage):
    """The same runs as a CSV file."""

    kind = KIND


class RunBulkPage(WorkloadBulkPage):
    """Cancel or label all the runs that a list shows with its filters."""

    kind = KIND
    list_name = "jobs:run-list"


class RunNewPage(SubmitPage):
    """The form of a new run; `?from=` fills it in as an earlier one."""

    kind = KIND
    beside = ("training_run",)
    form_class = TrainingRunForm
    sections = SECTIONS
    template = "jobs/run_new.html"

    @override
    def initial(self, request: HttpRequest) -> dict[str, Any]:
        limit = limit_words(PlatformSettings.current().default_time_limit_seconds)
        values: dict[str, Any] = {**EXAMPLE, "time_limit": limit}
        if (workload := self.filled_from(request)) is None:
            return {**values, **self._of_template(request)}
        spec = workload.training_run.request
        if request.GET.get("right_size") == "1":
            advice = right_size_of(workload, now=clock.now()).advice
            spec = {**spec, **(advice.changes if advice else {})}
        name = free_name(workload.name, kind=KIND, team=workload.team)
        return {**values, **values_of(spec), "team": workload.team.slug, "name": name}

    def _of_template(self, request: HttpRequest) -> Mapping[str, Any]:
        """What the template says that `?template=` names; NotFound where it may not be named."""
        if not (name := request.GET.get("template")):
            return {}
        if template_named(name) is None:
            raise NotFound("There is no such template.")
        return TrainingRunForm(initial={"template": name}, teams=[]).rules.initial

    @override
    def facts(self, form: ContainerForm) -> dict[str, Any]:
        run_form = cast("TrainingRunForm", form)
        run_form.followed = lambda: watches_of(self.request).kinds
        return {"templates": enabled_templates(), "rules": run_form.rules}

    @override
    def preview(self, form: ContainerForm, team: Team, request: HttpRequest) -> Card:
        if (matrix := _matrix(form)) is not None:
            user = cast("User", request.user)
            sweep = preview_sweep(spec=_spec(form), matrix=matrix, team=team, user=user, now=clock.now())
            cast("TrainingRunForm", form).figures = sweep.figures
            return sweep.card
        return preview_training_run(
            spec=_spec(form),
            team=team,
            user=cast("User", request.user),
            now=clock.now(),
            replaces=form.replaced_id,
        )

    @override
    def submit(self, form: ContainerForm, team: Team, request: HttpRequest) -> str:
        if (matrix := _matrix(form)) is not None:
            sweep = submit_sweep(
                spec=_spec(form),
                matrix=matrix,
                asked=cast("RunOrSweepSerializer", form.serializer).validated_data["matrix"],
                team=team,
                actor=actor_of(request),
                now=clock.now(),
            )
            return sweep.page_url
        run = submit_training_run(
            spec=_spec(form),
            team=team,
            actor=actor_of(request),
            now=clock.now(),
            replaces=form.replaced_id,
            origin=TrainingRun.objects.filter(workload=self.earlier).first() if self.earlier else None,
        )
        return reverse("jobs:run-detail", args=[run.workload.public_id])


class RunImportPage(RunNewPage):
    """A manifest to paste; what it says fills in the form of a new run, which is sent to that form's page."""

    imported: Imported

    @override
    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        teams_to_submit(request, self.noun)
        return render(request, "jobs/run_import.html", {"manifest": "", "problems": []})

    @override
    def post(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        teams = teams_to_submit(request, self.noun)
        try:
            manifest = _manifest_sent(request)
        except UnicodeDecodeError:
            said = FieldProblem(field="file", code="invalid", message="This is not a text file in UTF-8.")
            context = {"manifest": "", "problems": [said]}
            return render(request, "jobs/run_import.html", context, status=422)
        try:
            imported = import_manifest(manifest, user=request.user)
        except (Invalid, Malformed) as error:
            context = {"manifest": manifest, "problems": error.errors}
            return render(request, "jobs/run_import.html", context, status=422)
        team = next(
            (candidate for candidate in teams if candidate.slug == imported.request.get("team")), teams[0]
        )
        limit = limit_words(PlatformSettings.current().default_time_limit_seconds)
        values = values_of(imported.request)
        initial = {
            **values,
            "team": team.slug,
            "name": imported.request.get("name", ""),
            "time_limit": values["time_limit"] or limit,
        }
        self.imported = imported
        return self._page(request, self.form_class(initial=initial, teams=teams), team)

    @override
    def facts(self, form: ContainerForm) -> dict[str, Any]:
        # Which team it is for, the form has an answer to already.
        problems = [problem for problem in self.imported.problems if problem.field != "team"]
        return {"imported": self.imported, "problems": problems, "form_url": reverse("jobs:run-new")}


def _manifest_sent(request: HttpRequest) -> str:
    """What was pasted, else what the file says that was sent."""
    pasted = unix(request.POST.get("manifest", ""))
    sent = request.FILES.get("file")
    if pasted.strip() or sent is None:
        return pasted
    # One byte more than a manifest may have, so that it is refused for its size.
    return unix(sent.read(TEXT_BYTES_MAX + 1).decode())


def _spec(form: ContainerForm) -> TrainingRunSpec:
    return cast("RunOrSweepSerializer", form.serializer).to_spec()


def _matrix(form: ContainerForm) -> Matrix | None:
    return cast("RunOrSweepSerializer", form.serializer).matrix_asked


_SAVED = Checkpoint.objects.filter(workload=OuterRef("pk")).order_by("-id")
"""Its checkpoints, the newest first."""


class RunDetailPage(OfRuns, WorkloadDetailPage[TrainingRun]):
    """One run: what it does, why, what it costs, its logs."""

    template = "jobs/run_detail.html"
    tabs = TABS
    panels = {**page_panels.SHARED_PANELS, "outputs": outputs}
    limit_name = "run-time-limit"
    annotated = {"saved": Subquery(_SAVED.values(newest=JSONObject(path="path", step="step"))[:1])}

    @override
    def read(self, workload: Workload) -> TrainingRun:
        return workload.training_run

    @override
    def facts(self, asked: PageReading[TrainingRun]) -> dict[str, Any]:
        workload, run = asked.workload, asked.own
        return {
            "spec": run.spec,
            "origin": run.origin if run.origin and run.origin.team_id == workload.team_id else None,
            "member": run if run.sweep_id else None,
            "parameters": [(name, text_of(value)) for name, value in run.parameters.items()],
            "continues": workload.checkpoints.filter(attempt=0).first() if run.origin else None,
            "running_out": running_out(workload, asked.attempts, now=asked.now),
            "limit_url": self.url(self.limit_name, workload),
        }

    @override
    def commands(self, asked: PageReading[TrainingRun], *, may: bool) -> list[PageCommand]:
        workload = asked.workload
        held = f", and frees {workload.units} {workload.flavor}" if workload.flavor and workload.units else ""
        return [
            PageCommand(
                name="suspend",
                label="Suspend",
                icon="pause",
                url=self.url("run-suspend", workload),
                effect=f"Stops its pod after the grace period{held}. It stays in the list of runs and can be resumed; "
                "work since the last checkpoint is lost.",
                refused=suspend_refusal(workload),
            ),
            PageCommand(
                name="resume",
                label="Resume",
                icon="play",
                url=self.url("run-resume", workload),
                effect="Puts it into the queue again.",
                refused=resume_refusal(workload),
            ),
            PageCommand(
                name="retry",
                label="Run again",
                icon="retry",
                url=self.url("run-retry", workload),
                effect="Submits the same request as a new run. To change it first, use Clone.",
                refused="" if workload.is_final else "Only when this one has ended.",
            ),
            *self._continue(workload),
            PageCommand(
                name="cancel",
                label="Cancel",
                icon="ban",
                url=self.url("run-cancel", workload),
                effect=f"Stops its pod after the grace period{held}. Work since the last checkpoint is lost. "
                "A cancelled run cannot be resumed.",
                refused=refusal(workload),
                danger=True,
            ),
        ]

    def _continue(self, workload: Workload) -> list[PageCommand]:
        """Offered where it has saved something: in an attempt, if it has not brought that along."""
        saved: Mapping[str, Any] | None = getattr(workload, "saved", None)
        if saved is None:
            return []
        return [
            PageCommand(
                name="continue",
                label="Continue",
                icon="play",
                url=f"{self.url('run-retry', workload)}?from_checkpoint=1",
                effect=f"Submits the same request as a new run, which goes on from {saved['path']} (step {saved['step']}).",
                refused="" if workload.is_final else "Only when this one has ended.",
            )
        ]
