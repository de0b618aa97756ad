"""The OpenAPI document of the portal, made once of the same code for all tests that read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from tests.kept_files import keep, kept_file


def generated() -> dict[str, Any]:
    """Made anew, for a test that changes what it is made of."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


@cache
def document() -> Mapping[str, Any]:
    """Nobody changes it: all tests of a process read the same one."""
    if _OF_THIS_PROCESS.exists():
        text = _OF_THIS_PROCESS.read_text(encoding="utf-8")
    else:
        text = json.dumps(generated())
        # Where the code has changed since this process imported it, nothing is kept: the document is that of the old code.
        if _kept() == _OF_THIS_PROCESS:
            keep(_OF_THIS_PROCESS, lambda whole: whole.write_text(text, encoding="utf-8"))
    found: dict[str, Any] = json.loads(text)
    return found


def _kept() -> Path:
    return kept_file("openapi", ".json", also=(".json", ".yaml"))


_OF_THIS_PROCESS = _kept()


@cache
def operations() -> Mapping[str, tuple[str, str, Mapping[str, Any]]]:
    """Method, path and description of every operation, by its id."""
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
