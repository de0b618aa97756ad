"""The form of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from django import forms
from typing_extensions import override

from console.pages.forms import (
    CAPACITIES,
    SPOT_FIRST_CHOICE,
    ContainerForm,
    initial_of,
    lines,
    text,
    unix,
    whole,
)
from console.pages.further import NOTHING, FurtherForm, carried
from foundation.number_words import limit_words, seconds_of
from jobs.form_rules import TemplateRules, rules_of
from jobs.kinds import JOB, KINDS
from jobs.offers import offered_kinds
from jobs.queries import template_named
from jobs.specs import TrainingRunSpec
from jobs.sweeps.card import SweepFigures
from jobs.sweeps.serializers import RunOrSweepSerializer
from jobs.sweeps.written import can_be_written, read_parameters, written_parameters
from workloads.podspec.specs import Json, typed
from workloads.watches import Followed, followed_kinds


class _KindField(forms.ChoiceField):
    """Shows what is offered; takes every kind there is, so that the service says why one is not."""

    @override
    def valid_value(self, value: Any) -> bool:
        return value in KINDS


class TrainingRunForm(FurtherForm):
    serializer_class = RunOrSweepSerializer
    PATHS = {
        **ContainerForm.PATHS,
        "kind": "kind",
        "nproc_per_node": "processes",
        "replicas": "replicas",
        "time_limit_seconds": "time_limit",
        "max_retries": "retries",
        "checkpoint": "checkpoint_path",
        "checkpoint.claim": "checkpoint_claim",
        "template": "template",
        "matrix": "parameters",
        "matrix.max_parallel": "max_parallel",
        "matrix.early_stop": "stop_metric",
        "matrix.early_stop.target": "stop_target",
        "matrix.early_stop.worse_than_median_after": "stop_median",
    }
    figures: SweepFigures | None = None
    """What the preview says of a sweep besides its card."""

    kind = _KindField(label="Kind", required=False, help_text="What it becomes in the cluster.")
    processes = text(
        "Processes per pod",
        "For torchrun. Empty: one for each GPU, or as the command says.",
        inputmode="numeric",
    )
    replicas = text("Pods", "All alike; they start and end together.", inputmode="numeric")
    time_limit = text("Time limit", "Such as 2h or 1d 12h. It decides the cost at worst.")
    retries = text("Retries", "After a failure of its own; interruptions do not count.", inputmode="numeric")
    checkpoint_path = text(
        "Checkpoint folder", "Where the run writes what it can resume from.", placeholder="/checkpoints"
    )
    checkpoint_claim = text("Checkpoint claim", "Only if the folder is in no volume above.", placeholder=" ")
    parameters = lines(
        "Parameters",
        "One a line; a run is made for every combination. ${{ matrix.lr }} in the command stands for a value, and so"
        " does the variable MATRIX_LR.",
        placeholder="lr = 0.1, 0.01, 0.001\nseed = 1..5",
    )
    max_parallel = text(
        "At most at once",
        "How many of them wait for GPUs or have them. Empty: all.",
        inputmode="numeric",
        placeholder=" ",
    )
    stop_metric = text(
        "Metric", "As the runs report it with progress/; for the rules beside.", placeholder="loss"
    )
    stop_goal = forms.ChoiceField(
        label="Better is", required=False, choices=[("minimize", "less"), ("maximize", "more")]
    )
    stop_target = text(
        "Target", "Once a run reports it, the others are stopped.", inputmode="decimal", placeholder=" "
    )
    stop_median = text(
        "Worse than the median after",
        "Percent of its progress, from which on a run that is worse than the median of the others is stopped.",
        inputmode="numeric",
        placeholder=" ",
    )
    template = forms.CharField(label="Template", required=False, max_length=80, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.followed: Followed = followed_kinds
        self.rules = TemplateRules()
        self.fields["capacity"].choices = [*CAPACITIES, SPOT_FIRST_CHOICE]  # type: ignore[attr-defined]
        self.fields["kind"].choices = lambda: self._kinds  # type: ignore[attr-defined]
        template_name = (self.data if self.is_bound else self.initial).get("template")
        if template_name and (template := template_named(str(template_name))):
            self.rules = rules_of(template, self.PATHS, values_of(template.defaults))
            self.rules.apply(self)
        self.point_to_more()

    @cached_property
    def _kinds(self) -> list[tuple[str, str]]:
        """The kinds that are offered, and the kind that was chosen elsewhere."""
        chosen = str((self.data if self.is_bound else self.initial).get("kind") or JOB)
        shown = {*offered_kinds(self.followed), chosen}
        return [(name, kind.objects[0].kind) for name, kind in KINDS.items() if name in shown]

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        checkpoint = {"path": values.get("checkpoint_path"), "claim": values.get("checkpoint_claim")}
        folder = {key: value for key, value in checkpoint.items() if value}
        typed = {
            **super().to_body(values),
            "kind": values.get("kind", ""),
            "nproc_per_node": whole(values.get("processes", "")),
            "replicas": whole(values.get("replicas", "")),
            "time_limit_seconds": seconds_of(values.get("time_limit", "")),
            "max_retries": whole(values.get("retries", "")),
            "checkpoint": folder or None,
            "template": values.get("template", ""),
            "matrix": matrix_of(values),
        }
        return self.completed(typed, values)

    def clean_parameters(self) -> str:
        value = unix(str(self.cleaned_data["parameters"]))
        try:
            read_parameters(value)
        except ValueError as error:
            raise forms.ValidationError(str(error), code="invalid") from error
        return value

    def clean_time_limit(self) -> str:
        value = str(self.cleaned_data["time_limit"])
        if value and not isinstance(seconds_of(value), int):
            raise forms.ValidationError("Write a time limit as 90m, 2h or 1d 12h.", code="invalid")
        return value


def matrix_of(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The matrix that the form's values say, also where it is not complete; None where none of them is filled in."""
    rules = {
        "metric": values.get("stop_metric"),
        "target": _number(values.get("stop_target") or ""),
        "worse_than_median_after": whole(values.get("stop_median") or ""),
    }
    early_stop = {key: value for key, value in rules.items() if value not in NOTHING}
    if early_stop and values.get("stop_goal"):
        early_stop["goal"] = values["stop_goal"]
    parameters: dict[str, Any] = {}
    with suppress(ValueError):
        parameters = read_parameters(values.get("parameters") or "")
    matrix = {
        "parameters": parameters,
        "max_parallel": whole(values.get("max_parallel") or ""),
        "early_stop": early_stop,
    }
    return {key: value for key, value in matrix.items() if value not in NOTHING} or None


def _number(value: str) -> float | str | None:
    """What was typed as a number; what is none goes on as it is, and the serializer names it."""
    try:
        return float(value) if value.strip() else None
    except ValueError:
        return value


def matrix_values(matrix: Mapping[str, Any] | None) -> dict[str, Any]:
    """The form's values for the matrix of a request, as far as lines can say it."""
    if not matrix:
        return {}
    written = matrix["parameters"] if can_be_written(matrix["parameters"]) else {}
    rules = matrix.get("early_stop") or {}
    values = {
        "parameters": written_parameters(written),
        "max_parallel": matrix.get("max_parallel"),
        "stop_metric": rules.get("metric"),
        "stop_goal": rules.get("goal"),
        "stop_target": rules.get("target"),
        "stop_median": rules.get("worse_than_median_after"),
    }
    return {name: "" if value is None else str(value) for name, value in values.items()}


def values_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for the stored spec of a run, or for the body of a request."""
    spec = typed(spec)
    checkpoint = spec.get("checkpoint") or {}
    values = {
        **initial_of(spec),
        "kind": spec.get("kind") or JOB,
        "processes": str(spec.get("nproc_per_node") or ""),
        "replicas": str(spec.get("replicas", 1)),
        "time_limit": limit_words(spec.get("time_limit_seconds")),
        "retries": str(spec.get("max_retries", 0)),
        "checkpoint_path": checkpoint.get("path") or "",
        "checkpoint_claim": checkpoint.get("claim") or "",
        "template": spec.get("template") or "",
        **matrix_values(spec.get("matrix")),
    }
    return carried(TrainingRunForm(teams=[]), values, spec, _written_out)


def _written_out(request: Json) -> Json:
    """The request with its defaults, and its arguments behind its command, where they go anyway."""
    body = dict(request)
    if body.get("command") and body.get("args"):
        body |= {"command": [*body["command"], *body.pop("args")], "args": []}
    return TrainingRunSpec.from_json(body).to_json() | {"matrix": body.get("matrix")}
