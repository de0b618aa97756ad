"""The right-size card of a run that has ended: from its summary, its team's quotas and today's prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from costs.queries import PriceBook, exact_rate_now, spans_by_card
from quotas.models import Quota
from telemetry.models import GpuSummary
from telemetry.right_size import FlavorOption, SizeAdvice, UsedGpus, advise
from workloads.models import ResourceFlavor, Workload
from workloads.placement import Sharing

NOT_ENDED: Final = "It has not ended yet."
NOT_MEASURED: Final = "Nothing is known of what its GPUs did."
NO_GPU: Final = "It asks for no GPU."


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """`unknown_because` is a sentence where nothing can be said."""

    advice: SizeAdvice | None = None
    summary: GpuSummary | None = None
    unknown_because: str = ""


def right_size_of(workload: Workload, *, now: datetime) -> RightSize:
    """What to ask for the next time; in three queries, and without asking Prometheus."""
    if workload.flavor is None or not workload.units_each:
        return RightSize(unknown_because=NO_GPU)
    if not workload.is_final:
        return RightSize(unknown_because=NOT_ENDED)
    summary = GpuSummary.objects.filter(workload=workload).first()
    if summary is None or not summary.cards:
        return RightSize(unknown_because=NOT_MEASURED)
    used = UsedGpus(
        units_each=workload.units_each,
        pods=max(1, workload.units // workload.units_each),
        seconds=summary.seconds,
        used_each=summary.used_each,
        average=summary.average_utilization,
        peak_memory_mib=summary.peak_memory_mib,
        coverage=summary.coverage,
    )
    prices = spans_by_card()
    kind = workload.capacity_type
    quotas = Quota.objects.filter(team=workload.team_id, capacity_type=kind, flavor__enabled=True)
    others = [
        _option(quota.flavor, kind, prices, now) for quota in quotas.select_related("flavor") if quota.ceiling
    ]
    own = _option(workload.flavor, kind, prices, now)
    return RightSize(advice=advise(used, own, others), summary=summary)


def _option(flavor: ResourceFlavor, capacity_type: str, prices: PriceBook, now: datetime) -> FlavorOption:
    return FlavorOption(
        name=flavor.name,
        card=flavor.card,
        fraction=flavor.gpu_fraction,
        memory_gib=flavor.memory_gib or 0,
        rate_per_hour=exact_rate_now(flavor, capacity_type, 1, prices, now),
        shared=Sharing(flavor.sharing) in {Sharing.TIME_SLICING, Sharing.MPS},
    )
