"""Buttons that change how many replicas an endpoint has, and the pages behind them."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from typing_extensions import override

from console.pages.detail import CommandInput, CommandPage, PageCommand, WorkloadPage, refusal
from foundation.errors import Invalid
from inference.autoscaling.services import pause_scaler, resume_scaler, scale_endpoint
from inference.models import Endpoint
from inference.now import EndpointNow
from inference.serializers import REPLICAS_MAX
from inference.specs import KIND
from teams.actors import Actor
from workloads.models import Workload


class EndpointPage(WorkloadPage):
    kind = KIND
    app = "inference"


def scaler_commands(page: EndpointPage, workload: Workload, now: EndpointNow) -> list[PageCommand]:
    """Its buttons about how many replicas it has."""
    spec, endpoint = now.spec, now.endpoint
    gpus = f", {spec.gpus_per_replica} {spec.flavor} each," if spec.gpus_per_replica else ""
    bounds = (
        CommandInput("min_replicas", "Replicas at least", str(spec.min_replicas)),
        CommandInput("max_replicas", "Replicas at most", str(spec.max_replicas)),
    )
    scale = PageCommand(
        name="scale",
        label="Scale",
        icon="gear",
        url=page.url("endpoint-scale", workload),
        effect=f"As many replicas{gpus} are claimed as it may have at most. No pod is replaced.",
        refused=refusal(workload),
        inputs=bounds,
    )
    if not spec.scales:
        return [scale]
    pause = PageCommand(
        name="pause-scaler",
        label="Pause the scaler",
        icon="pause",
        url=page.url("endpoint-pause-scaler", workload),
        effect="The number of replicas stays, whatever the load is, and a request wakes none, until it is resumed.",
        refused=refusal(workload) or ("It is paused already." if endpoint.scaler_paused else ""),
        inputs=(
            CommandInput("replicas", "Replicas (empty: as now)", str(now.replicas or ""), required=False),
        ),
    )
    resume = PageCommand(
        name="resume-scaler",
        label="Resume the scaler",
        icon="play",
        url=page.url("endpoint-resume-scaler", workload),
        effect=f"It follows {spec.scaling.trigger if spec.scaling else 'its load'} again, from "
        f"{0 if spec.scale_to_zero else spec.min_replicas} to {spec.max_replicas} replicas.",
        refused=refusal(workload) or ("" if endpoint.scaler_paused else "It is not paused."),
    )
    return [scale, pause, resume]


def _number(request: HttpRequest, name: str) -> int | None:
    """A whole number that was filled in, None where nothing was; Invalid for anything else."""
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= REPLICAS_MAX):
        raise Invalid.of_field(name, f"Write a whole number from 1 to {REPLICAS_MAX}.", code="out_of_range")
    return int(text[:9])


class EndpointScalePage(EndpointPage, CommandPage):
    """Other bounds for the number of replicas."""

    done = "{name} has other bounds for its replicas."
    asks = "scale"

    @override
    def carry_out_asked(
        self, request: HttpRequest, workload: Workload, actor: Actor, now: datetime
    ) -> Workload:
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        least, most = _number(request, "min_replicas"), _number(request, "max_replicas")
        scale_endpoint(endpoint=endpoint, min_replicas=least, max_replicas=most, actor=actor, now=now)
        return workload


class EndpointPauseScalerPage(EndpointPage, CommandPage):
    """Hold the number of replicas."""

    done = "The scaler of {name} is paused."
    asks = "pause-scaler"

    @override
    def carry_out_asked(
        self, request: HttpRequest, workload: Workload, actor: Actor, now: datetime
    ) -> Workload:
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        pause_scaler(endpoint=endpoint, replicas=_number(request, "replicas"), actor=actor, now=now)
        return workload


class EndpointResumeScalerPage(EndpointPage, CommandPage):
    """Leave the number of replicas to the scaler again."""

    done = "The scaler of {name} works again."

    @override
    def carry_out(self, workload: Workload, actor: Actor, now: datetime) -> Workload:
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        resume_scaler(endpoint=endpoint, actor=actor, now=now)
        return workload
