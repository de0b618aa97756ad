"""What the map is asked: which flavor is shown, and where so many pods of it would fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from typing_extensions import override

from pages.cluster.placing import Placing
from workloads.models import CapacityType, ResourceFlavor
from workloads.placement import Sharing

GPUS_MAX: Final = 1024
PODS_MAX: Final = 4096
NAMED_MAX: Final = 4
NEW_NODE: Final = "new-"


class FitForm(forms.Form):
    """`gpus` empty: only the filter."""

    flavor = forms.ChoiceField(required=False)
    capacity = forms.ChoiceField(
        required=False, choices=[("", "Any"), *((kind.value, kind.value) for kind in CapacityType)]
    )
    gpus = forms.IntegerField(label="GPUs or slices a pod", required=False, min_value=1, max_value=GPUS_MAX)
    pods = forms.IntegerField(required=False, min_value=1, max_value=PODS_MAX)

    def __init__(self, data: Any, *, flavors: Sequence[ResourceFlavor]) -> None:
        super().__init__(data, label_suffix="")
        self._flavors = {flavor.name: flavor for flavor in flavors}
        choices = [("", "All flavors"), *((name, name) for name in self._flavors)]
        self.fields["flavor"].choices = choices  # type: ignore[attr-defined]

    @override
    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        flavor = self._flavors.get(values.get("flavor", ""))
        kind = values.get("capacity") or ""
        if flavor is not None and kind and kind not in flavor.capacity:
            offered = " and ".join(sorted(flavor.capacity))
            self.add_error("capacity", f"{flavor.name} is offered as {offered} alone.")
        if values.get("gpus") and flavor is None and "flavor" not in self.errors:
            self.add_error("flavor", "Choose the flavor of which so many would have to fit.")
        if flavor is not None and flavor.sharing != Sharing.NONE.value and (values.get("gpus") or 0) > 1:
            self.add_error(
                "gpus", f"A pod has one {flavor.name}: several slices or shares do not add up to more."
            )
        return values

    @property
    def value(self) -> dict[str, Any]:
        """What is right of it."""
        return self.cleaned_data if self.is_bound and self.is_valid() else {}

    @property
    def flavor_asked(self) -> ResourceFlavor | None:
        return self._flavors.get(self.value.get("flavor", ""))

    def capacity_asked(self, flavor: ResourceFlavor) -> str:
        """The one that was chosen; else on-demand where it is offered."""
        kinds = sorted(flavor.capacity)
        usual = CapacityType.ON_DEMAND.value
        return self.value.get("capacity") or (usual if usual in kinds else kinds[0])


@dataclass(frozen=True)
class FitAnswer:
    """Where the pods would fit, in words. `verdict` is yes, partly or no."""

    verdict: str
    title: str
    why: str


def answer_of(placing: Placing, *, flavor: str, capacity: str, free: int, largest_free: int) -> FitAnswer:
    """Of what is `free` now, `largest_free` is the most that one node has."""
    size = f"{placing.units_each} {flavor}"
    asked = f"{placing.asked} pods of {size}" if placing.asked > 1 else size
    where = _where(placing)
    if placing.fitting == placing.asked:
        return FitAnswer("yes", f"{asked} ({capacity}) would fit now", where)
    why = {
        "node-size": f"No node can ever give {placing.units_each} to one pod: the largest has {placing.largest}."
        if placing.largest
        else "No node offers it, and none is declared to come.",
        "cards": "The cards that it is cut from are held by other flavors.",
        "units": f"{free} free, largest usable block {largest_free}.",
    }[placing.short_of]
    if placing.fitting:
        return FitAnswer(
            "partly", f"{placing.fitting} of {asked} ({capacity}) would fit now", f"{where} {why}"
        )
    return FitAnswer("no", f"{asked} ({capacity}) would not fit now", why)


def _where(placing: Placing) -> str:
    there = sorted(
        ((units, node) for node, units in placing.units.items() if not node.startswith(NEW_NODE)),
        key=lambda entry: (-entry[0], entry[1]),
    )
    named = [f"{node} ({units})" for units, node in there[:NAMED_MAX]]
    if len(there) > NAMED_MAX:
        named.append(f"{len(there) - NAMED_MAX} more nodes")
    if placing.new_nodes:
        named.append(
            f"{placing.new_nodes} new node{'s' if placing.new_nodes > 1 else ''} that would have to come"
        )
    return f"On {', '.join(named)}." if named else ""
