"""A change set that is being put together: edits of the grid, kept in the session until they are applied or dropped.

A cell is a team's quota of a flavor and capacity type. Every form that shows cells also sends what it showed, so that
a cell that was not touched is distinguished from one that another user has changed meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from django.http import HttpRequest

from foundation.errors import Malformed, PortalError, TooLarge
from foundation.http.parsers import loads
from foundation.number_words import limit_words, seconds_of
from quotas.models import Quota
from teams.models import Team
from workloads.models import ResourceFlavor

LIMITS: Final[Mapping[str, str]] = {
    "nominal": "Quota",
    "borrowing_limit": "Borrows at most",
    "lending_limit": "Lends at most",
    "user_limit": "One member at most",
    "max_time_limit_seconds": "Longest run",
}
"""What can be edited, and how people call it."""
SESSION_KEY: Final = "quota-draft"
EDITS_MAX: Final = 500
_TEXT_MAX: Final = 20
_KEY_MAX: Final = 200
_WHOLE: Final = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
WHOLE_WANTED: Final = "Write a whole number, 0 or more."
TIME_WANTED: Final = "Write it as 90m, 12h or 2d."


class Key(NamedTuple):
    """A cell; `text` is how forms name it."""

    team: str
    flavor: str
    capacity_type: str

    @property
    def text(self) -> str:
        return "~".join(self)

    @classmethod
    def of(cls, text: str) -> Self | None:
        parts = text.split("~")
        known = len(parts) == 3 and all(parts) and len(text) <= _KEY_MAX and text.isprintable()
        return cls(*parts) if known else None


def key_of(quota: Quota) -> Key:
    """The cell of a quota whose team and flavor are read."""
    return Key(quota.team.slug, quota.flavor.name, quota.capacity_type)


def texts_of(quota: Quota | None) -> dict[str, str]:
    """The limits of a quota as a form shows them; all empty where there is none."""
    return {name: text_of(name, getattr(quota, name, None)) for name in LIMITS}


def text_of(name: str, value: int | None) -> str:
    """One limit as a form shows it."""
    if name == "max_time_limit_seconds":
        return limit_words(value)
    return "" if value is None else str(value)


@dataclass(slots=True)
class Edit:
    """New texts of one cell's limits, and those that stood there when they were written."""

    key: Key
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def values(self) -> tuple[dict[str, int | None], dict[str, str]]:
        """What the texts mean, and what is wrong with those that mean nothing, by limit."""
        values: dict[str, int | None] = {}
        wrong: dict[str, str] = {}
        for name, text in self.after.items():
            try:
                values[name] = _value(name, text)
            except ValueError as error:
                wrong[name] = str(error)
        return values, wrong


def _value(name: str, text: str) -> int | None:
    if name == "max_time_limit_seconds":
        seconds = seconds_of(text)
        if isinstance(seconds, str):
            raise ValueError(TIME_WANTED)
        return seconds
    if not text and name == "nominal":
        raise ValueError("A quota is a number; write 0 for none.")
    if not text:
        return None
    if not _WHOLE.match(text):
        raise ValueError(WHOLE_WANTED)
    return int(text)


class Draft:
    """The change set of one session. Reading it writes nothing."""

    def __init__(self, request: HttpRequest) -> None:
        self._session = request.session
        kept = request.session.get(SESSION_KEY) or {}
        self.edits: dict[Key, Edit] = {}
        for text, limits in dict(kept.get("edits", {})).items():
            key = Key.of(text)
            if key is not None:
                before = {name: pair[0] for name, pair in limits.items()}
                after = {name: pair[1] for name, pair in limits.items()}
                self.edits[key] = Edit(key, before, after)
        self.evicts = bool(kept.get("evicts"))
        self.reason = str(kept.get("reason", ""))

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __len__(self) -> int:
        """How many limits are changed."""
        return sum(len(edit.after) for edit in self.edits.values())

    def __iter__(self) -> Iterator[Edit]:
        return iter(sorted(self.edits.values(), key=lambda edit: edit.key))

    @property
    def teams(self) -> int:
        return len({key.team for key in self.edits})

    def collect(self, posted: Mapping[str, Any]) -> None:
        """Take what a form with cells sent: what differs from what it showed is an edit, the rest is none."""
        for key, shown in _shown(str(posted.get("shown", ""))).items():
            for name, before in shown.items():
                text = posted.get(f"{name}~{key.text}")
                if text is not None:
                    self.put(key, name, before=before, after=str(text).strip()[:_TEXT_MAX])

    def put(self, key: Key, name: str, *, before: str, after: str) -> None:
        """One limit of one cell; no edit any more where it is what it was."""
        edit = self.edits.get(key) or Edit(key)
        if _same(name, before, after):
            edit.before.pop(name, None)
            edit.after.pop(name, None)
        elif len(self) < EDITS_MAX or name in edit.after:
            edit.before[name], edit.after[name] = before, after
        if edit.after:
            self.edits[key] = edit
        else:
            self.edits.pop(key, None)

    def drop(self, text: str) -> None:
        """Forget a cell's edits."""
        key = Key.of(text)
        if key is not None:
            self.edits.pop(key, None)

    def save(self) -> None:
        """Keep it in the session; an empty one leaves nothing there."""
        if not self.edits:
            self._session.pop(SESSION_KEY, None)
            return
        self._session[SESSION_KEY] = {
            "edits": {
                edit.key.text: {name: [edit.before[name], text] for name, text in edit.after.items()}
                for edit in self
            },
            "evicts": self.evicts,
            "reason": self.reason,
        }

    def clear(self) -> None:
        self.edits.clear()
        self.save()


def _shown(text: str) -> dict[Key, dict[str, str]]:
    """What the cells of a form showed, as it says; empty where that cannot be read."""
    try:
        cells = loads(text.encode("utf-8", "surrogatepass"))
    except (Malformed, TooLarge):
        return {}
    shown: dict[Key, dict[str, str]] = {}
    for name, limits in cells.items() if isinstance(cells, dict) else ():
        key = Key.of(name)
        if key is not None and isinstance(limits, dict):
            shown[key] = {limit: str(value)[:_TEXT_MAX] for limit, value in limits.items() if limit in LIMITS}
    return shown


def _same(name: str, before: str, after: str) -> bool:
    try:
        return _value(name, before) == _value(name, after)
    except ValueError:
        return before == after


@dataclass(slots=True)
class DraftRow:
    """An edit with what there is now. `errors` by limit; "" for the cell as a whole."""

    edit: Edit
    team: Team | None
    flavor: ResourceFlavor | None
    quota: Quota | None
    values: dict[str, int | None]
    errors: dict[str, str]

    @property
    def key(self) -> Key:
        return self.edit.key

    @property
    def now(self) -> dict[str, str]:
        return texts_of(self.quota)

    @property
    def lines(self) -> list[DraftedLimit]:
        """The changed limits, in the order in which the grid shows them."""
        now = self.now
        return [
            DraftedLimit(
                name=name,
                label=label,
                before=now[name],
                after=self.edit.after[name],
                error=self.errors.get(name, ""),
                field=f"{name}~{self.key.text}",
            )
            for name, label in LIMITS.items()
            if name in self.edit.after
        ]


class DraftedLimit(NamedTuple):
    name: str
    label: str
    before: str
    after: str
    error: str
    field: str


def rows_of(draft: Draft) -> list[DraftRow]:
    """The edits beside what there is now, in three queries, each with what is wrong with it."""
    keys = list(draft.edits)
    teams = {team.slug: team for team in Team.objects.filter(slug__in={key.team for key in keys})}
    flavors = {
        flavor.name: flavor for flavor in ResourceFlavor.objects.filter(name__in={key.flavor for key in keys})
    }
    held = Quota.objects.filter(team__slug__in=teams, flavor__name__in=flavors).select_related(
        "team", "flavor"
    )
    quotas = {key_of(quota): quota for quota in held} if keys else {}
    return [
        _row(edit, teams.get(edit.key.team), flavors.get(edit.key.flavor), quotas.get(edit.key))
        for edit in draft
    ]


def _row(edit: Edit, team: Team | None, flavor: ResourceFlavor | None, quota: Quota | None) -> DraftRow:
    values, errors = edit.values()
    if team is None:
        errors[""] = "There is no such team any more."
    elif flavor is None or edit.key.capacity_type not in flavor.capacity:
        errors[""] = "There is no such flavor with this capacity type any more."
    elif quota is None and "nominal" not in edit.after:
        errors[""] = "The team has no quota of it yet: write one first."
    now = texts_of(quota)
    for name, before in edit.before.items():
        if not _same(name, before, now[name]):
            errors.setdefault(
                name, f"Somebody has changed it to {now[name] or 'none'} meanwhile; check it again."
            )
    return DraftRow(edit=edit, team=team, flavor=flavor, quota=quota, values=values, errors=errors)


def shown_json(cells: Iterable[tuple[Key, Mapping[str, str]]]) -> str:
    """What a form's cells show, for `Draft.collect` to compare with."""
    return json.dumps({key.text: dict(texts) for key, texts in cells}, separators=(",", ":"))


def place_errors(rows: list[DraftRow], error: PortalError) -> str:
    """Put the messages of a service at the cells that they are about; the sentence that belongs to no cell."""
    rest = []
    for problem in error.errors:
        place = re.match(r"changes[.\[](\d{1,6})", problem.field)
        index = int(place[1]) if place else -1
        name = problem.field.rpartition(".")[2]
        if 0 <= index < len(rows):
            rows[index].errors[name if name in rows[index].edit.after else ""] = problem.message
        elif len(rows) == 1 and name in rows[0].edit.after:
            rows[0].errors[name] = problem.message
        else:
            rest.append(problem.message)
    if not error.errors:
        rest.append(error.message)
    return " ".join(rest)
