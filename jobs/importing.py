"""Import: a manifest read against what this platform has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from typing_extensions import override

from foundation.errors import FieldProblem, Invalid
from foundation.http.problems import flatten
from foundation.http.serializers import StrictSerializer
from jobs.imports import Imported, Known, documents, request_of
from jobs.imports.reading import REFUSED_MAX, TEXT_BYTES_MAX
from jobs.sweeps.serializers import RunOrSweepSerializer
from teams.permissions import visible_teams
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import nodes

OPEN_FIELDS = frozenset({"team", "name"})
"""What a request need not say to fill in the form."""
_MANIFEST = {"oneOf": [{"type": "string", "maxLength": TEXT_BYTES_MAX}, {"type": "object"}]}


@extend_schema_field(_MANIFEST)
class ManifestField(serializers.Field[Any, Any, Any, Any]):
    """YAML or JSON as text, or the object itself."""

    default_error_messages = {"invalid": "Give a manifest: YAML or JSON as text, or the object itself."}

    @override
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, (str, Mapping)):
            self.fail("invalid")
        return data

    @override
    def to_representation(self, value: Any) -> Any:
        return value


class ImportSerializer(StrictSerializer):
    manifest = ManifestField(
        help_text="One Job of batch/v1 or PyTorchJob of kubeflow.org/v1, or a body of a training run; YAML or JSON."
    )


class DroppedSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Where it stands in the manifest.")
    why = serializers.CharField()


class ImportProblemSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Field of the request.")
    code = serializers.CharField()
    message = serializers.CharField()


class ImportedSerializer(serializers.Serializer[Any]):
    request = serializers.DictField(help_text="The body of a training run, as far as the manifest says it.")
    dropped = DroppedSerializer(
        many=True, help_text="What is left out, because the portal sees to it itself."
    )
    problems = ImportProblemSerializer(
        many=True, help_text="What has to be decided before it can be submitted."
    )


def import_manifest(manifest: Any, *, user: Any) -> Imported:
    """The request that a manifest says, or that is given as the portal itself writes it, and what is left to decide.

    Malformed for what is no YAML; Invalid (`no_place` and others) naming every path of the manifest that a run has no
    place for.
    """
    parsed = documents(manifest) if isinstance(manifest, str) else [manifest]
    if len(parsed) == 1 and (request := _own_request(parsed[0])) is not None:
        return request
    known = Known(
        flavors=[flavor.facts for flavor in ResourceFlavor.objects.filter(enabled=True)],
        nodes=nodes(),
        teams={team.namespace_name: team.slug for team in visible_teams(user)},
    )
    result = request_of(parsed, known)
    if result.refused:
        first = result.refused[0]
        raise Invalid(f"{first.field}: {first.message}", code=first.code, errors=result.refused)
    known_fields = {problem.field for problem in result.problems}
    more = [problem for problem in _problems(result.request) if problem.field not in known_fields]
    return Imported(result.request, result.dropped, (), [*result.problems, *more][:REFUSED_MAX])


def _own_request(document: Any) -> Imported | None:
    """A body of a training run, as the form shows it as YAML; None for what is a manifest.

    Invalid names its fields that are wrong; only its team and its name may be left to decide.
    """
    if not isinstance(document, Mapping) or "apiVersion" in document or "image" not in document:
        return None
    problems = _problems(document)
    if wrong := [problem for problem in problems if problem.field not in OPEN_FIELDS]:
        raise Invalid(f"{wrong[0].field}: {wrong[0].message}", code=wrong[0].code, errors=problems)
    return Imported(dict(document), {}, (), problems)


def _problems(request: Mapping[str, Any]) -> list[FieldProblem]:
    """What the serializer of requests would refuse."""
    body = RunOrSweepSerializer(data=dict(request))
    return [] if body.is_valid() else list(flatten(body.errors))
