"""Settings of an endpoint: five sections in one form, each of which is saved alone, after its differences were shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from console.pages.detail import see_other
from console.pages.sections import SectionPlan, sections_of
from foundation import clock
from foundation.digits import whole_number
from foundation.errors import Conflict, Invalid
from inference.changes import changes_between
from inference.errors import RevisionMoved, RolloutBlocked
from inference.models import Endpoint, EndpointRevision
from inference.pages.endpoints import EndpointDetailPage
from inference.pages.forms import EndpointForm, differs, filled, take_over, values_of
from inference.pages.revisions import change_look, chosen_rollout, moved_look
from inference.pages.sections import BY_NAME, SETTINGS, inputs_of
from inference.serializers import EndpointSerializer
from inference.services import preview_update, update_endpoint
from inference.specs import EndpointSpec
from teams.actors import actor_of
from teams.models import User
from teams.permissions import check_can_submit

FIXED = ("flavor", "capacity", "gpus")
"""Inputs of what cannot be changed in place."""


@dataclass(frozen=True)
class SentChange:
    """What was sent: all that stands in the form, and the section that is to be saved, None for all of it."""

    request: HttpRequest
    endpoint: Endpoint
    typed: QueryDict
    """As it was sent, with what cannot be changed as it is."""
    plan: SectionPlan | None
    now: datetime = field(default_factory=clock.now)

    @classmethod
    def read(cls, request: HttpRequest, endpoint: Endpoint) -> SentChange:
        typed = request.POST.copy()
        values = values_of(endpoint.current.spec)
        workload = endpoint.workload
        kept = {"team": workload.team.slug, "name": workload.name}
        for name, value in {**kept, **{name: values[name] for name in FIXED}}.items():
            typed[name] = value
        asked = request.POST.get("section") or request.GET.get("section") or request.POST.get("preview", "")
        return cls(request, endpoint, typed, BY_NAME.get(asked))

    @cached_property
    def form(self) -> EndpointForm:
        """The form that is judged: what was typed in the section, and everywhere else what stands."""
        data = self.typed if self.plan is None else self._of_section(self.plan)
        teams, files = [self.endpoint.workload.team], self.request.FILES.getlist("upload")
        return EndpointForm(data, teams=teams, files_sent=files if self._with_sources else ())

    def _of_section(self, plan: SectionPlan) -> QueryDict:
        data = filled(values_of(self.endpoint.current.spec))
        for name in ("team", "name"):
            data[name] = self.typed.get(name, "")
        for name in inputs_of(plan):
            data.setlist(name, self.typed.getlist(name))
            if not data.getlist(name):
                data.pop(name)
        return data

    @property
    def _with_sources(self) -> bool:
        return self.plan is None or "upload" in self.plan.names

    @property
    def shown(self) -> EndpointForm:
        """The form with everything that was typed, also in other sections, and with what is wrong in this one."""
        if self.plan is None:
            return self.form
        files = () if self._with_sources else self.request.FILES.getlist("upload")
        shown = EndpointForm(self.typed, teams=[self.endpoint.workload.team], files_sent=files)
        shown.judged_by(self.form, sources=self._with_sources)
        return shown

    @property
    def spec(self) -> EndpointSpec:
        return cast("EndpointSerializer", self.form.serializer).to_spec()

    @property
    def fingerprint(self) -> str:
        """Of what would be rolled out, and of what it would change."""
        text = json.dumps([self.endpoint.revision, self.spec.to_json()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def looks(self) -> bool:
        """Whether it is only to be shown: when that is asked for, and when it was not shown as it is now."""
        posted = self.request.POST
        shown_first = self.plan is not None or "reviewed" in posted
        return "preview" in posted or (shown_first and posted.get("reviewed") != self.fingerprint)

    @property
    def unsaved(self) -> list[SectionPlan]:
        """The other sections in which something was typed."""
        if self.plan is None:
            return []
        values = values_of(self.endpoint.current.spec)
        return [
            plan
            for plan in SETTINGS
            if plan.name != self.plan.name and differs(self.typed, values, inputs_of(plan))
        ]


class EndpointUpdatePage(EndpointDetailPage):
    """POST rolls out a new revision, or shows what it would do; 422 with the form where it cannot be.

    `section` says which part of the form is meant: it is rolled out as it was shown, or else shown first. 409, with the
    ways that are left as buttons, where its rollout has no room; 409, too, with what another user has changed since the
    form was filled, which keeps what was typed.
    """

    tab = "update"

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        endpoint = Endpoint.objects.get(workload=workload)
        sent = SentChange.read(request, endpoint)
        if request.headers.get("HX-Target") == "serving":
            return self._serving(sent)
        began = _began_from(endpoint, request.POST.get("made_from", ""))
        if began is not None and changes_between(began.spec, endpoint.current.spec):
            return self._moved(sent, began)
        if sent.form.is_valid() and began is None:
            sent.form.add_error(
                None, "Which revision this changes is missing. Look at it again, then send it again."
            )
        if not sent.form.is_valid():
            return self._form(sent, status=422)
        return self._send(sent)

    def _send(self, sent: SentChange) -> HttpResponse:
        endpoint, number = sent.endpoint, sent.endpoint.revision
        spec = _rolled_out(sent.spec, chosen_rollout(sent.request.POST.get("choose", "")))
        unsaved = sent.unsaved
        try:
            if sent.looks:
                return self._preview(sent, spec)
            update_endpoint(
                endpoint=endpoint, spec=spec, actor=actor_of(sent.request), now=sent.now, made_from=number
            )
        except RolloutBlocked:
            return self._preview(sent, spec, status=409)
        except RevisionMoved:
            return self._moved(sent, endpoint.revisions.get(number=number))
        except (Invalid, Conflict) as error:
            sent.form.add_portal_error(error)
            return self._form(sent, status=422)
        messages.success(sent.request, f"{endpoint.workload.name} has revision {endpoint.revision}.")
        if unsaved:
            titles = " and ".join(plan.title for plan in unsaved)
            messages.warning(sent.request, f"What you typed in {titles} is not saved yet: it stands here.")
            return self._form(sent, saved=True)
        return see_other(self.url("endpoint-detail", endpoint.workload) + "?tab=revisions")

    def _form(
        self, sent: SentChange, *, status: int = 200, saved: bool = False, **extra: Any
    ) -> HttpResponse:
        opened = sent.plan.name if sent.plan and not saved else ""
        form = sent.shown
        return self.page(
            sent.request,
            sent.endpoint.workload,
            status=status,
            form=form,
            sections=sections_of(form, SETTINGS, opened=opened),
            made_from=sent.endpoint.revision,
            section=opened,
            **extra,
        )

    def _serving(self, sent: SentChange) -> HttpResponse:
        """The inputs of the runtime that was chosen."""
        form = EndpointForm(sent.typed, teams=[sent.endpoint.workload.team])
        form.judged_by(EndpointForm(teams=[]), sources=False)
        context = {"form": form, "form_url": sent.request.path}
        return render(sent.request, "inference/serving.html", context)

    def _preview(self, sent: SentChange, spec: EndpointSpec, *, status: int = 200) -> HttpResponse:
        user = cast("User", sent.request.user)
        planned = preview_update(endpoint=sent.endpoint, spec=spec, user=user, now=sent.now)
        look = change_look(planned, sent.now)
        return self._form(sent, status=status, change=look, reviewed=sent.fingerprint)

    def _moved(self, sent: SentChange, began: EndpointRevision) -> HttpResponse:
        """The form again, with what others have changed where the person has typed nothing else."""
        endpoint = sent.endpoint
        current, team, data = endpoint.current, endpoint.workload.team, sent.typed
        both = take_over(data, values_of(began.spec), values_of(current.spec))
        form = EndpointForm(data, teams=[team], files_sent=sent.request.FILES.getlist("upload"))
        return self.page(
            sent.request,
            endpoint.workload,
            status=409,
            form=form,
            sections=sections_of(form, SETTINGS, opened=sent.plan.name if sent.plan else ""),
            moved=moved_look(endpoint, began, both),
            made_from=current.number,
        )


def _began_from(endpoint: Endpoint, text: str) -> EndpointRevision | None:
    """The revision that the form was filled from; None where that is not said."""
    number = whole_number(text)
    return None if number is None else endpoint.revisions.filter(number=number).first()


def _rolled_out(spec: EndpointSpec, rollout: Mapping[str, Any]) -> EndpointSpec:
    """The spec, to be rolled out in another way where `rollout` says one."""
    if not rollout:
        return spec
    body = spec.to_json()
    return EndpointSpec.from_json({**body, "rollout": {**body["rollout"], **rollout}})
