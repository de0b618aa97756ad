"""What a request for a run and one for an endpoint must both satisfy, checked once for REST and HTML forms.

Every error names its field and has a stable code: those of DRF (`required`, `null`, `invalid`, `blank`,
`max_length`, `min_value`, `max_value`, `invalid_choice`, `not_a_list`, `not_a_dict`), those of
`StrictSerializer`, and the codes in `workloads.podspec.grammar` and in this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from typing_extensions import override

from cluster import quantities
from foundation.http.serializers import StrictSerializer
from workloads.podspec import fields, grammar, specs
from workloads.podspec.fields import (
    AmountField,
    ChoiceLaterField,
    FlagField,
    NotYetField,
    QuantityField,
    TextField,
    TextListField,
    TextMapField,
    UnitsField,
    WholeNumberField,
)
from workloads.podspec.grammar import Fault, Mount
from workloads.states import Priority

ENV_MAX = 200
ENV_VALUE_BYTES_MAX = 32 * 1024
ENV_BYTES_MAX = 512 * 1024
COMMAND_BYTES_MAX = 128 * 1024
VOLUMES_MAX = 32
SECRETS_MAX = 16
GPUS_MAX = 1024
USER_ID_MAX = 2**31 - 1

Problems = list[tuple[str, Fault]]
"""(dotted path, fault) of each problem that several fields have together."""


def _listed(child: StrictSerializer, most: int) -> serializers.ListSerializer[Any]:
    return serializers.ListSerializer(child=child, max_length=most, required=False, allow_null=True)


class EnvVarSerializer(StrictSerializer):
    name = TextField(check=grammar.env_name)
    value = TextField(allow_blank=True, allow_null=True, required=False, max_length=ENV_VALUE_BYTES_MAX)
    secret = TextField(
        check=grammar.object_name,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Instead of a value: a Secret of the team that the portal knows, and `key`.",
    )
    key = TextField(check=grammar.secret_key, required=False, allow_null=True, allow_blank=True)


@extend_schema_serializer(component_name="Volume")
class VolumeMountSerializer(StrictSerializer):
    claim = TextField(check=grammar.object_name)
    path = TextField(check=grammar.mount_path)
    # The metaclass takes declared fields off the class, so DRF's own attribute of this name stays what it is.
    read_only = FlagField(required=False, allow_null=True)  # type: ignore[assignment]


class ConfigMapMountSerializer(StrictSerializer):
    name = TextField(check=grammar.object_name)
    path = TextField(check=grammar.mount_path)


class GitSerializer(StrictSerializer):
    url = TextField(check=grammar.git_url, required=False, allow_null=True, allow_blank=True)
    ref = TextField(
        check=grammar.git_ref,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Branch, tag or whole commit hash; HEAD of the repository where it is left out.",
    )
    subdir = TextField(check=grammar.git_subdir, required=False, allow_null=True, allow_blank=True)
    secret = TextField(
        check=grammar.object_name,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="For a private repository: a secret of the team with the key password, and username if need be.",
    )


class SourceSerializer(StrictSerializer):
    files = TextMapField(check=grammar.files)
    path = TextField(check=grammar.mount_path, required=False, allow_null=True)
    git = GitSerializer(required=False, allow_null=True)


class ContainerSerializer(StrictSerializer):
    """The shared part of a body. Subclasses add their fields, `mounts` and `problems`."""

    team = TextField(max_length=63)
    name = TextField(check=grammar.workload_name)
    image = TextField(check=grammar.image)
    command = TextListField()
    args = TextListField()
    working_dir = TextField(check=grammar.folder, required=False, allow_null=True)
    run_as_user = WholeNumberField(min_value=0, max_value=USER_ID_MAX, required=False, allow_null=True)
    env = _listed(EnvVarSerializer(), ENV_MAX)
    image_pull_secrets = serializers.ListField(
        child=TextField(check=grammar.object_name), max_length=SECRETS_MAX, required=False, allow_null=True
    )
    flavor = TextField(check=grammar.object_name, required=False, allow_null=True, allow_blank=True)
    capacity = ChoiceLaterField(now=specs.CAPACITY_TYPES, later=(specs.SPOT_FIRST,))
    gpus_per_replica = WholeNumberField(min_value=0, max_value=GPUS_MAX, required=False, allow_null=True)
    cpu = AmountField(least=fields.CPU_CORES_MIN, most=fields.CPU_CORES_MAX)
    memory = AmountField(least=fields.MEMORY_BYTES_MIN, most=fields.MEMORY_BYTES_MAX)
    shm = QuantityField(least=fields.MEMORY_BYTES_MIN, most=fields.MEMORY_BYTES_MAX)
    ephemeral_storage = AmountField(least=fields.MEMORY_BYTES_MIN, most=fields.STORAGE_BYTES_MAX)
    left_out = serializers.ListField(
        child=serializers.ChoiceField(choices=specs.LEFT_OUT),
        required=False,
        allow_null=True,
        help_text="Of cpu and memory, what the portal is to fill in, whatever they say here: so it stands in a spec.",
    )
    volumes = _listed(VolumeMountSerializer(), VOLUMES_MAX)
    config_maps = _listed(ConfigMapMountSerializer(), VOLUMES_MAX)
    priority = ChoiceLaterField(now=tuple(Priority))
    labels = TextMapField(check=fields.check_labels, item=grammar.label)
    replaces = TextField(
        max_length=36,
        required=False,
        allow_null=True,
        help_text="Id of a waiting one of the same kind and team: it is cancelled when this is submitted.",
    )
    source = SourceSerializer(required=False, allow_null=True)  # type: ignore[assignment] # as above
    image_pull_deadline_seconds = WholeNumberField(
        min_value=1,
        max_value=86_400,
        required=False,
        allow_null=True,
        help_text="How long its image may fail to be pulled before it fails; the platform's setting unless given.",
    )
    template = NotYetField()
    extra_resources = UnitsField(
        check=grammar.extra_resources,
        most=GPUS_MAX,
        help_text='Extended resources of each pod that are no GPUs, such as {"vpc.amazonaws.com/efa": 1}.',
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        problems = self.problems(attrs)
        if problems:
            raise serializers.ValidationError(error_details(problems))
        return attrs

    def to_spec(self) -> specs.ContainerSpec:
        """The request as a spec; call after `is_valid`."""
        raise NotImplementedError

    @property
    def replaced_id(self) -> str | None:
        """Id of the waiting workload that this one replaces; call after `is_valid`."""
        replaced: str | None = self.validated_data.get("replaces")
        return replaced

    def mounts(self, body: Mapping[str, Any]) -> Iterable[Mount]:
        """Every place in the container's file tree that the body takes."""
        for index, item in enumerate(body.get("volumes") or ()):
            yield Mount(f"volumes.{index}.path", item["path"], sealed=False)
        for index, item in enumerate(body.get("config_maps") or ()):
            yield Mount(f"config_maps.{index}.path", item["path"], sealed=True)
        source = specs.Source.from_json(body.get("source"))
        if source is not None:
            yield Mount("source.path", source.path, sealed=source.git is None)

    def problems(self, body: Mapping[str, Any]) -> Problems:
        """What is wrong with fields together, each of which is right by itself."""
        return [
            *env_problems(body.get("env") or ()),
            *command_problems(body),
            *_gpu_problems(body),
            *_shm_problems(body),
            *_source_problems(body),
            *grammar.mount_conflicts(self.mounts(body)),
        ]


def env_problems(env: Sequence[Mapping[str, Any]]) -> Problems:
    """What is wrong with variables together."""
    problems: Problems = []
    counts = Counter(item["name"] for item in env)
    for index, item in enumerate(env):
        if counts[item["name"]] > 1:
            problems.append((f"env.{index}.name", Fault("duplicate", f"{item['name']} is given twice.")))
        problems += _reference_problems(f"env.{index}", item)
        if _size(item.get("value") or "") > ENV_VALUE_BYTES_MAX:
            message = f"The value of a variable has at most {ENV_VALUE_BYTES_MAX} bytes."
            problems.append((f"env.{index}.value", Fault("too_large", message)))
    if sum(_size(item["name"]) + _size(item.get("value") or "") for item in env) > ENV_BYTES_MAX:
        problems.append(
            ("env", Fault("too_large", f"All variables together have at most {ENV_BYTES_MAX} bytes."))
        )
    return problems


def _reference_problems(path: str, item: Mapping[str, Any]) -> Problems:
    secret, key = item.get("secret"), item.get("key")
    if secret and item.get("value") is not None:
        return [(f"{path}.value", Fault("exclusive", "Give a value, or a secret and its key; not both."))]
    if secret and not key:
        return [(f"{path}.key", Fault("required", f"Say which key of {secret} holds the value."))]
    if key and not secret:
        return [(f"{path}.secret", Fault("required", f"Say which secret has the key {key}."))]
    return []


def command_problems(body: Mapping[str, Any]) -> Problems:
    """What is wrong with a command and its arguments together."""
    command, args = body.get("command") or [], body.get("args") or []
    if command and not command[0]:
        return [("command", Fault("blank", "The first item is the program to run; it cannot be empty."))]
    if sum(map(_size, [*command, *args])) > COMMAND_BYTES_MAX:
        message = f"The command and its arguments have at most {COMMAND_BYTES_MAX} bytes together."
        return [("args" if args else "command", Fault("too_large", message))]
    return []


def _gpu_problems(body: Mapping[str, Any]) -> Problems:
    if body.get("gpus_per_replica") and not body.get("flavor"):
        return [("flavor", Fault("required", "A request for GPUs names the flavor it wants."))]
    return []


def _shm_problems(body: Mapping[str, Any]) -> Problems:
    shm = body.get("shm")
    if body.get("memory") is None and body.get("flavor"):
        # What it comes to is known where the nodes of the flavor are.
        return []
    memory = specs.Amount.from_json(specs.value_of(body, "memory", specs.DEFAULT_MEMORY))
    if shm is None or quantities.parse(shm) <= quantities.parse(memory.limit):
        return []
    message = f"Shared memory counts as memory: {shm} is above the memory limit of {memory.limit}."
    return [("shm", Fault("shm_above_memory", message))]


def _source_problems(body: Mapping[str, Any]) -> Problems:
    source = body.get("source") or {}
    git = source.get("git") or {}
    if not git.get("url"):
        needs_url = [name for name in ("ref", "subdir", "secret") if git.get(name)]
        return [("source.git.url", Fault("required", "Say which repository is meant."))] if needs_url else []
    if source.get("files"):
        return [("source.git", Fault("exclusive", "Give files or a repository; not both."))]
    return []


def _size(text: str) -> int:
    return len(text.encode())


def error_details(problems: Problems) -> dict[str, list[ErrorDetail]]:
    """The faults as the detail of a ValidationError, each under its dotted path."""
    detail: dict[str, list[ErrorDetail]] = {}
    for path, fault in problems:
        detail.setdefault(path, []).append(ErrorDetail(fault.message, code=fault.code))
    return detail
