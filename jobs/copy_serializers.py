"""What `retry/` and `clone/` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from typing_extensions import override

from foundation.http.serializers import StrictSerializer
from jobs.adapter import KIND
from jobs.copies import merged
from jobs.models import TrainingRun
from jobs.queries import template_named
from jobs.serializers import TrainingRunSerializer
from workloads.naming import free_name
from workloads.podspec.fields import FlagField
from workloads.podspec.specs import typed

_FROM_CHECKPOINT = "Go on from the newest checkpoint that the run has reported; it must have ended."


class RetrySerializer(StrictSerializer):
    from_checkpoint = FlagField(default=False, help_text=_FROM_CHECKPOINT)


class CloneSerializer(TrainingRunSerializer):
    """Edits: a JSON merge patch (RFC 7396) over the request of the run, and `from_checkpoint`."""

    from_checkpoint = FlagField(required=False, help_text=_FROM_CHECKPOINT)

    @override
    def get_fields(self) -> dict[str, Any]:
        """Any field may be left out, and is then that of the run."""
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


def clone_request(run: TrainingRun, edits: Any) -> tuple[TrainingRunSerializer, bool]:
    """The checked request of a copy, with a name of its own unless the edits give one, and `from_checkpoint`.

    Raises ValidationError for what the serializer of a request refuses.
    """
    if not isinstance(edits, Mapping):
        raise serializers.ValidationError("Give an object of edits.", code="invalid")
    changes = dict(edits)
    wish = RetrySerializer(data={key: changes.pop(key) for key in ("from_checkpoint",) if key in changes})
    wish.is_valid(raise_exception=True)
    team = run.workload.team
    base = {
        **typed(run.request),
        "team": team.slug,
        "name": free_name(run.workload.name, kind=KIND, team=team),
        "template_version": None,
    }
    if template := template_named(str(base.get("template") or "")):
        # What the template alone decides is what it says today, unless the edits say otherwise and are refused.
        base = {key: value for key, value in base.items() if key not in template.locked}
    request = TrainingRunSerializer(data=merged(base, changes))
    request.is_valid(raise_exception=True)
    return request, wish.validated_data["from_checkpoint"]
