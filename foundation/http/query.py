"""Query parameters: known ones only, each checked, each error naming the parameter (400)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foundation.errors import FieldProblem, Malformed


def refuse(name: str, message: str, *, code: str = "invalid") -> Malformed:
    """The error about one query parameter."""
    return Malformed(
        f"{name}: {message}", code=code, errors=(FieldProblem(field=name, code=code, message=message),)
    )


def check_query_parameters(request: Any, allowed: Iterable[str]) -> None:
    """Raise Malformed naming the first query parameter that is not among `allowed`, or holds a NUL."""
    known = set(allowed)
    for name in request.GET:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise refuse(name[:100], f"unknown query parameter; known: {listed}.", code="unknown_parameter")
        if any("\x00" in value for value in request.GET.getlist(name)):
            raise refuse(name, "NUL characters are not accepted.", code="null_character")


def one(request: Any, name: str) -> str | None:
    """The value of a parameter that may be given once; None when absent. Raises Malformed when repeated."""
    values: list[str] = request.GET.getlist(name)
    if len(values) > 1:
        raise refuse(name, "may be given once.", code="repeated")
    return values[0] if values else None
