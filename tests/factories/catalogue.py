"""Flavors, quotas and prices as a quota manager would set them."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from costs.models import Price
from costs.prices.services import set_price
from foundation import clock
from quotas.limits import set_limits
from quotas.models import Quota
from teams.actors import Actor
from teams.models import Team
from workloads.models import NodeRecord, ResourceFlavor

SETUP = Actor.system("tests")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def make_flavor(
    name: str = "a100-40gb",
    *,
    resource: str = "nvidia.com/gpu",
    product: str | None = "NVIDIA-A100-SXM4-40GB",
    fraction: Fraction = Fraction(1),
    sharing: str = "none",
    capacity: dict | None = None,
) -> ResourceFlavor:
    return ResourceFlavor.objects.create(
        name=name,
        card=name,
        resource=resource,
        fraction_numerator=fraction.numerator,
        fraction_denominator=fraction.denominator,
        memory_gib=40,
        sharing=sharing,
        node_selector={"nvidia.com/gpu.product": [product]} if product else {},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        capacity=capacity if capacity is not None else {"on-demand": {}},
    )


def make_quota(
    team: Team, flavor: ResourceFlavor, nominal: int = 8, capacity_type: str = "on-demand"
) -> Quota:
    return limit(team, flavor, capacity_type=capacity_type, nominal=nominal)


def limit(
    team: Team,
    flavor: ResourceFlavor,
    *,
    capacity_type: str = "on-demand",
    reason: str = "test",
    actor: Actor = SETUP,
    now: datetime | None = None,
    **limits: int | None,
) -> Quota:
    """The team's limits of units of the flavor, those that are named."""
    return set_limits(
        team=team,
        flavor=flavor,
        capacity_type=capacity_type,
        limits=limits,
        reason=reason,
        actor=actor,
        now=now or clock.now(),
    )


def make_price(
    card: str = "a100-40gb", micro_usd: int = 3_600_000_000, capacity_type: str = "on-demand"
) -> Price:
    """3,600 USD an hour unless told otherwise: one USD a second, so that sums can be read."""
    return set_price(
        card=card,
        capacity_type=capacity_type,
        micro_usd_per_card_hour=micro_usd,
        valid_from=EPOCH,
        reason="test",
        actor=SETUP,
        now=clock.now(),
    )


def make_node(
    name: str = "a100-0",
    *,
    units: int = 8,
    product: str = "NVIDIA-A100-SXM4-40GB",
    others: dict[str, str] | None = None,
    **labels: str,
) -> NodeRecord:
    return NodeRecord.objects.create(
        uid=f"uid-{name}",
        name=name,
        resource_version="1",
        labels={"nvidia.com/gpu.product": product, **labels},
        allocatable={"nvidia.com/gpu": units},
        others=others or {},
        ready=True,
        created_at=clock.now(),
    )
