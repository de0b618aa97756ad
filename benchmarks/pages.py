"""Every page that a person opens, where there is much: what the server needs for each."""

from __future__ import annotations

from typing import Final

from workloads.models import Workload

TABS_OF_A_RUN: Final = ("events", "pods", "gpus", "cost", "outputs", "manifests", "spec")
TABS_OF_AN_ENDPOINT: Final = ("analytics", "logs", "update", "revisions", "access", "events")


def of_member(run: Workload, endpoint: Workload) -> dict[str, str]:
    """Addresses of pages by what they are."""
    of_run, of_endpoint = f"/runs/{run.public_id}/", f"/endpoints/{endpoint.public_id}/"
    return {
        "page of a run": of_run,
        **{f"page of a run, {tab}": f"{of_run}?tab={tab}" for tab in TABS_OF_A_RUN},
        "form of a run": "/runs/new/",
        "form of a run, as an earlier one": f"/runs/new/?from={run.public_id}",
        "page of sweeps": "/sweeps/",
        "page of endpoints": "/endpoints/",
        **{f"page of an endpoint, {tab}": f"{of_endpoint}?tab={tab}" for tab in TABS_OF_AN_ENDPOINT},
        "form of an endpoint": "/endpoints/new/",
        "page of a team's quota": "/teams/past-000/quota/",
        "page of teams": "/teams/",
        "page of costs": "/costs/",
        "page of the cluster": "/cluster/",
        "page of idle GPUs": "/idle/",
        "what fits": "/what-fits/",
        "palette, two letters": "/go/?search=be",
        "palette, a name": "/go/?search=bert-50000",
        "page of notices": "/notices/",
        "own profile": "/profile/",
    }


def of_admin() -> dict[str, str]:
    """The same of who sees all teams."""
    return {
        "home page of an admin": "/",
        "page of runs of an admin": "/runs/",
        "page of costs of an admin": "/costs/",
        "page of costs by team": "/costs/?by=team",
        "page of what is idle and lost": "/costs/capacity/",
        "grid of quotas": "/quotas/",
        "changes of quotas": "/quotas/changes/",
        "requests for quota": "/quotas/requests/",
        "audit trail": "/audit/",
        "page of settings": "/settings/",
        "palette of an admin": "/go/?search=bert",
    }
