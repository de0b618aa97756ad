"""Search conditions: words of names, labels, an id. Every condition here has its own index."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.search import SearchQueryField, SearchVectorField
from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.functions import Cast

WORDS_MAX: Final = 8
SEARCH_LENGTH_MAX: Final = 100
LABEL_LENGTH_MAX: Final = 400
TEAMS_MAX: Final = 50
"""With more teams a search reads the words of all: a user in so many teams sees most of what it finds."""
_SEARCH: Final = re.compile(r"[a-z0-9]+(?:[ -]+[a-z0-9]+)*")
_PREFIX: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_WORD: Final = re.compile(r"[a-z0-9]+")
SEARCH_WORDS: Final = "Beginnings of words of the name, which dashes part, in any order; or a whole id."
PREFIX_WORDS: Final = "The beginning of the name, such as `sweep-7-`."
LABEL_WORDS: Final = "`key=value`, or `key` whatever its value; several have all to be there."


def parse_search(raw: str) -> tuple[str, ...] | UUID:
    """What is searched for. Raises ValueError with the sentence for people."""
    text = raw.strip().lower()
    if len(text) > SEARCH_LENGTH_MAX:
        raise ValueError(f"has at most {SEARCH_LENGTH_MAX} characters.")
    try:
        return UUID(text)
    except ValueError:
        pass
    if _SEARCH.fullmatch(text.strip(" -")) is None:
        raise ValueError("takes letters, digits, spaces and dashes, as names have them.")
    words = tuple(dict.fromkeys(_WORD.findall(text)))
    if len(words) > WORDS_MAX:
        raise ValueError(f"has at most {WORDS_MAX} words.")
    return words


def parse_prefix(raw: str) -> str:
    """The beginning of a name. Raises ValueError with the sentence for people."""
    if not _PREFIX.fullmatch(raw):
        raise ValueError("takes the beginning of a name: lower-case letters, digits and dashes.")
    return raw


def beginning(prefix: str, *, teams: Collection[int] | None = None) -> Q:
    """Workloads whose name begins so; `teams` as of `matching`, whose index is read."""
    words = tuple(dict.fromkeys(_WORD.findall(prefix)))[:WORDS_MAX]
    return matching(words, teams=teams) & Q(name__startswith=prefix)


def _words_of_team() -> Func:
    """The words of a row, each with its team as a prefix: PostgreSQL's statistics then know how rare it is in that team."""
    return Func(F("team"), F("words"), function="workloads_words_of_team", output_field=SearchVectorField())


def matching(wanted: tuple[str, ...] | UUID, *, teams: Collection[int] | None = None) -> Q:
    """Workloads in whose name each of the words begins a word, or the one with that id.

    `teams` are those whose workloads can be shown at all, None for all: with words, no rows of other teams are read.
    It grants no right to see them: the rows to which this is applied are those that the user may see.
    """
    if isinstance(wanted, UUID):
        return Q(public_id=wanted)
    if teams is None or len(teams) > TEAMS_MAX:
        return _has(F("words"), _all_of(wanted))
    return _has(_words_of_team(), " | ".join(_all_of(wanted, f"{team}:") for team in teams))


def _all_of(words: Sequence[str], prefix: str = "") -> str:
    """Words are letters and digits alone: nothing in them is an operator."""
    terms = " & ".join(f"'{prefix}{word}'" for word in words)
    return f"({terms})"


def _has(words: F | Func, query: str) -> Q:
    condition: Any = Func(
        words,
        Cast(Value(query), SearchQueryField()),
        template="(%(expressions)s)",
        arg_joiner=" @@ ",
        output_field=BooleanField(),
    )
    return Q(condition)


def parse_label(raw: str) -> tuple[str, str | None]:
    """Key and value of a label that is asked for, None for any value. Raises ValueError."""
    key, separator, value = raw.strip().partition("=")
    if not key:
        raise ValueError("must be key=value, or key alone.")
    if len(raw) > LABEL_LENGTH_MAX:
        raise ValueError(f"has at most {LABEL_LENGTH_MAX} characters.")
    return key, value if separator else None


def labelled(labels: Sequence[tuple[str, str | None]]) -> Q:
    """Workloads that have all of these labels."""
    wanted = Q()
    for key, value in labels:
        wanted &= Q(labels__has_key=key) if value is None else Q(labels__contains={key: value})
    return wanted
