"""The form of a training run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django import forms
from typing_extensions import override

from controller.page_forms import CAPACITIES, SPOT_FIRST_CHOICE, ContainerForm, initial_of, lines, text, whole
from controller.page_words import limit_words
from jobs.form_rules import Rules, rules_of
from jobs.kinds import JOB, KINDS
from jobs.offers import offered_kinds
from jobs.prefill import NOTHING, combined, rest_of
from jobs.queries import template_named
from jobs.serializers import TrainingRunSerializer

_LIMIT = re.compile(r"(?:(\d{1,6})d)?\s*(?:(\d{1,6})h)?\s*(?:(\d{1,6})m)?\s*(?:(\d{1,9})s?)?\Z", re.ASCII)


class _KindField(forms.ChoiceField):
    """Shows what is offered; takes every kind there is, so that the service says why one is not."""

    @override
    def valid_value(self, value: Any) -> bool:
        return value in KINDS


class TrainingRunForm(ContainerForm):
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
    more = lines(
        "Further fields",
        "A JSON object of fields of the request that have no input here.",
        placeholder='{"working_dir": "/srv"}',
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rules = Rules()
        self.fields["capacity"].choices = [*CAPACITIES, SPOT_FIRST_CHOICE]  # type: ignore[attr-defined]
        self.fields["kind"].choices = self._kinds  # type: ignore[attr-defined]
        given = (self.data if self.is_bound else self.initial).get("template")
        if given and (template := template_named(str(given))):
            self.rules = rules_of(template, self.PATHS, values_of(template.defaults))
            self.rules.apply(self)
        self._point_to_more()

    def _kinds(self) -> list[tuple[str, str]]:
        """The kinds that are offered, and the one that was chosen elsewhere."""
        chosen = str((self.data if self.is_bound else self.initial).get("kind") or JOB)
        shown = {*offered_kinds(), chosen}
        return [(name, kind.objects[0].kind) for name, kind in KINDS.items() if name in shown]

    def _point_to_more(self) -> None:
        """Where an input is empty because its value stands in the further fields, it says so."""
        written = str((self.data if self.is_bound else self.initial).get("more") or "")
        self.fields["more"].widget.attrs["rows"] = min(16, max(3, written.count("\n") + 1))
        with suppress(ValueError, RecursionError):
            carried = json.loads(written or "{}")
            for name in carried if isinstance(carried, dict) else ():
                field = self.fields.get(self.PATHS.get(name, ""))
                if field is not None:
                    field.help_text = f"{field.help_text} Part of it stands in the further fields below."

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        checkpoint = {"path": values.get("checkpoint_path"), "claim": values.get("checkpoint_claim")}
        given = {key: value for key, value in checkpoint.items() if value}
        typed = {
            **super().to_body(values),
            "kind": values.get("kind", ""),
            "nproc_per_node": whole(values.get("processes", "")),
            "replicas": whole(values.get("replicas", "")),
            "time_limit_seconds": seconds_of(values.get("time_limit", "")),
            "max_retries": whole(values.get("retries", "")),
            "checkpoint": given or None,
            "template": values.get("template", ""),
        }
        body, twice = combined(typed, values.get("more") or {})
        for name in twice:
            self.add_error("more", f"{name} is given above, too, in another way.")
        return body

    def clean_more(self) -> dict[str, Any]:
        """What was written there, as an object."""
        written = str(self.cleaned_data["more"]).strip()
        try:
            found = json.loads(written) if written else {}
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError("This is not JSON.", code="invalid") from error
        if not isinstance(found, dict):
            raise forms.ValidationError('Write an object: {"field": value}.', code="invalid")
        return found

    @override
    def _field_of(self, path: str) -> str | None:
        """What came from the further fields is wrong there."""
        given = self.cleaned_data.get("more") or {}
        return "more" if path.partition(".")[0] in given else super()._field_of(path)

    def clean_time_limit(self) -> str:
        value = str(self.cleaned_data["time_limit"])
        if value and not isinstance(seconds_of(value), int):
            raise forms.ValidationError("Write a time limit as 90m, 2h or 1d 12h.", code="invalid")
        return value


def seconds_of(value: str) -> int | str | None:
    """Seconds of `1d 12h`, `90m` or a plain number; None for nothing, the text itself where it is neither."""
    if not value.strip():
        return None
    match = _LIMIT.match(value.strip())
    if match is None:
        return value
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def values_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for the stored spec of a run, or for the body of a request."""
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
    form = TrainingRunForm(teams=[])
    form.sources = values["sources"]
    typed = {name: value for name, value in form.to_body(values).items() if value not in NOTHING}
    rest, emptied = rest_of(spec, typed)
    for path, field in form.PATHS.items():
        if path.partition(".")[0] in emptied:
            values[field] = ""
    if "env" in emptied:
        values["env_secrets"] = ""
    if "source" in emptied:
        values["sources"] = []
    return {**values, "more": json.dumps(rest, indent=2, ensure_ascii=False) if rest else ""}
