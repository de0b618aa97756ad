"""Pages and the glossary agree, and templates leave the writing of numbers and times to the filters that all share."""

from __future__ import annotations

import re

import pytest

from foundation.glossary import WORDS
from tests.architecture.sources import ROOT
from tests.architecture.test_templates import COMMANDS, pages

GLOSS = re.compile(r'\{% gloss "([^"]+)"')
FILTERS = re.compile(
    r"\|\s*(date|time|timesince|timeuntil|floatformat|filesizeformat|stringformat|intcomma|naturaltime)\b"
)
TAG = re.compile(r"<[^>]*>", re.DOTALL)
LOG = "Lines of logs have their own times, which their reader switches."
EXCEPTIONS = {"console/log_lines.html": LOG, "console/panel_logs.html": LOG}


def read(source: str) -> str:
    """What a reader reads of a template, without what its own tags say."""
    return TAG.sub(" ", COMMANDS.sub(" ", source))


def own_formats(source: str) -> list[str]:
    """The filters by which a template writes numbers or times in a way of its own."""
    return [name for command in COMMANDS.findall(source) for name in FILTERS.findall(command)]


def test_every_word_that_a_page_glosses_is_in_the_glossary():
    glossed = {word for source in pages().values() for word in GLOSS.findall(source)}
    assert glossed <= WORDS.keys()
    assert {"cohort", "flavor", "fence", "receipt"} <= glossed


def test_pages_say_in_other_words_what_the_glossary_keeps_from_them():
    kept = [word for word, each in WORDS.items() if each.instead]
    found = {
        f"{name}: {word}"
        for name, source in pages().items()
        for word in kept
        if re.search(rf"\b{word}\b", read(source), re.IGNORECASE)
    }
    assert len(kept) > 2
    assert found == set()


def test_a_gloss_goes_on_in_its_sentence_and_a_meaning_is_one():
    for word, each in WORDS.items():
        assert each.gloss[-1] not in ".,;", word
        assert each.meaning[0].isupper() or each.meaning[0] == "`", word
        assert each.meaning[-1] == ".", word


def test_no_template_writes_numbers_or_times_in_a_way_of_its_own():
    found = {name: own_formats(source) for name, source in pages().items() if name not in EXCEPTIONS}
    assert {name: formats for name, formats in found.items() if formats} == {}


def test_the_glossary_is_linked_from_the_documentation():
    assert "(reference/words.md)" in (ROOT / "docs/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "formats"),
    [
        ('{{ at|date:"H:i" }}', ["date"]),
        ("{{ number|floatformat:2 }} %", ["floatformat"]),
        ("{{ number|default:0|intcomma }}", ["intcomma"]),
        ("{{ at|at }} {{ size|gib }}", []),
        ('<input type="date" value="{{ day|utc_day }}">', []),
    ],
)
def test_a_format_of_its_own_is_noticed(source, formats):
    assert own_formats(source) == formats
