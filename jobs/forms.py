"""The form of a training run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from typing_extensions import override

from controller.page_forms import ContainerForm, initial_of, text, whole
from controller.page_words import limit_words
from jobs.serializers import TrainingRunSerializer

_LIMIT = re.compile(r"(?:(\d{1,6})d)?\s*(?:(\d{1,6})h)?\s*(?:(\d{1,6})m)?\s*(?:(\d{1,9})s?)?\Z", re.ASCII)


class TrainingRunForm(ContainerForm):
    serializer_class = TrainingRunSerializer
    PATHS = {
        **ContainerForm.PATHS,
        "time_limit_seconds": "time_limit",
        "max_retries": "retries",
        "checkpoint": "checkpoint_path",
        "checkpoint.claim": "checkpoint_claim",
    }

    replicas = text(
        "Pods", "All alike, each with these GPUs. They start and end together.", inputmode="numeric"
    )
    time_limit = text("Time limit", "Such as 2h or 1d 12h. It decides the cost at worst.")
    retries = text("Retries", "After a failure of its own; interruptions do not count.", inputmode="numeric")
    checkpoint_path = text(
        "Checkpoint folder", "Where the run writes what it can resume from.", placeholder="/checkpoints"
    )
    checkpoint_claim = text("Checkpoint claim", "Only if the folder is in no volume above.")

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        checkpoint = {"path": values.get("checkpoint_path"), "claim": values.get("checkpoint_claim")}
        given = {key: value for key, value in checkpoint.items() if value}
        return {
            **super().to_body(values),
            "replicas": whole(values.get("replicas", "")),
            "time_limit_seconds": seconds_of(values.get("time_limit", "")),
            "max_retries": whole(values.get("retries", "")),
            "checkpoint": given or None,
        }

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
    """The form's values for the stored spec of a run."""
    checkpoint = spec.get("checkpoint") or {}
    return {
        **initial_of(spec),
        "replicas": str(spec.get("replicas", 1)),
        "time_limit": limit_words(spec.get("time_limit_seconds")),
        "retries": str(spec.get("max_retries", 0)),
        "checkpoint_path": checkpoint.get("path") or "",
        "checkpoint_claim": checkpoint.get("claim") or "",
    }
