"""What stands under the tab of a run's outputs."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from console.pages.reading import PageReading
from foundation.number_words import size_words
from jobs.outputs.services import OUTPUTS_MAX, FoundOutput, found_outputs
from workloads.models import Workload


def outputs(asked: PageReading[Any]) -> dict[str, Any]:
    """All of them, the newest first."""
    workload = asked.workload
    found = found_outputs(workload, workload.outputs.all()[:OUTPUTS_MAX])
    return {
        "outputs": [
            {
                "row": each.row,
                "size": size_words(each.row.size_bytes),
                "metrics": [(name, f"{value:.6g}") for name, value in each.row.metrics.items()],
                "place": each.place,
                "fetch": each.fetch,
                "deploy": _deployed_from(each, workload),
            }
            for each in found
        ]
    }


def _deployed_from(found: FoundOutput, workload: Workload) -> str:
    """The query by which the form of an endpoint begins with the volume mounted where the run had it."""
    if found.place is None:
        return ""
    query = QueryDict(mutable=True)
    query["team"], query["name"] = workload.team.slug, workload.name
    query["model_claim"], query["model_path"] = found.place.claim, found.place.mount
    query["open"] = "serving"
    return query.urlencode()
