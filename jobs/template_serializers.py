"""Templates as REST, admin site and bootstrap read and write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import serializers
from typing_extensions import override

from console.api.request_serializers import Problems, error_details
from foundation.http.problems import flatten
from foundation.http.serializers import StrictSerializer
from jobs.catalogue import PARTS
from jobs.idle.policy import IDLE_MINUTES_MAX, IDLE_MINUTES_MIN
from jobs.models import RunTemplate
from jobs.presets import NEVER_IN_A_TEMPLATE, Preset, contradictions
from jobs.serializers import TrainingRunSerializer
from workloads.podspec import grammar
from workloads.podspec.fields import FlagField, QuantityField, TextField, WholeNumberField
from workloads.podspec.grammar import Fault

FILLED_IN: Mapping[str, Any] = {"team": "team", "name": "name", "image": "image"}
"""What a request must have and a template need not, so that the rest can be judged."""
INCOMPLETE = frozenset(
    {
        ("flavor", "required"),
        ("checkpoint.path", "not_persistent"),
        ("shm", "shm_above_memory"),
        ("runtime_ref", "required"),
    }
)
"""Faults of a request that lacks its other half, which the user may bring."""


class _BodyField(serializers.JSONField):
    """A part of the body of a training run."""

    @override
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise serializers.ValidationError("Give an object.", code="not_a_dict")
        return super().to_internal_value(dict(data))


class TemplateSerializer(serializers.ModelSerializer[RunTemplate]):
    defaults = serializers.DictField()
    minimum = serializers.DictField()
    maximum = serializers.DictField()
    locked = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = RunTemplate
        fields = ["name", *PARTS, "version"]


class TemplateWriteSerializer(StrictSerializer):
    """What it says is held against the serializer of requests."""

    name = TextField(check=grammar.object_name, max_length=80)
    title = TextField(max_length=120)
    description = TextField(max_length=500, default="", allow_blank=True)
    defaults = _BodyField(default=dict, help_text="Fields of a training run, but team and replaces.")
    minimum = _BodyField(default=dict, help_text="Least value by field, such as checkpoint.interval_seconds.")
    maximum = _BodyField(default=dict, help_text="Greatest value by field.")
    locked = serializers.ListField(
        child=TextField(max_length=40),
        default=list,
        max_length=64,
        help_text="Fields that a request may not change.",
    )
    idle_warn_minutes = WholeNumberField(
        min_value=IDLE_MINUTES_MIN,
        max_value=IDLE_MINUTES_MAX,
        default=None,
        allow_null=True,
        help_text="Minutes for which all GPUs of a run may do nothing before it is warned; null: never.",
    )
    idle_stop_minutes = WholeNumberField(
        min_value=IDLE_MINUTES_MIN,
        max_value=IDLE_MINUTES_MAX,
        default=None,
        allow_null=True,
        help_text="Minutes after which it is stopped, to be resumed; null: never. More than idle_warn_minutes.",
    )
    enabled = FlagField(default=True)
    order = WholeNumberField(min_value=0, max_value=10_000, default=100)

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        body = TrainingRunSerializer()
        problems = [
            *_default_problems(body, attrs["defaults"]),
            *_bound_problems(body, "minimum", attrs["minimum"]),
            *_bound_problems(body, "maximum", attrs["maximum"]),
            *_locked_problems(body, attrs["locked"]),
        ]
        if not problems:
            rules = {part: attrs[part] for part in ("defaults", "minimum", "maximum", "locked")}
            problems = contradictions(Preset(name=attrs.get("name", ""), **rules))
        problems += _idle_problems(attrs["idle_warn_minutes"], attrs["idle_stop_minutes"])
        if problems:
            raise serializers.ValidationError(error_details(problems))
        return attrs


class TemplateUpdateSerializer(TemplateWriteSerializer):
    """What is left out stays as it is; a template keeps its name."""

    name = serializers.CharField(read_only=True)  # type: ignore[assignment] # a TextField is to be written


def _idle_problems(warn: int | None, stop: int | None) -> Problems:
    if stop is None or (warn is not None and warn < stop):
        return []
    return [("idle_stop_minutes", Fault("not_warned", "Give fewer idle_warn_minutes: it is warned first."))]


def _default_problems(body: TrainingRunSerializer, defaults: Mapping[str, Any]) -> Problems:
    problems = [
        (f"defaults.{name}", _not_in_a_template(name)) for name in NEVER_IN_A_TEMPLATE if name in defaults
    ]
    if problems:
        return problems
    whole = {**FILLED_IN, **defaults}
    if isinstance(whole.get("checkpoint"), Mapping):
        whole["checkpoint"] = {"path": "/checkpoints", **whole["checkpoint"]}
    try:
        values = body.to_internal_value(whole)
    except serializers.ValidationError as error:
        return [
            (f"defaults.{problem.field}", Fault(problem.code, problem.message))
            for problem in flatten(error.detail)
        ]
    return [
        (f"defaults.{path}", fault)
        for path, fault in body.problems(values)
        if (path, fault.code) not in INCOMPLETE
    ]


def _bound_problems(body: TrainingRunSerializer, part: str, bounds: Mapping[str, Any]) -> Problems:
    limited = dict(_limited(body))
    problems: Problems = []
    for path, value in bounds.items():
        field = limited.get(path)
        if field is None:
            message = f"No limit can be set to it. Limits are possible for: {', '.join(limited)}."
            problems.append((f"{part}.{path}", Fault("unknown_field", message)))
        elif value is None or isinstance(value, Mapping):
            problems.append((f"{part}.{path}", Fault("invalid", "Give one number or quantity.")))
        else:
            problems += [(f"{part}.{path}", fault) for fault in _faults(field, value)]
    return problems


def _faults(field: serializers.Field[Any, Any, Any, Any], value: Any) -> list[Fault]:
    try:
        field.run_validation(value)
    except serializers.ValidationError as error:
        return [Fault(problem.code, problem.message) for problem in flatten(error.detail)]
    return []


def _limited(body: serializers.Serializer[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and quantities of a body, by dotted path."""
    for name, field in body.fields.items():
        if isinstance(field, (WholeNumberField, QuantityField)) and name != "template_version":
            yield f"{prefix}{name}", field
        elif isinstance(field, serializers.Serializer):
            yield from _limited(field, f"{prefix}{name}.")


def _locked_problems(body: TrainingRunSerializer, locked: list[str]) -> Problems:
    return [
        (f"locked.{index}", _not_in_a_template(name))
        for index, name in enumerate(locked)
        if name not in body.fields or name in {*NEVER_IN_A_TEMPLATE, "name", "template_version"}
    ]


def _not_in_a_template(name: str) -> Fault:
    return Fault("unknown_field", f"A template cannot say {name[:40]!r}.")
