"""The body of a training run request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty
from typing_extensions import override

from controller import grammar
from controller.fields import ChoiceLaterField, NotYetField, TextField, WholeNumberField
from controller.grammar import Fault, Mount
from controller.serializers import ContainerSerializer, Problems, told
from controller.specs import volume
from foundation.http.serializers import StrictSerializer
from jobs import presets
from jobs.queries import enabled_templates, template_named
from jobs.services import with_defaults
from jobs.specs import KIND_JOB, KINDS_LATER, CheckpointSpec, TrainingRunSpec

REPLICAS_MAX = 1024
TIME_LIMIT_SECONDS_MIN = 60
TIME_LIMIT_SECONDS_MAX = 30 * 86400
RETRIES_MAX = 20


class CheckpointSerializer(StrictSerializer):
    path = TextField(check=grammar.mount_path)
    claim = TextField(check=grammar.object_name, required=False, allow_null=True)
    interval_seconds = WholeNumberField(min_value=10, max_value=7 * 86400, required=False, allow_null=True)


class TrainingRunSerializer(ContainerSerializer):
    """Valid data becomes a spec by `to_spec`; whether flavor, team and claims exist is not asked here."""

    kind = ChoiceLaterField(now=(KIND_JOB,), later=KINDS_LATER)
    replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX, required=False, allow_null=True)
    checkpoint = CheckpointSerializer(required=False, allow_null=True)
    time_limit_seconds = WholeNumberField(
        min_value=TIME_LIMIT_SECONDS_MIN, max_value=TIME_LIMIT_SECONDS_MAX, required=False, allow_null=True
    )
    max_retries = WholeNumberField(min_value=0, max_value=RETRIES_MAX, required=False, allow_null=True)
    roles = NotYetField()
    elastic = NotYetField()
    topology = NotYetField("any")
    gang = NotYetField(True)
    nproc_per_node = NotYetField()
    slots_per_worker = NotYetField(1)
    runtime_ref = NotYetField()
    retry = NotYetField()
    template = TextField(  # type: ignore[assignment] # of an endpoint there are none
        check=grammar.object_name,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Name of a template: it fills in what is left out, and refuses what it does not allow.",
    )
    template_version = WholeNumberField(
        min_value=1,
        required=False,
        allow_null=True,
        help_text="Refused where the template has another version by now.",
    )

    @override
    def run_validation(self, data: Any = empty) -> Any:
        """The checked body, completed by the template that it names and within its limits."""
        preset = _preset(data)
        if preset is None:
            return super().run_validation(data)
        filled, refused = presets.fill(preset, data)
        try:
            body = super().run_validation({**filled, "template_version": preset.version})
        except serializers.ValidationError as error:
            if not refused or not isinstance(error.detail, dict):
                raise
            raise serializers.ValidationError({**error.detail, **told(refused)}) from error
        spec = with_defaults(TrainingRunSpec.from_json(body))
        if found := [*refused, *presets.outside(preset, spec.to_json())]:
            raise serializers.ValidationError(told(found))
        return body

    def to_spec(self) -> TrainingRunSpec:
        """The request as a spec; call after `is_valid`."""
        return TrainingRunSpec.from_json(self.validated_data)

    @override
    def mounts(self, body: Mapping[str, Any]) -> Iterable[Mount]:
        yield from super().mounts(body)
        checkpoint = CheckpointSpec.from_json(body.get("checkpoint"))
        if checkpoint is None or checkpoint.claim is None:
            return
        if checkpoint.holder([volume(item) for item in body.get("volumes") or ()]) is None:
            yield Mount("checkpoint.path", checkpoint.path, sealed=False)

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        return [*super().problems(body), *_checkpoint_problems(body)]


def _preset(data: Any) -> presets.Preset | None:
    """The template that a body names. ValidationError where there is none, or of another version."""
    given = data if isinstance(data, Mapping) else {}
    name, version = given.get("template"), given.get("template_version")
    if not isinstance(name, str) or not name:
        if version is not None:
            raise _refused("template", "required", "A version is that of a template: name it.")
        return None
    template = template_named(name)
    if template is None:
        names = ", ".join(each.name for each in enabled_templates()) or "none"
        raise _refused("template", "unknown_template", f"There is no such template. There is: {names}.")
    if version is not None and (type(version) is not int or version != template.version):
        message = f"Template {name} has version {template.version} now: look at what it has become."
        raise _refused("template_version", "changed", message)
    return template.preset


def _refused(field: str, code: str, message: str) -> serializers.ValidationError:
    return serializers.ValidationError(told([(field, Fault(code, message))]))


def _checkpoint_problems(body: Mapping[str, Any]) -> Problems:
    checkpoint = CheckpointSpec.from_json(body.get("checkpoint"))
    if checkpoint is None:
        return []
    holder = checkpoint.holder([volume(item) for item in body.get("volumes") or ()])
    if holder is None and checkpoint.claim is None:
        message = "Checkpoints would be lost with the pod: name a claim, or choose a path inside a volume."
        return [("checkpoint.path", Fault("not_persistent", message))]
    if holder is not None and holder.read_only:
        message = f"{checkpoint.path} lies in the volume at {holder.path}, which is read-only."
        return [("checkpoint.path", Fault("inside_read_only", message))]
    return []


class TrainingRunPatchSerializer(StrictSerializer):
    """What may be changed of a run that exists."""

    priority = ChoiceLaterField(now=("low", "normal", "high"), allow_null=False)
    time_limit_seconds = WholeNumberField(
        min_value=TIME_LIMIT_SECONDS_MIN, max_value=TIME_LIMIT_SECONDS_MAX, required=False
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError("Give priority or time_limit_seconds.", code="required")
        return attrs
