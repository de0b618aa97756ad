"""Where a fault can be planted in a template: a condition that always holds, a value that is not escaped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.mutants.sites import Site

CONDITION = re.compile(r"\{%-?\s*if\s+(?P<before>.+?)\s*%\}")
VALUE = re.compile(r"\{\{\s*(?P<before>.+?)\s*\}\}")
COMMENT = re.compile(r"\{#.*?#\}|\{%\s*comment\s*%\}.*?\{%\s*endcomment\s*%\}", re.DOTALL)


def template_sites(name: str, source: str) -> list[Site]:
    """All faults that can be planted in this template, from its first line to its last.

    A site is found again by the template's file name, which it keeps when it moves to another folder.
    """
    seen: Counter[tuple[str, str, str, str]] = Counter()
    found = []
    for number, line in enumerate(_without_comments(source).splitlines(), 1):
        for kind, before, after, column in sorted(_faults(line), key=lambda fault: fault[3]):
            start = len(line[:column].encode())
            span = (number, start), (number, start + len(before.encode()))
            key = (name, kind, before, after)
            found.append(Site(*key, seen[key], span, range(number, number + 1)))
            seen[key] += 1
    return found


def _without_comments(source: str) -> str:
    """The same text with comments blanked out, so that lines and columns stay."""
    return COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), source)


def _faults(line: str) -> Iterator[tuple[str, str, str, int]]:
    for match in CONDITION.finditer(line):
        yield "removed if", match["before"], "True", match.start("before")
    for match in VALUE.finditer(line):
        if not match["before"].endswith("|safe"):
            yield "unescaped value", match["before"], f"{match['before']}|safe", match.start("before")
