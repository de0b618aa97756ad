"""JSON as the database can hold it: whatever PostgreSQL or a later reader would choke on is refused here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from typing_extensions import override

from foundation.errors import FieldProblem, Malformed, TooLarge

BODY_BYTES_MAX = 2 * 1024 * 1024
DEPTH_MAX = 32
VALUES_MAX = 20_000
"""Keys and values in all. The largest body of the API, 500 changes of quotas, has 5,000; each costs much more to check than to read."""
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)


_SURROGATE = re.compile("[\ud800-\udfff]")


class StrictJSONParser(BaseParser):
    """DRF parser for application/json.

    Raises TooLarge above 2 MiB and above 20,000 keys and values; Malformed (400), naming the field where there is one, for what is no JSON,
    no UTF-8, nested deeper than 32, a duplicate key, NaN or Infinity, an integer beyond 64 bits, a NUL
    character or a lone surrogate.
    """

    media_type = "application/json"
    renderer_class = JSONRenderer

    @override
    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return loads(stream.read(BODY_BYTES_MAX + 1))


def loads(raw: bytes) -> Any:
    """The value of a JSON text under the rules above."""
    if len(raw) > BODY_BYTES_MAX:
        raise TooLarge(f"The request body is larger than {BODY_BYTES_MAX} bytes.")
    if holds_more(raw, VALUES_MAX):
        message = f"The request body holds more than {VALUES_MAX} keys and values."
        raise TooLarge(message, code="too_many_values")
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise Malformed("The request body is not UTF-8.", code="not_utf8") from error
    except json.JSONDecodeError as error:
        raise Malformed(
            f"The request body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            code="not_json",
        ) from error
    except RecursionError as error:
        raise Malformed("The request body is nested too deeply.", code="too_deep") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise Malformed("A number in the request body is too large.", code="number_too_large") from error
    problems = [problem for _, problem in zip(range(20), _problems(value, "", 1), strict=False)]
    if problems:
        raise Malformed(
            f"{problems[0].field or 'The request body'}: {problems[0].message}",
            code=problems[0].code,
            errors=problems,
        )
    return value


def holds_more(raw: bytes, most: int) -> bool:
    """Whether a JSON text holds more than `most` keys and values, found without reading it: exact for JSON, while for
    what is none it may be either.

    A list of n has n - 1 commas and a bracket, an object of n keys n colons, n - 1 commas and a brace, and each of these
    marks in a string makes it look like more; so a text of few marks needs no second look.
    """
    if _marks(raw) <= most:
        return False
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Every string is a key or a value: so many of them are not even taken apart.
    if unescaped.count(b'"') // 2 > most:
        return True
    bare = b"0".join(unescaped.split(b'"')[::2]).translate(None, b" \t\r\n")
    return _marks(bare) - bare.count(b"[]") - bare.count(b"{}") > most


def _marks(raw: bytes) -> int:
    return 1 + sum(map(raw.count, (b",", b":", b"[", b"{")))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                message = f"The key {_printable(name)} occurs twice in one object."
                problem = FieldProblem(field=_printable(name), code="duplicate_key", message=message)
                raise Malformed(message, code="duplicate_key", errors=(problem,))
            seen.add(name)
    return result


def _problems(value: Any, path: str, depth: int) -> Iterator[FieldProblem]:
    if depth > DEPTH_MAX:
        yield FieldProblem(field=path, code="too_deep", message=f"Nested deeper than {DEPTH_MAX} levels.")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _text_problems(name, _join(path, name))
            yield from _problems(inner, _join(path, name), depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _problems(inner, _join(path, index), depth + 1)
    elif isinstance(value, str):
        yield from _text_problems(value, path)
    else:
        yield from _number_problems(value, path)


def _text_problems(text: str, path: str) -> Iterator[FieldProblem]:
    if "\x00" in text:
        yield FieldProblem(field=path, code="null_character", message="NUL characters are not accepted.")
    if not text.isascii() and _SURROGATE.search(text):
        yield FieldProblem(field=path, code="surrogate", message="Lone surrogates are not accepted.")


def _number_problems(value: Any, path: str) -> Iterator[FieldProblem]:
    if isinstance(value, float) and not math.isfinite(value):
        yield FieldProblem(field=path, code="not_finite", message="NaN and Infinity are not accepted.")
    if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
        yield FieldProblem(field=path, code="number_too_large", message="Integers have at most 64 bits.")


def _join(path: str, name: object) -> str:
    return f"{path}.{_printable(name)}" if path else _printable(name)


def _printable(name: object) -> str:
    return str(name).encode("ascii", "backslashreplace").decode("ascii").replace("\x00", "\\x00")[:100]
