"""A plugin of pytest that notes every request to REST and its answer: `--rest-coverage=FILE` writes them at the end."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

OPTION = "--rest-coverage"
PREFIX = "/api/v1/"
HEADERS = ("Idempotency-Key", "If-Match", "If-None-Match")
KINDS = ("statuses", "parameters", "request_headers", "answer_headers", "codes")
Seen = dict[str, set[str]]
"""What was seen of one operation, by kind: `404`, `limit`, `If-Match`, `200 ETag`, `422 name_taken`."""


class Recorder:
    def __init__(self) -> None:
        self.seen: dict[str, Seen] = defaultdict(lambda: {kind: set() for kind in KINDS})

    def note(self, request: Any, response: Any) -> None:
        path = path_of(request)
        if path is None:
            return
        seen, status = self.seen[f"{request.method} {path}"], response.status_code
        seen["statuses"].add(f"{status}")
        seen["parameters"].update(request.GET)
        seen["request_headers"].update(name for name in HEADERS if name in request.headers)
        seen["answer_headers"].update(f"{status} {name}" for name in response.headers)
        seen["codes"].update(f"{status} {code}" for code in codes_of(response))

    def add(self, other: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
        for operation, seen in other.items():
            for kind, values in seen.items():
                self.seen[operation][kind].update(values)

    def plain(self) -> dict[str, dict[str, list[str]]]:
        return {
            operation: {kind: sorted(values) for kind, values in seen.items()}
            for operation, seen in sorted(self.seen.items())
        }


def path_of(request: Any) -> str | None:
    """The path as the OpenAPI document writes it; None of what is no route of REST."""
    match = request.resolver_match
    if match is None:
        # Middleware answered before anything was resolved.
        from django.urls import Resolver404, resolve

        try:
            match = resolve(request.path_info)
        except Resolver404:
            return None
    path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", match.route)
    return path if path.startswith(PREFIX) and match.func.__name__ != "api_not_found" else None


def codes_of(response: Any) -> set[str]:
    """The codes of a problem document, its own and those of its fields."""
    if response.headers.get("Content-Type") != "application/problem+json":
        return set()
    problem = json.loads(response.content)
    return {problem["code"], *(error["code"] for error in problem["errors"])}


class Plugin:
    """On a worker of pytest-xdist it hands over what it noted; where there are none, and on the controller, it writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.recorder = config, Recorder()

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        from django.core.handlers.base import BaseHandler

        answered, note = BaseHandler.get_response, self.recorder.note

        def get_response(handler: Any, request: Any) -> Any:
            response = answered(handler, request)
            note(request, response)
            return response

        BaseHandler.get_response = get_response  # type: ignore[method-assign]

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["rest_coverage"] = self.recorder.plain()
        else:
            text = json.dumps(self.recorder.plain(), indent=1)
            Path(self.config.getoption(OPTION)).write_text(f"{text}\n", encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.recorder.add(getattr(node, "workeroutput", {}).get("rest_coverage", {}))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write what the tests saw of REST to FILE, as JSON")
    parser.addoption(
        "--write-answers", action="store_true", help="tests/api/test_answer_examples.py writes them anew"
    )


def register(config: pytest.Config) -> None:
    if config.getoption(OPTION):
        config.pluginmanager.register(Plugin(config))
