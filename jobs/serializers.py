"""The body of a training run request: the one validator of REST and of the HTML form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty
from typing_extensions import override

from console.api.request_serializers import GPUS_MAX, ContainerSerializer, Problems, error_details
from foundation.http.serializers import StrictSerializer
from jobs import presets
from jobs.kinds import JOB, KINDS, RETIRED, TRAIN_JOB, RunKind
from jobs.queries import enabled_templates, template_named
from jobs.services import with_defaults
from jobs.specs import CheckpointSpec, Elastic, TrainingRunSpec
from workloads.podspec import fields, grammar
from workloads.podspec.fields import (
    AmountField,
    ChoiceLaterField,
    FlagField,
    TextField,
    TextMapField,
    WholeNumberField,
)
from workloads.podspec.grammar import Fault, Mount
from workloads.podspec.specs import CAPACITY_TYPES, SPOT_FIRST, volume

REPLICAS_MAX = 1024
TIME_LIMIT_SECONDS_MIN = 60
TIME_LIMIT_SECONDS_MAX = 30 * 86400
RETRIES_MAX = 20
PROCESSES_MAX = 1024
ROLES_MAX = 8
NEUTRAL: Mapping[str, tuple[Any, ...]] = {"slots_per_worker": (1,)}
"""Values that say nothing where a kind has no place for the field."""
RUNTIME_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")


class CheckpointSerializer(StrictSerializer):
    path = TextField(check=grammar.mount_path)
    claim = TextField(check=grammar.object_name, required=False, allow_null=True)
    interval_seconds = WholeNumberField(min_value=10, max_value=7 * 86400, required=False, allow_null=True)


class KindField(ChoiceLaterField):
    """One of the kinds that there are; whether the cluster offers it is not asked here."""

    @override
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str) and data in RETIRED:
            raise serializers.ValidationError(RETIRED[data], code="retired")
        return super().to_internal_value(data)


class RoleSerializer(StrictSerializer):
    """Pods that are not alike those that `replicas` counts, and come on top of them."""

    name = TextField(max_length=63)
    replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX, required=False, allow_null=True)
    gpus_per_replica = WholeNumberField(min_value=0, max_value=GPUS_MAX, required=False, allow_null=True)
    cpu = AmountField(least=fields.CPU_CORES_MIN, most=fields.CPU_CORES_MAX)
    memory = AmountField(least=fields.MEMORY_BYTES_MIN, most=fields.MEMORY_BYTES_MAX)


class ElasticSerializer(StrictSerializer):
    min_replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX)
    max_replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX)


class RetryRulesSerializer(StrictSerializer):
    exit_codes: serializers.ListField = serializers.ListField(
        child=WholeNumberField(min_value=1, max_value=255), max_length=64, required=False, allow_null=True
    )


class RuntimeRefSerializer(StrictSerializer):
    name = TextField(check=grammar.object_name)
    kind = serializers.ChoiceField(choices=RUNTIME_KINDS, required=False, allow_null=True)


class TrainingRunSerializer(ContainerSerializer):
    """Valid data becomes a spec by `to_spec`; whether flavor, team and claims exist is not asked here."""

    capacity = ChoiceLaterField(now=(*CAPACITY_TYPES, SPOT_FIRST))
    kind = KindField(now=tuple(KINDS))
    replicas = WholeNumberField(min_value=1, max_value=REPLICAS_MAX, required=False, allow_null=True)
    checkpoint = CheckpointSerializer(required=False, allow_null=True)
    time_limit_seconds = WholeNumberField(
        min_value=TIME_LIMIT_SECONDS_MIN, max_value=TIME_LIMIT_SECONDS_MAX, required=False, allow_null=True
    )
    max_retries = WholeNumberField(min_value=0, max_value=RETRIES_MAX, required=False, allow_null=True)
    roles: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=RoleSerializer(), max_length=ROLES_MAX, required=False, allow_null=True
    )
    elastic = ElasticSerializer(required=False, allow_null=True)
    nproc_per_node = WholeNumberField(min_value=1, max_value=PROCESSES_MAX, required=False, allow_null=True)
    slots_per_worker = WholeNumberField(min_value=1, max_value=PROCESSES_MAX, required=False, allow_null=True)
    runtime_ref = RuntimeRefSerializer(required=False, allow_null=True)
    topology = ChoiceLaterField(now=("any", "same-zone", "same-node"))
    gang = FlagField(required=False, allow_null=True)
    retry = RetryRulesSerializer(required=False, allow_null=True)
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
            raise serializers.ValidationError({**error.detail, **error_details(refused)}) from error
        spec = with_defaults(TrainingRunSpec.from_json(body))
        if problems := [*refused, *presets.outside(preset, spec.to_json())]:
            raise serializers.ValidationError(error_details(problems))
        return body

    @override
    def to_spec(self) -> TrainingRunSpec:
        return TrainingRunSpec.from_json(self.validated_data)

    @override
    def mounts(self, body: Mapping[str, Any]) -> Iterable[Mount]:
        yield from super().mounts(body)
        checkpoint = CheckpointSpec.from_json(body.get("checkpoint"))
        if checkpoint is None:
            return
        if checkpoint.own_mount([volume(item) for item in body.get("volumes") or ()]) is not None:
            yield Mount("checkpoint.path", checkpoint.path, sealed=False)

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        return [*super().problems(body), *_checkpoint_problems(body), *kind_problems(body)]


def _preset(data: Any) -> presets.Preset | None:
    """The template that a body names. ValidationError where there is none, or of another version."""
    values = data if isinstance(data, Mapping) else {}
    name, version = values.get("template"), values.get("template_version")
    if not isinstance(name, str) or not name:
        if version is not None:
            raise _refused("template", "required", "A version is that of a template: name it.")
        return None
    template = template_named(name)
    if template is None:
        names = ", ".join(enabled_template.name for enabled_template in enabled_templates()) or "none"
        raise _refused("template", "unknown_template", f"There is no such template. There is: {names}.")
    if version is not None and (type(version) is not int or version != template.version):
        message = f"Template {name} has version {template.version} now: look at what it has become."
        raise _refused("template_version", "changed", message)
    return template.preset


def _refused(field: str, code: str, message: str) -> serializers.ValidationError:
    return serializers.ValidationError(error_details([(field, Fault(code, message))]))


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


def kind_problems(body: Mapping[str, Any]) -> Problems:
    """What the kind of the run has no place for, or cannot do without."""
    kind = KINDS[body.get("kind") or JOB]
    return [*_misplaced(kind, body), *_role_problems(kind, body), *_elastic_problems(body)]


def _misplaced(kind: RunKind, body: Mapping[str, Any]) -> Problems:
    somewhere = frozenset[str]().union(*(kind_of_run.fields for kind_of_run in KINDS.values()))
    problems: Problems = []
    for name in sorted(somewhere - kind.fields | kind.lacks):
        if body.get(name) and body[name] not in NEUTRAL.get(name, ()):
            takers = ", ".join(
                kind_of_run.name for kind_of_run in KINDS.values() if name in kind_of_run.fields
            )
            fix = f"it belongs to {takers}" if takers else "leave it out"
            problems.append((name, Fault("not_for_kind", f"A {kind.name} has no place for {name}; {fix}.")))
    if kind.name == TRAIN_JOB and not (body.get("runtime_ref") or {}).get("name"):
        message = "A trainjob is made from a training runtime of the cluster; name it."
        problems.append(("runtime_ref", Fault("required", message)))
    return problems


def _role_problems(kind: RunKind, body: Mapping[str, Any]) -> Problems:
    problems: Problems = []
    main = body.get("gpus_per_replica")
    main = (1 if body.get("flavor") else 0) if main is None else main
    names = [role["name"] for role in body.get("roles") or ()]
    for index, role in enumerate(body.get("roles") or ()):
        name, path = role["name"], f"roles.{index}"
        if kind.roles and name not in kind.roles:
            listed = ", ".join(kind.roles)
            message = (
                f"A {kind.name} has no role {name[:40]!r}; besides its {kind.workers} it may have: {listed}."
            )
            problems.append((f"{path}.name", Fault("invalid_choice", message)))
        if names.index(name) != index:
            problems.append((f"{path}.name", Fault("duplicate", f"The role {name[:40]} is given twice.")))
        if name in kind.single_roles and (role.get("replicas") or 1) > 1:
            problems.append((f"{path}.replicas", Fault("max_value", f"There is one {name} at most.")))
        if (role.get("gpus_per_replica") or 0) not in {0, main}:
            message = f"A role has no GPUs, or as many as each of the {kind.workers}: {main}."
            problems.append((f"{path}.gpus_per_replica", Fault("uneven", message)))
    return problems


def _elastic_problems(body: Mapping[str, Any]) -> Problems:
    elastic = Elastic.from_json(body.get("elastic"))
    if elastic is None:
        return []
    if elastic.min_replicas > elastic.max_replicas:
        return [("elastic.min_replicas", Fault("max_value", "The fewest cannot be more than the most."))]
    replicas = body.get("replicas")
    if replicas not in {None, elastic.max_replicas}:
        message = (
            f"An elastic run asks for the most pods it may have: leave replicas out, or give"
            f" {elastic.max_replicas}."
        )
        return [("replicas", Fault("not_the_most", message))]
    return []


class TrainingRunPatchSerializer(StrictSerializer):
    """What may be changed of a run that exists."""

    priority = ChoiceLaterField(now=("low", "normal", "high"), allow_null=False)
    time_limit_seconds = WholeNumberField(
        min_value=TIME_LIMIT_SECONDS_MIN, max_value=TIME_LIMIT_SECONDS_MAX, required=False
    )
    labels = TextMapField(check=fields.check_labels, item=grammar.label, allow_null=False)

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            message = "Give priority, time_limit_seconds or labels."
            raise serializers.ValidationError(message, code="required")
        return attrs
