"""ETag and If-Match over a row's `version`: no client overwrites a change that it has not seen."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from django.http import HttpResponseBase

from foundation.errors import FieldProblem, Malformed, PreconditionFailed

HEADER = "If-Match"
_TAG = re.compile(r'\A(?:W/)?"[\x21\x23-\x7e]*"\Z')
_OURS = re.compile(r'\A"([0-9]{1,18})"\Z')

ResponseT = TypeVar("ResponseT", bound=HttpResponseBase)


def etag_of(version: int) -> str:
    """The strong ETag of a version."""
    return f'"{version}"'


def with_etag(response: ResponseT, version: int) -> ResponseT:
    """The response, carrying the ETag of a version."""
    response["ETag"] = etag_of(version)
    return response


def expected_versions(request: Any) -> frozenset[int] | None:
    """The versions that If-Match accepts; None when the header is absent or `*`, so any will do.

    Raises Malformed for what is no list of quoted tags. Weak and foreign tags match nothing.
    """
    raw: str | None = request.headers.get(HEADER)
    if raw is None or raw.strip() == "*":
        return None
    tags = [tag.strip() for tag in raw.split(",")]
    if not all(_TAG.match(tag) for tag in tags):
        problem = FieldProblem(
            field=HEADER, code="invalid", message='A list of quoted tags such as "7", or *.'
        )
        raise Malformed(f"{HEADER}: {problem.message}", errors=(problem,))
    return frozenset(int(match[1]) for tag in tags if (match := _OURS.match(tag)))


def check_version(*, expected: frozenset[int] | None, current: int) -> None:
    """Raise PreconditionFailed unless `current` is expected. Call it on the locked row."""
    if expected is not None and current not in expected:
        raise PreconditionFailed(
            f"It was changed in the meantime and is at version {current} now. Read it again and repeat the change."
        )
