"""Gathers the platform's inputs to a manifest: the impure half of `workloads.placement`."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Subquery

from cluster import kinds
from cluster.labels import workload_labels
from foundation.models import PlatformSettings
from tenancy.namespace_manifests import SERVICE_ACCOUNT, priority_class
from workloads.models import Workload
from workloads.nodes.capacity import nodes_beside
from workloads.placement import NodeFacts, Placement, Sharing, node_terms, tolerations
from workloads.watches import Followed, followed_kinds

TOKEN_SUFFIX = "-token"  # noqa: S105 (the suffix of an object's name)
POD_MONITOR = "podmonitor"
"""What the setting `optional_kinds` names for the objects by which Prometheus finds what it scrapes."""


def placement_of(
    workload: Workload, *, object_name: str, attempt: int, followed: Followed = followed_kinds
) -> Placement:
    """The Placement of this attempt: where its pods may land, and the names that its manifests use."""
    facts = workload.flavor.facts if workload.flavor and workload.units else None
    options = PlatformSettings.current()
    observed, resume_from = _nodes_and_resume_point(workload, before=attempt, with_nodes=facts is not None)
    public_id = str(workload.public_id)
    return Placement(
        namespace=workload.team.namespace_name,
        object_name=object_name,
        workload_id=public_id,
        short_id=workload.short_id,
        attempt=attempt,
        team_slug=workload.team.slug,
        labels=workload_labels(
            workload_id=public_id, attempt=attempt, team=workload.team.slug, kind=workload.kind
        ),
        resource_name=facts.resource if facts else None,
        node_terms=node_terms(facts, workload.capacity_type, observed) if facts else [],
        tolerations=tolerations(facts, workload.capacity_type),
        service_account=SERVICE_ACCOUNT,
        priority_class=priority_class(workload.priority, serves=not workload.preemptible),
        portal_url=settings.INTERNAL_URL,
        run_token_secret=f"{object_name}{TOKEN_SUFFIX}",
        resume_from=resume_from,
        capacity_type=workload.capacity_type,
        sharing=facts.sharing if facts else Sharing.NONE,
        gang_scheduler=_gang_scheduler(options, followed),
        pod_monitors=_pod_monitors(options, followed),
        grace_seconds=options.grace_seconds,
        git_image=options.git_image,
        storage_image=options.storage_image,
        mlflow_uri=workload.team.mlflow_tracking_uri,
    )


def _gang_scheduler(options: PlatformSettings, followed: Followed) -> str:
    """The gang scheduler of the settings, if the cluster serves its pod groups; else empty."""
    named = options.gang_scheduler
    return named if named and kinds.POD_GROUPS[named].address in followed() else ""


def _pod_monitors(options: PlatformSettings, followed: Followed) -> bool:
    """Whether PodMonitors are enabled in the settings and served by the cluster."""
    return POD_MONITOR in options.optional_kinds and kinds.POD_MONITOR.address in followed()


def _nodes_and_resume_point(
    workload: Workload, *, before: int, with_nodes: bool
) -> tuple[list[NodeFacts], str | None]:
    """The nodes, and the path of the newest checkpoint of an earlier attempt or copied from another run."""
    paths = workload.checkpoints.filter(attempt__lt=before).order_by("-id").values("path")
    if with_nodes:
        return nodes_beside(Subquery(paths[:1]), cluster=workload.cluster)
    return [], paths.values_list("path", flat=True).first()
