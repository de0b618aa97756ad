"""Quotas as a CSV file, and a file back into the change set: nothing is changed before that is applied."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from console.pages.detail import see_other
from foundation import clock
from foundation.http.csv_files import csv_file
from pages.quotas.draft import EDITS_MAX, LIMITS, Draft, Key, key_of, texts_of
from pages.quotas.pages import ManagersOnly
from quotas.models import Quota
from teams.models import Team
from workloads.models import ResourceFlavor

PLACE: Final = ("team", "flavor", "capacity_type")
COLUMNS: Final = (*PLACE, *LIMITS)
USED: Final = "used"
"""Written beside the limits, and passed over where a file is read."""
BYTES_MAX: Final = 1024 * 1024
_TEXT_MAX: Final = 20


class BadFile(ValueError):
    """The sentence that says what is wrong, and in which line."""


class QuotaExport(ManagersOnly):
    """GET is the file: a line for each quota that there is."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        quotas = Quota.objects.select_related("team", "flavor").order_by(
            "team__slug", "flavor__name", "capacity_type"
        )
        lines = ([*key_of(quota), *texts_of(quota).values(), quota.used] for quota in quotas.iterator())
        return csv_file((*COLUMNS, USED), lines, filename=f"quotas-{clock.now():%Y-%m-%d}.csv")


class QuotaImport(ManagersOnly):
    """POST takes such a file: what differs from what there is joins the change set, which is then shown."""

    tab = "grid"

    def post(self, request: HttpRequest) -> HttpResponse:
        draft = Draft(request)
        try:
            edits = _edits(_sent(request))
            _put(draft, edits)
        except BadFile as error:
            messages.error(request, str(error))
            return see_other(f"{reverse('portal:quota-console')}#file")
        if not edits:
            messages.info(request, "The file says what there is already.")
            return see_other(f"{reverse('portal:quota-console')}#file")
        draft.save()
        messages.info(
            request,
            f"{len(edits)} limit{'s differ' if len(edits) != 1 else ' differs'}. Nothing is changed before you apply it.",
        )
        return see_other(reverse("portal:quota-draft"))


def _sent(request: HttpRequest) -> bytes:
    sent = request.FILES.get("file")
    if sent is None:
        raise BadFile("Choose a CSV file.")
    if (sent.size or 0) > BYTES_MAX:
        raise BadFile("The file is larger than 1 MiB.")
    return bytes(sent.read())


def _put(draft: Draft, edits: list[tuple[Key, str, str, str]]) -> None:
    for key, name, before, after in edits:
        draft.put(key, name, before=before, after=after)
        if len(draft) >= EDITS_MAX:
            raise BadFile(f"A change set has at most {EDITS_MAX} changes; send the file in parts.")


def _edits(content: bytes) -> list[tuple[Key, str, str, str]]:
    """What the file would change: cell, limit, as it stands, as it is to be. An empty field says no limit."""
    rows = list(_rows(content))
    quotas = {key_of(quota): quota for quota in Quota.objects.select_related("team", "flavor")}
    teams = set(Team.objects.values_list("slug", flat=True))
    flavors = {flavor.name: set(flavor.capacity) for flavor in ResourceFlavor.objects.all()}
    edits, seen = [], set()
    for line, row in rows:
        key = Key(*(row[name] for name in PLACE))
        if key.team not in teams:
            raise BadFile(f"Line {line}, team: there is no team {key.team!r}.")
        if key.capacity_type not in flavors.get(key.flavor, ()):
            raise BadFile(
                f"Line {line}, flavor: there is no {key.flavor!r} of capacity type {key.capacity_type!r}."
            )
        if key in seen:
            raise BadFile(f"Line {line}: {', '.join(key)} stands in the file twice.")
        seen.add(key)
        now = texts_of(quotas.get(key))
        edits += [
            (key, name, now[name], row[name]) for name in LIMITS if name in row and row[name] != now[name]
        ]
    return edits


def _rows(content: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("The file is no text in UTF-8.") from None
    if "\x00" in text:
        raise BadFile("The file is no text.")
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        _check_columns(names)
        reader.fieldnames = names
        for row in reader:
            yield reader.line_num, _texts(row, reader.line_num)
    except csv.Error as error:
        raise BadFile(f"Line {reader.line_num}: {error}.") from None


def _check_columns(names: list[str]) -> None:
    missing = [name for name in (*PLACE, "nominal") if name not in names]
    unknown = [name for name in names if name not in (*COLUMNS, USED)]
    if missing:
        raise BadFile(f"Line 1: the column {missing[0]} is missing.")
    if unknown:
        raise BadFile(f"Line 1: there is no column {unknown[0][:40]!r}. Columns are {', '.join(COLUMNS)}.")
    if len(set(names)) < len(names):
        raise BadFile("Line 1: a column stands there twice.")


def _texts(row: dict[Any, Any], line: int) -> dict[str, str]:
    if None in row or None in row.values():
        raise BadFile(f"Line {line} has not as many fields as there are columns.")
    texts = {name: str(value).strip() for name, value in row.items()}
    for name in LIMITS:
        if len(texts.get(name, "")) > _TEXT_MAX:
            raise BadFile(f"Line {line}, {name}: {texts[name][:40]!r} is too long.")
    return texts
