"""The form of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django import forms
from typing_extensions import override

from console.pages.forms import CAPACITIES, SPOT_FIRST_CHOICE, ContainerForm, initial_of, text, whole
from console.pages.further import FurtherForm, carried
from console.pages.words import limit_words, seconds_of
from jobs.form_rules import TemplateRules, rules_of
from jobs.kinds import JOB, KINDS
from jobs.offers import offered_kinds
from jobs.queries import template_named
from jobs.serializers import TrainingRunSerializer
from jobs.specs import TrainingRunSpec
from workloads.podspec.specs import Json, typed
from workloads.watches import Followed, followed_kinds


class _KindField(forms.ChoiceField):
    """Shows what is offered; takes every kind there is, so that the service says why one is not."""

    @override
    def valid_value(self, value: Any) -> bool:
        return value in KINDS


class TrainingRunForm(FurtherForm):
    serializer_class = TrainingRunSerializer
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
    }

    kind = _KindField(label="Kind", required=False, help_text="What it becomes in the cluster.")
    processes = text(
        "Processes per pod",
        "For torchrun. Empty: one for each GPU, or as the command says.",
        inputmode="numeric",
    )
    replicas = text(
        "Pods", "All alike, each with these GPUs. They start and end together.", inputmode="numeric"
    )
    time_limit = text("Time limit", "Such as 2h or 1d 12h. It decides the cost at worst.")
    retries = text("Retries", "After a failure of its own; interruptions do not count.", inputmode="numeric")
    checkpoint_path = text(
        "Checkpoint folder", "Where the run writes what it can resume from.", placeholder="/checkpoints"
    )
    checkpoint_claim = text("Checkpoint claim", "Only if the folder is in no volume above.")
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
        }
        return self.completed(typed, values)

    def clean_time_limit(self) -> str:
        value = str(self.cleaned_data["time_limit"])
        if value and not isinstance(seconds_of(value), int):
            raise forms.ValidationError("Write a time limit as 90m, 2h or 1d 12h.", code="invalid")
        return value


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
    }
    return carried(TrainingRunForm(teams=[]), values, spec, _written_out)


def _written_out(request: Json) -> Json:
    """The request with its defaults, and its arguments behind its command, where they go anyway."""
    body = dict(request)
    if body.get("command") and body.get("args"):
        body |= {"command": [*body["command"], *body.pop("args")], "args": []}
    return TrainingRunSpec.from_json(body).to_json()
