"""The flavors that can be asked for: written by managers, read by all users."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import transaction

from cluster import quantities
from foundation.errors import Invalid, PortalError
from foundation.http.etag import GONE, Versions, check_version, version_of
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import CapacityType, ResourceFlavor
from workloads.nodes import history
from workloads.placement import MIG_PREFIX, PRODUCT_LABEL, WHOLE_GPU, FlavorFacts, Sharing

AUDITED = ("card", "resource", "memory_gib", "sharing", "node_selector", "tolerations", "capacity", "enabled")
UNITS_MAX = 1_000_000
DECLARED_BESIDE = ("cpu", "memory", "ephemeral_storage")
"""What a flavor may declare of a node that does not exist yet, as quantities; what it leaves out refuses nothing."""
_WORD = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?:(?=.{{1,253}}/){_DOMAIN}/)?{_WORD}")
_VALUE = re.compile(rf"(?:{_WORD})?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SHARED = (Sharing.TIME_SLICING, Sharing.MPS)


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
    *,
    name: str,
    gpu_fraction: str,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
    **values: Any,
) -> tuple[ResourceFlavor, bool]:
    """Make the flavor of that name or change it; returns it and whether anything was different.

    Invalid names the field, such as `capacity.spot.provisionable.block`; PreconditionFailed for a flavor of another
    version than is expected.
    """
    fraction = parse_fraction(gpu_fraction)
    values |= {"fraction_numerator": fraction.numerator, "fraction_denominator": fraction.denominator}
    with transaction.atomic():
        history.flavors_may_change()
        flavor = ResourceFlavor.objects.select_for_update().filter(name=name).first()
        check_version(expected=expected_versions, current=version_of(flavor) if flavor else GONE)
        before = _facts(flavor) if flavor else None
        flavor = flavor or ResourceFlavor(name=name)
        for field, value in values.items():
            setattr(flavor, field, value)
        after = _facts(flavor)
        if before == after:
            return flavor, False
        _check(flavor)
        flavor.save()
        history.flavors_changed(now=now)
        record_audit(
            actor=actor,
            action="flavor.changed",
            target_kind="flavor",
            target_id=name,
            target_name=name,
            before=before,
            after=after,
            now=now,
        )
    return flavor, True


def _facts(flavor: ResourceFlavor) -> dict[str, Any]:
    return {name: getattr(flavor, name) for name in AUDITED} | {"gpu_fraction": str(flavor.gpu_fraction)}


def check_flavor(*, name: str, gpu_fraction: str, **values: Any) -> None:
    """Raise what `set_flavor` would refuse of these values, and write nothing."""
    fraction = parse_fraction(gpu_fraction)
    parts = {"fraction_numerator": fraction.numerator, "fraction_denominator": fraction.denominator}
    _check(ResourceFlavor(name=name, **parts, **values))


def _check(flavor: ResourceFlavor) -> None:
    """Check all rules that no database constraint enforces; raises Invalid for the first violation."""
    if flavor.sharing not in set(Sharing):
        raise _invalid("sharing", f"Choose one of: {', '.join(Sharing)}.", "invalid_choice")
    _check_selector("node_selector", flavor.node_selector)
    _check_tolerations(flavor.tolerations)
    if not isinstance(flavor.capacity, Mapping) or not flavor.capacity:
        raise _invalid("capacity", f"Name one or more of: {', '.join(CapacityType.values)}.")
    for capacity_type, values in flavor.capacity.items():
        _check_capacity(f"capacity.{capacity_type}", capacity_type, values)
    for capacity_type in flavor.capacity:
        _check_sharing(flavor.facts, capacity_type)


def _check_selector(field: str, selector: Any) -> None:
    if not isinstance(selector, Mapping):
        raise _invalid(field, "Give label keys, each with a list of values.")
    for key, values in selector.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise _invalid(f"{field}.{key}", "This is not the key of a label.")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise _invalid(f"{field}.{key}", "Give a list of one or more values.")
        for index, value in enumerate(values):
            if not isinstance(value, str) or not _VALUE.fullmatch(value):
                raise _invalid(f"{field}.{key}.{index}", "This is not the value of a label.")


def _check_tolerations(tolerations: Any) -> None:
    if isinstance(tolerations, (str, Mapping)) or not isinstance(tolerations, Sequence):
        raise _invalid("tolerations", "Give a list of tolerations.")
    for index, toleration in enumerate(tolerations):
        field = f"tolerations.{index}"
        if not isinstance(toleration, Mapping):
            raise _invalid(field, "Give a toleration as Kubernetes writes it.")
        fault = _toleration_fault(toleration)
        if fault is not None:
            raise _invalid(f"{field}.{fault[0]}", fault[1])


def _toleration_fault(toleration: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and a sentence for a toleration that the API server would refuse, or None."""
    unknown = sorted(set(toleration) - {"key", "operator", "value", "effect", "tolerationSeconds"})
    if unknown:
        return unknown[0], "A toleration has no such field."
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    faults = (
        (bool(key) and not _is_text(key, _KEY), "key", "This is not the key of a taint."),
        (operator not in {"Exists", "Equal"}, "operator", "Choose Exists or Equal."),
        (
            not key and operator != "Exists",
            "operator",
            "Without a key, which means every taint, it must be Exists.",
        ),
        (not _is_text(toleration.get("value") or "", _VALUE), "value", "This is not the value of a taint."),
        (operator == "Exists" and bool(toleration.get("value")), "value", "With Exists there is no value."),
        (
            toleration.get("effect", "NoSchedule") not in _EFFECTS,
            "effect",
            f"Choose one of: {', '.join(_EFFECTS)}.",
        ),
        (
            "tolerationSeconds" in toleration
            and (toleration.get("effect") != "NoExecute" or not _is_count(toleration["tolerationSeconds"])),
            "tolerationSeconds",
            "Give whole seconds, and the effect NoExecute, which alone has them.",
        ),
    )
    return next(((name, message) for wrong, name, message in faults if wrong), None)


def _check_capacity(field: str, capacity_type: str, values: Any) -> None:
    if capacity_type not in CapacityType.values:
        raise _invalid(
            "capacity", f"Name one or more of: {', '.join(CapacityType.values)}.", "invalid_choice"
        )
    if not isinstance(values, Mapping):
        raise _invalid(field, "Give an object; it may be empty.")
    unknown = sorted(set(values) - {"node_selector", "provisionable"})
    if unknown:
        raise _invalid(f"{field}.{unknown[0]}", "There is no such field.", "unknown_field")
    _check_selector(f"{field}.node_selector", values.get("node_selector", {}))
    if "provisionable" in values:
        _check_provisionable(f"{field}.provisionable", values["provisionable"])


def _check_provisionable(field: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _invalid(field, "Give `block` and `units`.")
    unknown = sorted(set(value) - {"block", "units", *DECLARED_BESIDE})
    if unknown:
        raise _invalid(f"{field}.{unknown[0]}", "There is no such field.", "unknown_field")
    for name in ("block", "units"):
        if not _is_count(value.get(name)):
            raise _invalid(f"{field}.{name}", f"Give a whole number from 0 to {UNITS_MAX}.")
    for name in DECLARED_BESIDE:
        if name in value and (fault := _quantity_fault(value[name])):
            raise _invalid(f"{field}.{name}", fault)
    if value["units"] and not value["block"]:
        raise _invalid(f"{field}.block", "A node brings at least 1 unit.", "out_of_range")
    if value["block"] > value["units"]:
        raise _invalid(
            f"{field}.block", "One node cannot bring more units than may exist in all.", "out_of_range"
        )


def _check_sharing(facts: FlavorFacts, capacity_type: str) -> None:
    """Check that resource name, fraction and products mean the same kind of unit as `sharing`."""
    shared, slices = facts.resource.endswith(".shared"), facts.resource.startswith(MIG_PREFIX)
    fitting = {
        Sharing.NONE: not shared and not slices,
        Sharing.MIG: not shared,
        Sharing.TIME_SLICING: True,
        Sharing.MPS: not slices,
    }
    if not fitting[facts.sharing]:
        raise _invalid(
            "sharing", f"Units of {facts.resource} are never shared in this way.", "sharing_mismatch"
        )
    products = facts.selector(capacity_type).get(PRODUCT_LABEL, [])
    if facts.sharing is Sharing.NONE:
        _check_whole(facts, products)
    elif facts.sharing is Sharing.MIG:
        _check_slice(facts, products)
    elif facts.gpu_fraction == 1 or (facts.gpu_fraction.numerator > 1 and not slices):
        raise _invalid("gpu_fraction", "A share is one of several equal ones: 1/4 for one of four.")


def _check_whole(facts: FlavorFacts, products: Sequence[str]) -> None:
    if facts.gpu_fraction != 1:
        raise _invalid("gpu_fraction", "Without sharing a unit is a whole card: 1.")
    cut = [
        product
        for product in products
        if facts.resource == WHOLE_GPU and (product.endswith("-SHARED") or "-MIG-" in product)
    ]
    if cut:
        raise _invalid(
            "node_selector", f"{cut[0]} is no whole GPU: say in `sharing` how it is cut.", "sharing_mismatch"
        )


def _check_slice(facts: FlavorFacts, products: Sequence[str]) -> None:
    if facts.resource == WHOLE_GPU and not (products and all("-MIG-" in product for product in products)):
        message = (
            f"Slices named {WHOLE_GPU} are told from whole GPUs by the product: name those with -MIG- here."
        )
        raise _invalid("node_selector", message, "sharing_mismatch")
    if facts.gpu_fraction == 1 and not facts.resource.startswith(MIG_PREFIX) and facts.resource != WHOLE_GPU:
        raise _invalid("gpu_fraction", "A slice is less than a card: write for example 1/7.")


def _quantity_fault(value: Any) -> str:
    """Why this is not a valid quantity of a node resource; empty if it is one."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return "Give a quantity such as 8 or 32Gi."
    fault = quantities.validate(value)
    return f"{fault[0].upper()}{fault[1:]}." if fault else ""


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= UNITS_MAX


def _invalid(field: str, message: str, code: str = "invalid") -> PortalError:
    return Invalid.of_field(field, message, code=code)
