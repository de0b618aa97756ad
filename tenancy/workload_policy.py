"""Whether a team's pods may be what a request asks for: root, images and labels, as a platform admin lets the team."""

from __future__ import annotations

from collections.abc import Iterator

from foundation.errors import FieldProblem
from foundation.models import PlatformSettings
from foundation.pod_security import PodSecurity
from teams.models import Team
from workloads.podspec import image_names
from workloads.podspec.specs import ContainerSpec

LABELS_OF_IDENTITY = (
    "azure.workload.identity",
    "aadpodidbinding",
    "eks.amazonaws.com",
    "iam.amazonaws.com",
    "iam.gke.io",
    "istio.io",
    "linkerd.io",
    "cilium.io",
    "kuma.io",
    "consul.hashicorp.com",
    "vault.hashicorp.com",
    "spiffe.io",
    "solo.io",
    "dapr.io",
    "openshift.io",
    "amazonaws.com",
    "gke.io",
    "azure.com",
)
"""Keys and domains of labels by which a mesh, a secret injector or a cloud gives a pod an identity or a container."""


def problems(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    """Every field that asks for what the team is not let."""
    yield from _root(spec, team)
    yield from _image(spec, team)
    yield from _labels(spec, team)


def image_prefixes_of(team: Team) -> list[str]:
    """The allow-list that holds for the team: its own, else the platform's; empty where any image may be used."""
    return list(team.image_prefixes or PlatformSettings.current().image_prefixes)


def _root(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    if spec.run_as_user != 0:
        return
    if not team.may_run_as_root:
        message = (
            f"Team {team.slug} may not run as root. Choose another user, such as 1000, or ask a platform admin to let "
            "the team (may_run_as_root)."
        )
        yield FieldProblem(field="run_as_user", code="root_not_allowed", message=message)
    elif team.pod_security == PodSecurity.RESTRICTED:
        message = f"The namespace of team {team.slug} holds Pod Security restricted, under which no pod runs as root."
        yield FieldProblem(field="run_as_user", code="root_not_allowed", message=message)


def _image(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    allowed = image_prefixes_of(team)
    if allowed and not image_names.lies_below(spec.image, allowed):
        message = (
            f"{image_names.full_name(spec.image)} is none of the images that team {team.slug} may use. "
            f"Allowed is what begins with: {', '.join(allowed)}."
        )
        yield FieldProblem(field="image", code="image_not_allowed", message=message)


def _labels(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    for key in spec.labels:
        if _below(key, LABELS_OF_IDENTITY) and not _below(key, team.allowed_labels):
            message = (
                f"The label {key} gives pods an identity or another container, which team {team.slug} may not choose. "
                "A platform admin may let it (allowed_labels)."
            )
            yield FieldProblem(field=f"labels.{key}", code="label_not_allowed", message=message)


def _below(key: str, entries: tuple[str, ...] | list[str]) -> bool:
    """Whether the key is an entry, or its domain is an entry or lies below it, in whatever case it is written."""
    folded, domain = key.lower(), key.lower().rpartition("/")[0] or key.lower()
    names = [entry.lower() for entry in entries]
    return any(name in {folded, domain} or domain.endswith(f".{name}") for name in names)
