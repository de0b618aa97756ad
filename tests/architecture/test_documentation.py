"""Links resolve, and no text tells of the machine it was written on."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from gateway.live.table import Ages
from tests.architecture.sources import PACKAGES, ROOT, markdown, tracked_texts

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ADR_PARTS = ("Status", "Context", "Decision", "Consequences")

# What must not stand in a file, and the files in which it has a reason to.
TELLTALES = {
    "a home folder": (r"(?:/root|/home/(?!portal\b)[a-z]\w*|/Users/\w+)/", ()),
    "the folder of this checkout": (re.escape(f"{ROOT}/"), ()),
    # The commands of continuous integration start a real control plane where that folder happens to exist.
    "a folder outside the repository": (r"\.\./shared", (".ci/run",)),
    "a package index": (r"(?i)(?:extra-)?index-url|\bartifactory\b|\bdevpi\b|/simple/", ("Makefile",)),
}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_every_link_of_the_documentation_leads_somewhere():
    pages = markdown()
    broken = []
    for name, text in pages.items():
        for link in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (ROOT / name).parent / path if path else ROOT / name
            if not target.exists() or (
                anchor and anchor not in map(_anchor, HEADING.findall(target.read_text(encoding="utf-8")))
            ):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_page_is_linked_from_somewhere():
    pages = markdown()
    linked = {
        ((ROOT / name).parent / link.partition("#")[0]).resolve()
        for name, text in pages.items()
        for link in LINK.findall(text)
    }
    own = [name for name in pages if name.startswith("docs/")]
    assert [name for name in own if name != "docs/README.md" and (ROOT / name).resolve() not in linked] == []


def test_every_decision_has_its_four_parts():
    for name, text in markdown().items():
        if name.startswith("docs/adr/0"):
            assert tuple(HEADING.findall(text)[1:]) == ADR_PARTS, name
            assert len(text.splitlines()) <= 40, name


def test_the_age_of_a_token_check_is_told_in_one_way():
    asked_again = f"after {Ages().fresh:g} seconds at most"
    away = f"for {Ages().stale / 60:g} minutes"
    for name in ("SECURITY.md", "docs/explanation/security.md", "docs/how-to/call-an-endpoint.md"):
        text = " ".join(markdown()[name].split())
        assert asked_again in text, name
        assert away in text, name


def test_code_names_only_pages_that_exist():
    named = {
        (name, page)
        for name, text in tracked_texts()
        if name.endswith((".py", ".yaml", ".yml", ".toml"))
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text)
    }
    assert sorted((name, page) for name, page in named if not (ROOT / page).is_file()) == []


def test_documentation_names_only_files_that_exist():
    inside = re.compile(rf"`((?:{'|'.join(PACKAGES)}|tests|benchmarks)/[\w/]+\.py)`")
    named = {
        (name, path)
        for name, text in markdown().items()
        if name != "CHANGELOG.md"
        for path in inside.findall(text)
    }
    assert len(named) > 10
    # The recipe for a new kind names files of an app that does not exist.
    assert sorted((name, path) for name, path in named if not (ROOT / path).is_file()) == []


@pytest.mark.parametrize("what", TELLTALES)
def test_no_file_holds(what):
    pattern, allowed = TELLTALES[what]
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked_texts()
        if name not in allowed and name != "tests/architecture/test_documentation.py"
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == []
