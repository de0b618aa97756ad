"""The labels that the portal writes on every object and pod, and selectors over them."""

from __future__ import annotations

WORKLOAD_ID = "mlportal.dev/workload-id"
ATTEMPT = "mlportal.dev/attempt"
TEAM = "mlportal.dev/team"
KIND = "mlportal.dev/kind"
REVISION = "mlportal.dev/revision"
"""On an endpoint's pods alone: the revision that gave them their template."""
METRICS_PORT = "mlportal.dev/metrics-port"
"""On a pod that answers /metrics: the name of the port on which it does."""
GATEWAY = "mlportal.dev/gateway"
MONITORING = "mlportal.dev/monitoring"
"""On a namespace, with the value "true": who may call endpoints, and who may read their metrics."""
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "ml-portal"


def workload_labels(*, workload_id: str, attempt: int, team: str, kind: str) -> dict[str, str]:
    """All five labels of one attempt; `workload_id` is the public id, `team` the slug."""
    return {
        MANAGED_BY: MANAGER,
        WORKLOAD_ID: workload_id,
        ATTEMPT: str(attempt),
        TEAM: team,
        KIND: kind,
    }


def selector(
    *,
    workload_id: str | None = None,
    attempt: int | None = None,
    team: str | None = None,
    kind: str | None = None,
) -> str:
    """The label selector for the portal's objects, narrowed by the arguments that are not None."""
    wanted = {
        MANAGED_BY: MANAGER,
        WORKLOAD_ID: workload_id,
        ATTEMPT: None if attempt is None else str(attempt),
        TEAM: team,
        KIND: kind,
    }
    return ",".join(f"{key}={value}" for key, value in wanted.items() if value is not None)
