"""Filters of the lists in the admin console: from when until when, and by whom.

They are typed into, so that a list of all names there ever were costs no read of all rows. A page that has one says
`list_filter_submit = True`: the theme then puts its filters into one form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override

from foundation import clock
from teams.models import User

SPANS = (("today", 0), ("7 days", 6), ("30 days", 29), ("90 days", 89))
"""Words for spans that end today, and how many days earlier they begin."""
NAMES_MAX = 200


class TimeFilter(admin.FieldListFilter):
    """From one day to another, both included, in UTC."""

    template = "admin/filters/time.html"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.field_path == "at":
            self.title = "time"

    @override
    def expected_parameters(self) -> list[str | None]:
        return [f"{_called(self.field_path)}_from", f"{_called(self.field_path)}_to"]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        try:
            since, until = (_day(self._typed(name)) for name in self.expected_parameters())
        except ValueError:
            return queryset.none()
        if since is not None:
            queryset = queryset.filter(**{f"{self.field_path}__gte": _midnight(since)})
        if until is not None:
            queryset = queryset.filter(**{f"{self.field_path}__lt": _midnight(until) + timedelta(days=1)})
        return queryset

    @override
    def choices(self, changelist: Any) -> Iterator[Any]:
        """The two fields, and links to spans that end today."""
        names, today = self.expected_parameters(), clock.now().astimezone(UTC).date()
        fields = [
            {"name": name, "label": label, "value": self._typed(name), "fault": _fault(self._typed(name))}
            for name, label in zip(names, ("From", "To"), strict=True)
        ]
        typed = [self._typed(name) for name in names]
        spans = []
        for words, days in SPANS:
            begins = (today - timedelta(days=days)).isoformat()
            query = changelist.get_query_string({names[0]: begins}, [names[1]])
            spans.append({"words": words, "query": query, "chosen": typed == [begins, ""]})
        yield {"fields": fields, "spans": spans}

    def _typed(self, name: str | None) -> str:
        return _last(self.used_parameters.get(name or ""))


class NameFilter(admin.FieldListFilter):
    """Rows whose field is exactly what is typed."""

    template = "admin/filters/name.html"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Of the user behind a key, `requested by` and not `username`.
        named = re.sub(r"(__username|_label|__?slug)$", "", self.field_path)
        self.title = named.rpartition("__")[2].replace("_", " ")

    @override
    def expected_parameters(self) -> list[str | None]:
        return [f"{_called(self.field_path)}_is"]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        typed = self._typed()
        return queryset.filter(**{self.field_path: typed}) if typed else queryset

    @override
    def choices(self, changelist: Any) -> Iterator[Any]:
        yield {"name": self.expected_parameters()[0], "value": self._typed(), "names": self.names()}

    def names(self) -> list[str]:
        """What is offered as one types; anything else may be typed as well."""
        return []

    def _typed(self) -> str:
        return _last(self.used_parameters.get(f"{_called(self.field_path)}_is"))


class ActorFilter(NameFilter):
    """By whom. Names of people are offered; tokens and processes have names of their own, as the column shows them."""

    @override
    def names(self) -> list[str]:
        return list(User.objects.order_by("username").values_list("username", flat=True)[:NAMES_MAX])


def _called(path: str) -> str:
    """In an address: Django takes what has two underlines for a lookup of its own, and refuses it where it is long."""
    return path.replace("__", ".")


def _last(value: Any) -> str:
    """Of a parameter that may stand there several times."""
    return str(value[-1] if isinstance(value, (list, tuple)) and value else value or "").strip()


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _fault(text: str) -> str:
    try:
        _day(text)
    except ValueError:
        return "Write a day such as 2026-03-01."
    return ""
