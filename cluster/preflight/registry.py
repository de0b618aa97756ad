"""The list of checks and how they are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterError, ClusterRejected, ClusterUnavailable

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `detail` says what is so, `fix` what to do about it (empty when nothing is to do)."""

    id: str
    title: str
    status: Status
    detail: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The finding as JSON."""
        return asdict(self)


class ClusterFacts:
    """What several checks want to know of the cluster, read once."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = client

    @cached_property
    def version(self) -> dict[str, Any]:
        return self.client.version()

    @cached_property
    def served(self) -> set[tuple[str, str]]:
        return self.client.served_kinds()

    @cached_property
    def nodes(self) -> list[dict[str, Any]]:
        return self.client.list(kinds.NODE).items

    @cached_property
    def deployments(self) -> list[dict[str, Any]]:
        return self.client.list(kinds.DEPLOYMENT).items

    @cached_property
    def namespaces(self) -> list[dict[str, Any]]:
        return self.client.list(kinds.NAMESPACE).items

    def serves(self, kind: kinds.ResourceKind) -> bool:
        """Whether the API serves this kind."""
        return (kind.api_version, kind.kind) in self.served


CheckFunction = Callable[[ClusterFacts], Check]

_registered: list[tuple[str, str, CheckFunction]] = []


def register(*, id: str, title: str) -> Callable[[CheckFunction], CheckFunction]:  # noqa: A002 - as the field
    """Adds a check to every later run; the first one registered decides whether the others run at all.

    A ClusterError that the function lets pass becomes a finding, so it need not catch any.
    """

    def add(function: CheckFunction) -> CheckFunction:
        _registered[:] = [entry for entry in _registered if entry[0] != id]
        _registered.append((id, title, function))
        return function

    return add


def run(client: ClusterClient) -> list[Check]:
    """All findings in order of registration; only the first if the cluster cannot be reached."""
    facts = ClusterFacts(client)
    checks: list[Check] = []
    for name, title, function in _registered:
        checks.append(_outcome(name, title, function, facts))
        if len(checks) == 1 and checks[0].status == "fail":
            break
    return checks


def _outcome(name: str, title: str, function: CheckFunction, facts: ClusterFacts) -> Check:
    try:
        return function(facts)
    except ClusterUnavailable as error:
        return Check(name, title, "fail", error.message, "check the kubeconfig and that the API server runs")
    except ClusterRejected as error:
        fix = "grant it: kubectl apply -f deploy/rbac.yaml" if error.status == 403 else ""
        return Check(name, title, "warn", f"could not be checked: {error.message}", fix)
    except ClusterError as error:
        return Check(name, title, "warn", f"could not be checked: {error.message}")
