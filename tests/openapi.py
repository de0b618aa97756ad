"""The OpenAPI document of the portal, made once for all tests that read it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@cache
def document() -> Mapping[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)


@cache
def operations() -> Mapping[str, tuple[str, str, Mapping[str, Any]]]:
    """Method, path and description of every operation, by its id."""
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
