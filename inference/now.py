"""An endpoint as it is now, read once for all that is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, Q

from inference.models import Endpoint, EndpointRevision
from inference.specs import EndpointSpec
from workloads.models import PodRecord, Workload

SHOWN_OF_PODS = (
    *("workload", "name", "attempt", "phase", "ready", "restarts", "reason"),
    *("node_name", "created_at", "started_at", "deletion_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointNow:
    """`revisions` in use, by number: the one that serves, the applied one and the one that is wanted.
    `pods` that are there, newest first.
    """

    endpoint: Endpoint
    revisions: Mapping[int, EndpointRevision]
    pods: Sequence[PodRecord]
    attempt: int

    @property
    def serving(self) -> EndpointRevision:
        return self.revisions[self.endpoint.serving]

    @property
    def coming(self) -> list[EndpointRevision]:
        """Revisions that are not served yet, newest first."""
        others = (
            revision for revision in self.revisions.values() if revision.number != self.endpoint.serving
        )
        return sorted(others, key=lambda revision: revision.number, reverse=True)

    @property
    def wanted(self) -> EndpointRevision:
        return self.revisions[self.endpoint.revision]

    @property
    def spec(self) -> EndpointSpec:
        """The spec that is wanted."""
        return self.wanted.parsed

    @property
    def to_tell(self) -> EndpointRevision:
        """As `Endpoint.to_tell` has it."""
        return self.wanted if self.wanted.held_until is None else self.revisions[self.endpoint.target]

    @property
    def spec_to_tell(self) -> EndpointSpec:
        """As `Endpoint.spec_of` has it for that revision."""
        revision, wanted = self.to_tell, self.wanted
        return revision.parsed if revision.number == wanted.number else revision.sized_as(wanted)

    @property
    def replicas(self) -> int:
        """How many pods the newest attempt has."""
        return sum(pod.attempt == self.attempt for pod in self.pods)

    @property
    def ready(self) -> int:
        """How many of these pods answer."""
        return sum(pod.ready and pod.attempt == self.attempt for pod in self.pods)


def wanted_of(workload: Workload) -> EndpointRevision:
    """The revision that is wanted of the endpoint."""
    return EndpointRevision.objects.get(endpoint=workload.pk, number=F("endpoint__revision"))


def endpoint_now(workload: Workload) -> EndpointNow:
    """The endpoint of the workload, in two queries."""
    in_cluster = Q(number=F("endpoint__stable_revision")) | Q(number=F("endpoint__target"))
    in_use = in_cluster | Q(number=F("endpoint__revision"))
    rows = EndpointRevision.objects.filter(in_use, endpoint=workload.pk)
    revisions = {revision.number: revision for revision in rows.select_related("endpoint")}
    endpoint = next(iter(revisions.values())).endpoint
    endpoint.workload = workload
    pods = workload.pods.filter(gone_at__isnull=True).order_by("-created_at", "-id")
    return EndpointNow(
        endpoint=endpoint,
        revisions=revisions,
        pods=list(pods.only(*SHOWN_OF_PODS)),
        attempt=workload.attempt_number,
    )
