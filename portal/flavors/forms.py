"""The form of a flavor: what REST takes as JSON, as fields and rows. What REST would refuse is refused at its cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms
from typing_extensions import override
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation.digits import whole_number
from foundation.errors import PortalError
from foundation.http.problems import flatten
from portal.flavors.proposals import Proposal
from portal.flavors.rows import Row, RowColumn, RowsField
from workloads.catalogue import DECLARED_BESIDE, check_flavor
from workloads.models import CapacityType, ResourceFlavor
from workloads.serializers import FlavorWriteSerializer

KINDS = tuple((kind, kind) for kind in CapacityType.values)
LABELS = (
    RowColumn("key", "Label", example="nvidia.com/gpu.product"),
    RowColumn("values", "Values, with commas", example="Tesla-T4, NVIDIA-L4"),
    RowColumn("kind", "For", (("", "all"), *((kind, kind) for kind in CapacityType.values))),
)
TOLERATIONS = (
    RowColumn("key", "Taint", example="nvidia.com/gpu"),
    RowColumn("operator", "Operator", (("", "-"), ("Exists", "Exists"), ("Equal", "Equal"))),
    RowColumn("value", "Value"),
    RowColumn("effect", "Effect", (("", "any"), *((each, each) for each in ("NoSchedule", "PreferNoSchedule", "NoExecute")))),
    RowColumn("tolerationSeconds", "Seconds", digits=True),
)  # fmt: skip
OFFERED = (
    RowColumn("kind", "Capacity type", (("", "-"), *KINDS)),
    RowColumn("block", "Units a node", digits=True),
    RowColumn("units", "Units in all", digits=True),
    RowColumn("cpu", "Its CPU", example="90"),
    RowColumn("memory", "Its memory", example="1000Gi"),
    RowColumn("ephemeral_storage", "Its disk", example="500Gi"),
)
COUNTS = ("block", "units")


class FlavorForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    """A flavor, or what nodes propose of one. `values` are what the service takes."""

    gpu_fraction = forms.CharField(
        initial="1",
        max_length=20,
        label="Share of a card",
        widget=UnfoldAdminTextInputWidget,
        help_text="Exact: 1, or 1/7 for one of seven slices, 1/4 for one of four shares.",
    )
    labels = RowsField(
        columns=LABELS,
        one="Label",
        required=False,
        label="Labels of its nodes",
        help_text="A node needs all of them, each with one of the values.",
    )
    tolerations = RowsField(
        columns=TOLERATIONS,
        one="Toleration",
        required=False,
        label="Taints its pods tolerate",
        help_text="Seconds go with NoExecute. Pods on spot tolerate the taints by which clouds mark such nodes anyway.",
    )
    offered = RowsField(
        columns=OFFERED,
        one="Capacity type",
        label="Offered as",
        help_text="Numbers are for nodes that come from zero: what one new node brings, and how many units there may be in all. "
        "Leave them empty where all nodes are there. "
        "Quotas and prices are per capacity type.",
    )

    class Media:
        js = ("portal/admin-rows.js",)

    class Meta:
        model = ResourceFlavor
        fields = ["name", "card", "resource", "memory_gib", "sharing", "enabled"]
        labels = {"memory_gib": "GPU memory in GiB"}
        help_texts = {
            "name": "What people choose, such as a100-40gb. It stays.",
            "resource": "What pods ask for, as the device plugin calls it.",
            "memory_gib": "Of one unit.",
            "enabled": "Whether it can be asked for.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        if instance is not None and instance.pk:
            kwargs["initial"] = written(instance) | (kwargs.get("initial") or {})
        super().__init__(*args, **kwargs)

    @override
    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            self._check(cleaned)
        return cleaned

    def values(self) -> dict[str, Any]:
        """The flavor as the service takes it, but for its name."""
        rows = self.cleaned_data
        plain = ("card", "resource", "memory_gib", "sharing", "enabled", "gpu_fraction")
        return {
            **{name: rows[name] for name in plain},
            "node_selector": _selector(rows["labels"], ""),
            "tolerations": [_toleration(row) for row in rows["tolerations"]],
            "capacity": {row["kind"]: _declared(row, rows["labels"]) for row in rows["offered"]},
        }

    def _check(self, cleaned: Mapping[str, Any]) -> None:
        self._check_rows(cleaned["labels"], cleaned["offered"])
        if self.errors:
            return
        values = self.values() | {"name": cleaned.get("name") or self.instance.name}
        body = FlavorWriteSerializer(data=values)
        if not body.is_valid():
            for problem in flatten(body.errors):
                self._place(problem.field, problem.message)
            return
        try:
            check_flavor(**values)
        except PortalError as error:
            for problem in error.errors:
                self._place(problem.field, problem.message)

    def _check_rows(self, labels: Sequence[Row], offered: Sequence[Row]) -> None:
        """What is wrong with rows beside each other, which JSON would not let one write."""
        kinds = [row["kind"] for row in offered]
        for index, row in enumerate(offered):
            if not row["kind"]:
                self._fault("offered", index, "kind", "Choose a capacity type.")
            elif row["kind"] in kinds[:index]:
                self._fault("offered", index, "kind", "It stands above already.")
        told = [(row["kind"], row["key"]) for row in labels]
        for index, row in enumerate(labels):
            if not row["key"]:
                self._fault("labels", index, "key", "Which label?")
            elif not _values(row["values"]):
                self._fault("labels", index, "values", "Which values?")
            elif told[index] in told[:index]:
                self._fault("labels", index, "key", "It stands above already: list all its values there.")
            elif row["kind"] and row["kind"] not in kinds:
                self._fault("labels", index, "kind", f"It is not offered as {row['kind']} below.")

    def _place(self, field: str, message: str) -> None:
        """Put a problem of the body at the cell or field that it came from."""
        head, _, rest = field.partition(".")
        if head == "tolerations" and rest:
            index, _, column = rest.partition(".")
            self._fault("tolerations", int(index), column or "key", message)
        elif head == "node_selector":
            self._place_label("", rest, message)
        elif head == "capacity" and rest:
            kind, _, rest = rest.partition(".")
            section, _, rest = rest.partition(".")
            if section == "node_selector":
                self._place_label(kind, rest, message)
            else:
                kinds = [row["kind"] for row in self.cleaned_data["offered"]]
                column = rest if rest in {each.name for each in OFFERED} else "kind"
                self._fault("offered", kinds.index(kind), column, message)
        else:
            shown = {"capacity": "offered"}.get(head, head)
            self.add_error(shown if shown in self.fields else None, message)

    def _place_label(self, kind: str, path: str, message: str) -> None:
        """`path` is a label's key, which may hold dots, or that with the number of a value."""
        for index, row in enumerate(self.cleaned_data.get("labels", ())):
            if row["kind"] == kind and path in {
                row["key"],
                path_of := f"{row['key']}.{path.rpartition('.')[2]}",
            }:
                self._fault("labels", index, "values" if path == path_of else "key", message)
                return
        self.add_error("labels", message)

    def _fault(self, field: str, index: int, column: str, message: str) -> None:
        rows: Any = self.fields[field]
        rows.widget.faults[index, column] = message
        if field not in self.errors:
            self.add_error(field, f"{rows.widget.one} {index + 1} cannot stay as it is.")


def written(source: ResourceFlavor | Proposal) -> dict[str, Any]:
    """What stands in the fields for a flavor, or for one that nodes propose."""
    plain = ("name", "card", "resource", "memory_gib", "sharing")
    capacity: Iterable[tuple[str, Mapping[str, Any]]] = source.capacity.items()
    more = [row for kind, said in capacity for row in _label_rows(said.get("node_selector", {}), kind)]
    return {
        **{name: getattr(source, name) for name in plain},
        "gpu_fraction": str(source.gpu_fraction),
        "labels": [*_label_rows(source.node_selector, ""), *more],
        "tolerations": [{key: str(value) for key, value in each.items()} for each in source.tolerations],
        "offered": [{"kind": kind, **_texts(said.get("provisionable", {}))} for kind, said in source.capacity.items()],
    }  # fmt: skip


def _label_rows(selector: Mapping[str, Sequence[str]], kind: str) -> list[Row]:
    return [
        {"key": key, "values": ", ".join(value or '""' for value in values), "kind": kind}
        for key, values in selector.items()
    ]


def _texts(declared: Mapping[str, Any]) -> Row:
    return {name: str(value) for name, value in declared.items()}


def _selector(rows: Sequence[Row], kind: str) -> dict[str, list[str]]:
    """Of the rows of this capacity type, or of all."""
    return {row["key"]: _values(row["values"]) for row in rows if row["kind"] == kind}


def _values(text: str) -> list[str]:
    """Parted by commas. `""` is the empty value, which labels may have."""
    return [part.strip('"') for each in text.split(",") if (part := each.strip())]


def _toleration(row: Row) -> dict[str, Any]:
    """As Kubernetes writes it. Where no operator is chosen, a value is one to be equal to, and none is any."""
    told: dict[str, Any] = {name: text for name, text in row.items() if text}
    told.setdefault("operator", "Equal" if row["value"] else "Exists")
    if "tolerationSeconds" in told:
        told["tolerationSeconds"] = _number(row["tolerationSeconds"])
    return told


def _declared(row: Row, labels: Sequence[Row]) -> dict[str, Any]:
    declared: dict[str, Any] = {name: row[name] for name in DECLARED_BESIDE if row[name]}
    declared |= {name: _number(row[name]) for name in COUNTS if row[name]}
    selector = _selector(labels, row["kind"])
    return ({"node_selector": selector} if selector else {}) | (
        {"provisionable": declared} if declared else {}
    )


def _number(text: str) -> int | str:
    """The number, or the text as it is, which is then refused where it stands."""
    number = whole_number(text)
    return text if number is None else number
