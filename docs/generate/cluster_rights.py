"""docs/reference/cluster-rights.md: what the portal's account may do in the cluster, where, and why there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.preflight import rights
from cluster.preflight.rights import Right


def page() -> list[str]:
    """The lines of the page."""
    return [
        "# Rights in the cluster",
        "",
        "What the account of [deploy/rbac.yaml](../../deploy/rbac.yaml) may do. `manage.py preflight` asks the API server for each.",
        "",
        "## In the whole cluster",
        "",
        "ClusterRole `ml-portal`. Besides, it may `bind` the ClusterRole `ml-portal-team`, and no other.",
        "",
        "| resource | verbs | why not in teams' namespaces alone |",
        "|---|---|---|",
        *(
            f"| {_name(*key)} | {', '.join(verbs)} | {rights.WHY[key]} |"
            for key, verbs in _by_resource(rights.REQUIRED)
        ),
        "",
        "ClusterRole `ml-portal-optional-kinds`: one watch follows the objects of all teams, where the kind is served.",
        "",
        *_table(rights.OPTIONAL),
        "",
        "## In the namespaces of teams",
        "",
        "ClusterRole `ml-portal-team`, by the RoleBinding `mlportal` that the portal makes in each. `deploy/admission.yaml` has the API",
        "server refuse such a binding elsewhere.",
        "",
        *_table(rights.OF_TEAMS),
    ]


def _table(of: Iterable[Right]) -> Iterator[str]:
    yield "| resource | verbs |"
    yield "|---|---|"
    for key, verbs in _by_resource(of):
        yield f"| {_name(*key)} | {', '.join(verbs)} |"


def _by_resource(of: Iterable[Right]) -> list[tuple[tuple[str, str], list[str]]]:
    found: dict[tuple[str, str], list[str]] = {}
    for right in of:
        found.setdefault((right.group, right.resource), []).append(right.verb)
    return list(found.items())


def _name(group: str, resource: str) -> str:
    return f"`{resource}.{group}`" if group else f"`{resource}`"
