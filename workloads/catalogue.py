"""The flavors that can be asked for: written by managers, read by everybody."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import transaction

from foundation.errors import Invalid
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import ResourceFlavor

AUDITED = ("card", "resource", "memory_gib", "sharing", "node_selector", "tolerations", "capacity", "enabled")


def parse_fraction(text: str) -> Fraction:
    """`1`, `1/7` or `0.25` as an exact fraction of one card. Invalid names `gpu_fraction`."""
    try:
        fraction = Fraction(text)
    except (ValueError, ZeroDivisionError):
        fraction = Fraction(0)
    if not 0 < fraction <= 1 or fraction.denominator > 1000:
        raise Invalid.of_field(
            "gpu_fraction", "Write 1, or a fraction of one card such as 1/7.", code="invalid"
        )
    return fraction


def set_flavor(
    *, name: str, gpu_fraction: str, actor: Actor, now: datetime, **values: Any
) -> tuple[ResourceFlavor, bool]:
    """Make the flavor of that name or change it; returns it and whether anything was different."""
    fraction = parse_fraction(gpu_fraction)
    values |= {"fraction_numerator": fraction.numerator, "fraction_denominator": fraction.denominator}
    with transaction.atomic():
        flavor = ResourceFlavor.objects.select_for_update().filter(name=name).first()
        before = _facts(flavor) if flavor else None
        flavor = flavor or ResourceFlavor(name=name)
        for field, value in values.items():
            setattr(flavor, field, value)
        after = _facts(flavor)
        if before == after:
            return flavor, False
        flavor.save()
        record_audit(
            actor=actor,
            action="flavor.changed",
            target_kind="flavor",
            target_id=name,
            before=before,
            after=after,
            now=now,
        )
    return flavor, True


def _facts(flavor: ResourceFlavor) -> dict[str, Any]:
    return {name: getattr(flavor, name) for name in AUDITED} | {"gpu_fraction": str(flavor.gpu_fraction)}
