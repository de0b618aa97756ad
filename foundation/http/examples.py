"""drf-spectacular hook: examples of request bodies and of answers, from the files that the settings name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

Examples = Mapping[str, Mapping[str, Any]]


class _Loader(yaml.SafeLoader):
    """Times stay the texts that JSON has."""


_LOADED_AS_TEXT = "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _LOADED_AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@cache
def examples_of(path: Path) -> Examples:
    """Bodies by the id of their operation and by their titles."""
    loaded: Examples = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a safe loader
    return loaded


@cache
def answers_of(path: Path) -> Mapping[str, Any]:
    """Answers by the id of their operation."""
    answers: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return answers


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:  # noqa: FBT001
    """POSTPROCESSING_HOOK: the examples of every operation, of its body and of its answer."""
    del generator, request, public
    examples = examples_of(settings.OPENAPI_REQUEST_EXAMPLES)
    answers = answers_of(settings.OPENAPI_ANSWER_EXAMPLES)
    for operations in result.get("paths", {}).values():
        for operation in operations.values():
            bodies = examples.get(operation["operationId"], {})
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if bodies:
                    content["examples"] = {title: {"value": body} for title, body in bodies.items()}
            if operation["operationId"] in answers:
                _add_answer(operation, answers[operation["operationId"]])
    return result


def _add_answer(operation: Mapping[str, Any], answer: Any) -> None:
    for status, response in operation["responses"].items():
        if status.startswith("2") and "application/json" in response.get("content", {}):
            response["content"]["application/json"]["examples"] = {"Answer": {"value": answer}}
