"""A field of a form whose value is a list of rows, each of the same few cells: rows can be added and taken away.

A row is written as `<name>-<number>-<column>`. One whose cells are all empty is none, so without scripts a row is taken away by
emptying it, and the last row is always an empty one. `static/portal/admin-rows.js` adds the buttons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from typing_extensions import override
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

Row = Mapping[str, str]
ROWS_MAX = 50
_TEMPLATE = "__row__"


@dataclass(frozen=True)
class RowColumn:
    """A cell of each row: text, or one of `choices`, the first of which is the empty one."""

    name: str
    label: str
    choices: Sequence[tuple[str, str]] = ()
    example: str = ""
    digits: bool = False

    def widget(self) -> forms.Widget:
        """Of the theme, which frames what it knows."""
        attrs = {"placeholder": f"e.g. {self.example}" if self.example else "", "autocomplete": "off"}
        typed = attrs | ({"inputmode": "numeric"} if self.digits else {})
        made: forms.Widget = (
            UnfoldAdminSelectWidget(choices=self.choices)
            if self.choices
            else UnfoldAdminTextInputWidget(attrs=typed)
        )
        return made


@dataclass(frozen=True)
class RowCell:
    """What the component of a form's row shows of a field."""

    id_for_label: str
    label: str
    errors: tuple[str, ...]
    html: SafeString

    @property
    def auto_id(self) -> str:
        return self.id_for_label

    @override
    def __str__(self) -> str:
        return self.html


class RowsWidget(forms.Widget):
    def __init__(self, *, columns: Sequence[RowColumn], one: str) -> None:
        super().__init__()
        self.columns, self.one = columns, one
        self.faults: dict[tuple[int, str], str] = {}
        """What is wrong with a cell, by row and column."""

    @override
    def __deepcopy__(self, memo: dict[int, Any]) -> RowsWidget:
        """Each form has faults of its own."""
        return RowsWidget(columns=self.columns, one=self.one)

    @override
    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> list[dict[str, str]]:
        numbers = {
            int(found[1])
            for key in data
            if (found := re.fullmatch(rf"{re.escape(name)}-(\d{{1,6}})-\w+", key)) is not None
        }
        rows = [
            {column.name: str(data.get(f"{name}-{number}-{column.name}", "")).strip() for column in self.columns}
            for number in sorted(numbers)
        ]  # fmt: skip
        return [row for row in rows if any(row.values())]

    @override
    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return False

    @override
    def id_for_label(self, id_: str) -> str:
        """A group of fields has no single one that a label could mean."""
        return ""

    @override
    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rows: list[Row] = [*(value or ()), {}]
        context = {
            "one": self.one,
            "rows": [self._row(name, str(number), row) for number, row in enumerate(rows)],
            "blank": self._row(name, _TEMPLATE, {}),
        }
        return render_to_string("admin/flavors/rows.html", context)

    def _row(self, name: str, number: str, row: Row) -> dict[str, Any]:
        said = str(int(number) + 1) if number.isdigit() else ""
        return {"label": f"{self.one} {said}".strip(), "cells": [self._cell(name, number, each, row) for each in self.columns]}  # fmt: skip

    def _cell(self, name: str, number: str, column: RowColumn, row: Row) -> RowCell:
        full = f"id_{name}-{number}-{column.name}"
        fault = self.faults.get((int(number), column.name), "") if number.isdigit() else ""
        attrs = {"id": full}
        if fault:
            attrs |= {"aria-invalid": "true", "aria-describedby": f"{full}_error"}
        text = row.get(column.name, "")
        field = column.widget().render(f"{name}-{number}-{column.name}", text, attrs)
        return RowCell(full, column.label, (fault,) if fault else (), field)


class RowsField(forms.Field):
    """Gives the rows that are not empty, each with all its columns as text."""

    widget: RowsWidget

    def __init__(self, *, columns: Sequence[RowColumn], one: str, **values: Any) -> None:
        super().__init__(widget=RowsWidget(columns=columns, one=one), **values)

    @override
    def to_python(self, value: Any) -> list[Row]:
        rows: list[Row] = list(value or ())
        if len(rows) > ROWS_MAX:
            raise forms.ValidationError(f"There are more than {ROWS_MAX} rows.", code="too_many")
        return rows
