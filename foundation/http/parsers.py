"""JSON as the database can hold it: whatever PostgreSQL or a later reader would choke on is refused here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from typing_extensions import override

from foundation.errors import FieldProblem, Malformed, TooLarge

BODY_BYTES_MAX = 2 * 1024 * 1024
DEPTH_MAX = 32
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)


class StrictJSONParser(BaseParser):
    """DRF parser for application/json.

    Raises TooLarge above 2 MiB; Malformed (400), naming the field where there is one, for what is no JSON,
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
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
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
