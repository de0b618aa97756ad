"""Pages of inference endpoints. Trying one out is in `pages`, because the gateway does it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from typing_extensions import override

from console.pages import panels as page_panels
from console.pages.bulk import WorkloadBulkPage
from console.pages.detail import (
    CommandPage,
    PageCommand,
    Tab,
    WorkloadDetailPage,
    refusal,
    resume_refusal,
    see_other,
    suspend_refusal,
)
from console.pages.forms import ContainerForm
from console.pages.lists import WorkloadExportPage, WorkloadListPage
from console.pages.reading import PageReading
from console.pages.submit import SubmitPage
from controller import services
from controller.routes import gateway_url
from controller.waiting_card import Card
from foundation import clock
from foundation.digits import whole_number
from foundation.errors import Conflict, Invalid
from inference.adapter import manifests_by
from inference.changes import changes_between
from inference.errors import RevisionMoved, RolloutBlocked
from inference.models import Endpoint, EndpointRevision
from inference.now import EndpointNow, endpoint_now, wanted_of
from inference.pages.forms import EndpointForm, take_over, values_of
from inference.pages.list_states import ENDPOINT_STATES, state_of
from inference.pages.revisions import change_look, chosen_rollout, looks_of, moved_look
from inference.pages.scaling_actions import EndpointPage, scaler_commands
from inference.serializers import EndpointSerializer
from inference.services import (
    deploy_endpoint,
    preview_endpoint,
    preview_rollback,
    preview_update,
    roll_back,
    update_endpoint,
)
from inference.specs import KIND, EndpointSpec
from teams.actors import actor_of
from teams.models import Team, User
from teams.permissions import check_can_submit
from workloads.models import Workload
from workloads.naming import free_name
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet
from workloads.podspec.specs import ContainerSpec

TABS = (
    Tab(
        "overview",
        "Overview",
        parts=(Tab("overview", "Now"), Tab("pods", "Pods"), Tab("events", "Events")),
    ),
    Tab("analytics", "Analytics", parts=(Tab("analytics", "Requests and replicas"), Tab("gpus", "GPUs"))),
    Tab("logs", "Logs"),
    Tab("cost", "Usage & cost"),
    Tab(
        "update",
        "Settings & revisions",
        parts=(
            Tab("update", "Settings", steers=True),
            Tab("revisions", "Revisions"),
            Tab("access", "Access"),
            Tab("manifests", "Manifests"),
            Tab("spec", "Spec"),
        ),
    ),
)
MOVED: Mapping[str, tuple[str, str]] = {"try": ("overview", "#try"), "settings": ("update", "#tabs")}
"""Other names of what stands in a tab, and where in it."""
RANGE_NAMES = ("range", "from", "to", "zone", "table")
"""Parameters of an address that say which time the drawings are of and how, which every tab keeps."""
TRY_METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE")
EXAMPLE: Mapping[str, str] = {
    "capacity": "on-demand",
    "gpus": "1",
    "cpu": "2",
    "memory": "8Gi",
    "priority": "normal",
    "replicas": "1",
    "load_budget": "600",
    "request_timeout": "60",
    "strategy": "surge",
}


def _revisions(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    return {"revisions": looks_of(asked.own.endpoint)}


def _settings(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    """The form of a change, as it is wanted now."""
    workload, wanted = asked.workload, asked.own.wanted
    values = {**values_of(wanted.spec), "team": workload.team.slug, "name": workload.name}
    return {"form": EndpointForm(initial=values, teams=[workload.team]), "made_from": wanted.number}


def _manifests(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    now = asked.own

    def make(placement: Placement) -> ManifestSet:
        return manifests_by(now.endpoint, now.to_tell, now.spec_to_tell, placement, followed=asked.followed)

    return page_panels.manifests(asked, make=make)


class EndpointListPage(WorkloadListPage):
    """All endpoints that the person may see, newest first."""

    kind = KIND
    template = "inference/endpoint_list.html"
    states = ENDPOINT_STATES
    state_name = "state"


class EndpointExportPage(WorkloadExportPage):
    """The same endpoints as a CSV file."""

    kind = KIND
    states = ENDPOINT_STATES
    state_name = "state"


class EndpointBulkPage(WorkloadBulkPage):
    """Delete or label all the endpoints that a list shows with its filters; how many are deleted has to be typed."""

    kind = KIND
    states = ENDPOINT_STATES
    state_name = "state"
    list_name = "inference:endpoint-list"
    cancel_words = ("Delete", "being deleted")
    confirms = True


class EndpointNewPage(SubmitPage):
    """The form of a new endpoint; `?from=` fills it in as another one."""

    kind = KIND
    form_class = EndpointForm
    parts = (*SubmitPage.parts, "serving")
    template = "inference/endpoint_new.html"

    @override
    def initial(self, request: HttpRequest) -> dict[str, Any]:
        if (workload := self.filled_from(request)) is None:
            return dict(EXAMPLE)
        spec = wanted_of(workload).spec
        name = free_name(workload.name, kind=KIND, team=workload.team)
        return {**EXAMPLE, **values_of(spec), "team": workload.team.slug, "name": name}

    @override
    def preview(self, form: ContainerForm, team: Team, request: HttpRequest) -> Card:
        return preview_endpoint(
            spec=_spec(form),
            team=team,
            user=cast("User", request.user),
            now=clock.now(),
            replaces=form.replaced_id,
        )

    @override
    def submit(self, form: ContainerForm, team: Team, request: HttpRequest) -> str:
        endpoint = deploy_endpoint(
            spec=_spec(form),
            team=team,
            actor=actor_of(request),
            now=clock.now(),
            replaces=form.replaced_id,
        )
        return reverse("inference:endpoint-detail", args=[endpoint.workload.public_id])


def _spec(form: ContainerForm) -> EndpointSpec:
    return cast("EndpointSerializer", form.serializer).to_spec()


class EndpointDetailPage(EndpointPage, WorkloadDetailPage[EndpointNow]):
    """One endpoint: whether it answers, where, with which revision, at what cost."""

    template = "inference/endpoint_detail.html"
    tabs = TABS
    panels = {
        **{name: panel for name, panel in page_panels.SHARED_PANELS.items() if name != "cost"},
        "revisions": _revisions,
        "update": _settings,
        "manifests": _manifests,
    }
    fragments = WorkloadDetailPage.fragments | {"figures", "try"}

    @override
    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        if (moved := MOVED.get(request.GET.get("tab", ""))) is not None:
            query = request.GET.copy()
            query["tab"], place = moved
            return see_other(f"{request.path}?{query.urlencode()}{place}")
        return super().get(request, public_id)

    @override
    def read(self, workload: Workload) -> EndpointNow:
        return endpoint_now(workload)

    @override
    def container(self, asked: PageReading[EndpointNow]) -> ContainerSpec:
        return asked.own.spec

    @override
    def facts(self, asked: PageReading[EndpointNow]) -> dict[str, Any]:
        now, spec = asked.own, asked.own.spec
        return {
            "endpoint": now.endpoint,
            "serving": now.serving,
            "coming": now.coming,
            "bounds": (0 if spec.scale_to_zero else spec.min_replicas, spec.max_replicas),
            "methods": TRY_METHODS,
            "spec": now.wanted.spec,
            "endpoint_url": gateway_url(asked.workload),
            "pods_ready": now.ready,
            "state": state_of(asked.workload),
            "range_query": _range_query(asked.request),
        }

    @override
    def commands(self, asked: PageReading[EndpointNow], *, may: bool) -> list[PageCommand]:
        workload = asked.workload
        held = f" and frees {workload.units} {workload.flavor}" if workload.flavor and workload.units else ""
        return [
            PageCommand(
                name="stop",
                label="Stop",
                icon="pause",
                url=self.url("endpoint-stop", workload),
                effect=f"Stops its pods{held}. Requests are answered with 503 until it is started again.",
                refused=suspend_refusal(workload),
            ),
            PageCommand(
                name="start",
                label="Start",
                icon="play",
                url=self.url("endpoint-start", workload),
                effect="Puts it into the queue; it answers when its pods are ready.",
                refused=resume_refusal(workload),
            ),
            *scaler_commands(self, workload, asked.own),
            PageCommand(
                name="delete",
                label="Delete",
                icon="ban",
                url=self.url("endpoint-delete", workload),
                effect=f"Stops its pods{held}. Its address stops answering for good.",
                refused=refusal(workload),
                danger=True,
            ),
        ]


def _range_query(request: HttpRequest) -> str:
    """The part of the address that says which time is drawn; empty where it says nothing of it."""
    return urlencode([(name, request.GET[name]) for name in RANGE_NAMES if request.GET.get(name)])


class EndpointStopPage(EndpointPage, CommandPage):
    """Free its GPUs and keep it."""

    command = services.suspend
    done = "{name} is being stopped."


class EndpointStartPage(EndpointPage, CommandPage):
    """Queue a stopped endpoint again."""

    command = services.resume
    done = "{name} is being started."


class EndpointDeletePage(EndpointPage, CommandPage):
    """Delete it; its name has to be typed."""

    command = services.cancel
    done = "{name} is being deleted."

    @override
    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        if request.POST.get("confirm", "").strip() != workload.name:
            messages.error(request, f"Nothing was deleted: type {workload.name} to delete it.")
            return see_other(self.url("endpoint-detail", workload))
        return super().post(request, public_id)


class EndpointUpdatePage(EndpointDetailPage):
    """POST rolls out a new revision, or shows what it would do; 422 with the form where it cannot be.

    409, with the ways that are left as buttons, where its rollout has no room; 409, too, with what another user has
    changed since the form was filled, which keeps what was typed.
    """

    tab = "update"

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        endpoint = Endpoint.objects.get(workload=workload)
        kept = {"team": workload.team.slug, "name": workload.name}
        data = request.POST.copy()
        for key, value in {**kept, **_claimed(endpoint.current.spec)}.items():
            data[key] = value
        began = _began_from(endpoint, request.POST.get("made_from", ""))
        if began is not None and changes_between(began.spec, endpoint.current.spec):
            return self._moved(request, endpoint, began, data)
        form = EndpointForm(data, teams=[workload.team], files_sent=request.FILES.getlist("upload"))
        if form.is_valid() and began is None:
            form.add_error(
                None, "Which revision this changes is missing. Look at it again, then send it again."
            )
        if not form.is_valid():
            return self.page(request, workload, status=422, form=form, made_from=endpoint.revision)
        return self._send(request, endpoint, form, data)

    def _send(
        self, request: HttpRequest, endpoint: Endpoint, form: EndpointForm, data: QueryDict
    ) -> HttpResponse:
        workload, number = endpoint.workload, endpoint.revision
        rollout = chosen_rollout(request.POST.get("choose", ""))
        spec = _rolled_out(_spec(form), rollout)
        now = clock.now()
        try:
            if "preview" in request.POST:
                return self._preview(request, endpoint, spec, now, form=form)
            update_endpoint(endpoint=endpoint, spec=spec, actor=actor_of(request), now=now, made_from=number)
        except RolloutBlocked:
            return self._preview(request, endpoint, spec, now, form=form, status=409)
        except RevisionMoved:
            return self._moved(request, endpoint, endpoint.revisions.get(number=number), data)
        except (Invalid, Conflict) as error:
            form.add_portal_error(error)
            return self.page(request, workload, status=422, form=form, made_from=number)
        messages.success(request, f"{workload.name} has revision {endpoint.revision}.")
        return see_other(self.url("endpoint-detail", workload) + "?tab=revisions")

    def _preview(
        self,
        request: HttpRequest,
        endpoint: Endpoint,
        spec: EndpointSpec,
        now: datetime,
        *,
        form: EndpointForm,
        status: int = 200,
    ) -> HttpResponse:
        planned = preview_update(endpoint=endpoint, spec=spec, user=cast("User", request.user), now=now)
        look = change_look(planned, now)
        return self.page(
            request,
            endpoint.workload,
            status=status,
            form=form,
            change=look,
            made_from=endpoint.revision,
        )

    def _moved(
        self, request: HttpRequest, endpoint: Endpoint, began: EndpointRevision, data: QueryDict
    ) -> HttpResponse:
        """The form again, with what others have changed where the person has typed nothing else."""
        current, team = endpoint.current, endpoint.workload.team
        both = take_over(data, values_of(began.spec), values_of(current.spec))
        files = request.FILES.getlist("upload")
        return self.page(
            request,
            endpoint.workload,
            status=409,
            form=EndpointForm(data, teams=[team], files_sent=files),
            moved=moved_look(endpoint, began, both),
            made_from=current.number,
        )


class EndpointRollbackPage(EndpointDetailPage):
    """POST goes back to an older revision; 409, with the ways that are left as buttons, where that has no room."""

    tab = "revisions"

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        endpoint = Endpoint.objects.get(workload=workload)
        asked = request.POST.get("revision", "")
        number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else None
        rollout = chosen_rollout(request.POST.get("choose", ""))
        now = clock.now()
        try:
            roll_back(endpoint=endpoint, number=number, rollout=rollout, actor=actor_of(request), now=now)
        except RolloutBlocked:
            endpoint.refresh_from_db()
            planned = preview_rollback(
                endpoint=endpoint, number=number, rollout=rollout, user=cast("User", request.user), now=now
            )
            more = {"blocked": change_look(planned, now), "return_to": number}
            return self.page(request, workload, status=409, **more)
        except (Invalid, Conflict) as error:
            messages.error(request, error.message)
        else:
            messages.success(request, f"{workload.name} goes back, as revision {endpoint.revision}.")
        return see_other(self.url("endpoint-detail", workload) + "?tab=revisions")


def _began_from(endpoint: Endpoint, text: str) -> EndpointRevision | None:
    """The revision that the form was filled from; None where that is not said."""
    number = whole_number(text)
    return None if number is None else endpoint.revisions.filter(number=number).first()


def _claimed(spec: Mapping[str, Any]) -> dict[str, str]:
    """The form's values of what cannot be changed in place."""
    values = values_of(spec)
    return {key: values[key] for key in ("flavor", "capacity", "gpus")}


def _rolled_out(spec: EndpointSpec, rollout: Mapping[str, Any]) -> EndpointSpec:
    """The spec, to be rolled out in another way where `rollout` says one."""
    if not rollout:
        return spec
    body = spec.to_json()
    return EndpointSpec.from_json({**body, "rollout": {**body["rollout"], **rollout}})
