"""ETags: If-None-Match saves a client what it has already, If-Match saves it from overwriting what it has not seen.

A tag is `"7-9f86d081884c7d65"`: the version of the row, which moves when somebody changes it, and a digest of what was
answered, which moves with everything that is shown. If-Match compares the version alone, so that a change is not
refused because a phase moved, and `"7"` will do; If-None-Match compares the whole. What has no version of its own
has the digest alone.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, TypeVar

from django.db.models import Model
from django.http import HttpResponse, HttpResponseBase
from django.utils.http import parse_etags

from foundation.errors import FieldProblem, Malformed, PreconditionFailed

HEADER = "If-Match"
KNOWN_HEADER = "If-None-Match"
_TAG = re.compile(r'\A(?:W/)?"[\x21\x23-\x7e]*"\Z')
# Servers in between that compress an answer mark its tag as weak, or add a suffix: the version is the same.
_OURS = re.compile(r'\A(?:W/)?"([0-9a-z]{1,64})(?:-[0-9a-f]{16})?(?:-gzip)?"\Z')
_DIGEST_BYTES = 8
_KEPT_IN_304 = ("Cache-Control", "Content-Location", "Expires", "Vary")

GONE = ""
"""The version of a row that is not there: no tag names it."""
Versions = frozenset[str]
ResponseT = TypeVar("ResponseT", bound=HttpResponseBase)


def version_of(row: Model) -> str:
    """The version of a row that counts none: a digest of its columns. For a row that is not stored, of its defaults."""
    values = {field.attname: field.value_to_string(row) for field in row._meta.concrete_fields}  # noqa: SLF001 - Django documents _meta as public
    values.pop(row._meta.pk.attname, None)  # noqa: SLF001
    return _digest(repr(sorted(values.items())).encode())


def with_etag(response: ResponseT, version: int | str) -> ResponseT:
    """The response, carrying the strong ETag of a version."""
    response["ETag"] = f'"{version}"'
    return response


def conditional(request: Any, response: HttpResponse) -> HttpResponse:
    """The rendered answer to a GET with its ETag, or 304 without a body where the client has it already.

    Nothing is done to errors and to streams.
    """
    if request.method not in {"GET", "HEAD"} or response.status_code != 200 or response.streaming:
        return response
    response["ETag"] = tag = tag_of(response.get("ETag", "").strip('"'), response.content)
    if not is_known(tag, request.headers.get(KNOWN_HEADER, "")):
        return response
    unchanged = HttpResponse(status=304, headers={"ETag": tag})
    for name in _KEPT_IN_304:
        if name in response:
            unchanged[name] = response[name]
    return unchanged


def tag_of(version: str, content: bytes) -> str:
    """The tag of what is answered, of a row with that version; of one that has none, "" as the version."""
    digest = _digest(content)
    return f'"{version}-{digest}"' if version else f'"{digest}"'


def is_known(tag: str, header: str) -> bool:
    """Whether If-None-Match says that the client has it already."""
    known = parse_etags(header)
    return "*" in known or tag in {item.removeprefix("W/") for item in known}


def expected_versions(request: Any) -> Versions | None:
    """The versions that If-Match accepts; None when the header is absent or `*`, so any will do.

    Raises Malformed for what is no list of quoted tags. Foreign tags match nothing.
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
    return frozenset(match[1] for tag in tags if (match := _OURS.match(tag)))


def check_version(*, expected: Versions | None, current: int | str) -> None:
    """Raise PreconditionFailed unless `current` is expected. Call it on the locked row."""
    if expected is not None and str(current) not in expected:
        raise PreconditionFailed("It was changed in the meantime. Read it again and repeat the change.")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
