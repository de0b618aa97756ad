"""Examples of answers in the OpenAPI document: what a portal answered, with the same ids and times each time.

`pytest tests/api/test_answer_examples.py --write-answers` writes them anew, when answers have got or lost fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from foundation.http.examples import answers_of, examples_of
from tests.api.every_operation import BY_A_POD, BY_THE_CLUSTER, Vision
from tests.openapi import operations

BODIES = examples_of(settings.OPENAPI_REQUEST_EXAMPLES)
FILE = settings.OPENAPI_ANSWER_EXAMPLES
WHERE = f"pytest tests/api/test_answer_examples.py --write-answers writes {FILE.name}"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# What is drawn anew each time, and where this portal happens to be.
DRAWN = (
    (re.compile(r"\b(ml[pre])_[A-Za-z0-9_-]{8,}"), r"\1_example"),
    (re.compile(r"\b(whsec)_[A-Za-z0-9+/=]{8,}"), r"\1_example"),
    (re.compile(r"\b(mnist|resnet18|resnet50|digits)-[0-9a-f]{8}\b"), r"\1-0a1b2c3d"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0" * 64),
    (re.compile(r"http://(?:testserver|localhost:\d+)"), "https://portal.example.org"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "https://live.example.org"),
)

pytestmark = pytest.mark.django_db


def in_json() -> list[str]:
    """The operations whose success is JSON, and which the portal answers by itself."""
    return [
        name
        for name, (_, _, operation) in operations().items()
        if name not in BY_THE_CLUSTER | BY_A_POD
        and any("application/json" in answer.get("content", {}) for answer in successes(operation).values())
    ]


def successes(operation: Mapping[str, Any]) -> dict[str, Any]:
    return {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}


def steady(text: str) -> str:
    """The text with ids in the order of their appearance, without credentials, at hosts that are nobody's."""
    ids: dict[str, str] = {}
    text = UUID.sub(
        lambda found: ids.setdefault(found[0], f"01990000-0000-7000-8000-{len(ids) + 1:012d}"), text
    )
    for drawn, shown in DRAWN:
        text = drawn.sub(shown, text)
    return text


def fresh(vision: Vision) -> dict[str, Any]:
    found = {}
    for name in in_json():
        with transaction.atomic():
            query = "?format=json" if name.endswith("_logs_retrieve") else ""
            response = vision.send(name, next(iter(BODIES.get(name, {}).values()), None), query=query)
            assert 200 <= response.status_code < 300, (name, response.content)
            found[name] = json.loads(steady(response.content.decode()))
            transaction.set_rollback(True)
    return found


def shape(value: Any) -> Any:
    """Which fields there are, however deep; not what they say."""
    if isinstance(value, Mapping):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return None


@pytest.mark.matrix
def test_every_answer_in_json_has_an_example_that_has_the_fields_of_today(vision, request):
    now = fresh(vision)
    if request.config.getoption("--write-answers"):
        lines = ",\n".join(
            f" {json.dumps(name)}: {json.dumps(answer)}" for name, answer in sorted(now.items())
        )
        FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        answers_of.cache_clear()
    kept = answers_of(FILE)
    assert sorted(kept) == sorted(now), WHERE
    assert {name for name in now if shape(kept[name]) != shape(now[name])} == set(), WHERE


def test_an_example_holds_nothing_that_is_drawn_anew():
    text = FILE.read_text(encoding="utf-8")
    assert steady(text).count("_example") == text.count("_example")
    assert "testserver" not in text


def test_the_document_shows_them():
    for name, answer in answers_of(FILE).items():
        shown = [each["content"]["application/json"] for each in successes(operations()[name][2]).values()]
        assert [content["examples"]["Answer"]["value"] for content in shown] == [answer], name
