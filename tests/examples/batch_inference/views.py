"""Pages of batches."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.urls import reverse
from typing_extensions import override

from console.pages.detail import CommandPage, PageCommand, Tab, WorkloadDetailPage, WorkloadPage, refusal
from console.pages.forms import ContainerForm
from console.pages.lists import WorkloadListPage
from console.pages.reading import PageReading
from console.pages.submit import SubmitPage
from controller import services
from controller.waiting_card import Card
from foundation import clock
from teams.actors import actor_of
from teams.models import Team, User
from tests.examples.batch_inference.forms import BatchInferenceForm, values_of
from tests.examples.batch_inference.models import BatchInference
from tests.examples.batch_inference.serializers import BatchInferenceSerializer
from tests.examples.batch_inference.services import preview_batch, submit_batch
from tests.examples.batch_inference.specs import KIND, BatchInferenceSpec
from workloads.models import Workload


def _of(workload: Workload) -> BatchInference:
    return workload.batch_inference


class OfBatches(WorkloadPage):
    kind = KIND
    app = "batch_inference"
    beside = ("batch_inference",)


class BatchListPage(WorkloadListPage):
    """All batches that the person may see, newest first."""

    kind = KIND
    template = "batch_inference/batch_list.html"


class BatchNewPage(SubmitPage):
    """The form of a new batch; `?from=` fills it in as an earlier one."""

    kind = KIND
    beside = ("batch_inference",)
    form_class = BatchInferenceForm
    template = "batch_inference/batch_new.html"

    @override
    def initial(self, request: HttpRequest) -> dict[str, Any]:
        if (workload := self.filled_from(request)) is None:
            return {"capacity": "on-demand", "gpus": "1", "replicas": "1", "priority": "normal"}
        values = values_of(_of(workload).spec)
        return {**values, "team": workload.team.slug, "name": workload.name}

    @override
    def preview(self, form: ContainerForm, team: Team, request: HttpRequest) -> Card:
        user, now = cast("User", request.user), clock.now()
        return preview_batch(spec=_spec(form), team=team, user=user, now=now, replaces=form.replaced_id)

    @override
    def submit(self, form: ContainerForm, team: Team, request: HttpRequest) -> str:
        actor, now = actor_of(request), clock.now()
        batch = submit_batch(spec=_spec(form), team=team, actor=actor, now=now, replaces=form.replaced_id)
        return reverse("batch_inference:batch-detail", args=[batch.workload.public_id])


def _spec(form: ContainerForm) -> BatchInferenceSpec:
    return cast("BatchInferenceSerializer", form.serializer).to_spec()


class BatchDetailPage(OfBatches, WorkloadDetailPage[BatchInference]):
    """One batch: what it does, why, what it costs, its logs."""

    template = "batch_inference/batch_detail.html"
    tabs = (
        Tab("logs", "Logs"),
        Tab("events", "Events"),
        Tab("pods", "Pods"),
        Tab("cost", "Cost"),
        Tab("manifests", "Manifests"),
        Tab("spec", "Spec"),
    )

    @override
    def read(self, workload: Workload) -> BatchInference:
        return _of(workload)

    @override
    def facts(self, asked: PageReading[BatchInference]) -> dict[str, Any]:
        return {"spec": asked.own.spec}

    @override
    def commands(self, asked: PageReading[BatchInference], *, may: bool) -> list[PageCommand]:
        cancel = PageCommand(
            name="cancel",
            label="Cancel",
            icon="ban",
            url=self.url("batch-cancel", asked.workload),
            effect="Stops its pods after the grace period.",
            refused=refusal(asked.workload),
            danger=True,
        )
        return [cancel]


class BatchCancelPage(OfBatches, CommandPage):
    """Stop it for good."""

    command = services.cancel
    done = "{name} is being cancelled."
