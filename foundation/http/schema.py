"""drf-spectacular hook: what every operation shares is declared once, from the code that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings

from foundation.http import etag, idempotency, problems
from foundation.http.codes import codes_of

_STRING = {"type": "string"}
FIELD_PROBLEM = {
    "type": "object",
    "required": ["field", "code", "message"],
    "properties": {
        "field": {"type": "string", "description": "Dotted path such as env.0.name; empty for the whole."},
        "code": _STRING,
        "message": _STRING,
    },
}
PROBLEM = {
    "type": "object",
    "description": "An error, RFC 9457.",
    "required": ["type", "title", "status", "detail", "code", "request_id", "errors"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": _STRING,
        "status": {"type": "integer"},
        "detail": _STRING,
        "code": {"type": "string", "description": "A stable token to branch on."},
        "request_id": _STRING,
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldProblem"}},
    },
}
MEANINGS = {
    400: "Malformed request",
    401: "Not signed in, or the token is expired or revoked",
    403: "Known, but not allowed",
    404: "Unknown, or not yours",
    406: "The answer is in none of the forms that Accept names",
    409: "Conflict",
    412: "Changed in the meantime (If-Match)",
    413: "The body is larger than 2 MiB",
    415: "The body is not application/json",
    422: "A field is invalid, or the request can never be met",
    429: "Too many requests; see Retry-After",
    500: "Unexpected failure, logged under the request id",
    503: "Temporarily unavailable",
}
ALWAYS = (400, 401, 403, 429, 500, 503)
UNTRIED = (404, 409, 422, 429)
"""What an operation may answer that no test has been seen to ask yet."""
CODES_SHOWN_MAX = 8
METHODS = frozenset({"get", "post", "put", "patch", "delete"})


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


IDEMPOTENCY_PARAMETER = _header(
    idempotency.HEADER,
    "The same key and body within 24 hours give the first answer again.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
)
IF_MATCH_PARAMETER = _header(
    etag.HEADER, "The ETag that was read, or *: the change is refused (412) if the row has moved on.", _STRING
)
IF_NONE_MATCH_PARAMETER = _header(
    etag.KNOWN_HEADER,
    "The ETag of the last answer: 304 without a body where nothing has changed since.",
    _STRING,
)
ETAG_HEADER = {
    "description": "Of what is answered, for If-None-Match, and of the row's version, for If-Match.",
    "schema": {"type": "string"},
}


def declare_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:  # noqa: FBT001
    """POSTPROCESSING_HOOK: problem responses on every operation, ETag and 304 on GET."""
    del generator, request, public
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas["FieldProblem"], schemas["Problem"] = FIELD_PROBLEM, PROBLEM
    known = codes_of(settings.OPENAPI_PROBLEM_CODES)
    for path, operations in result.get("paths", {}).items():
        for method, operation in operations.items():
            if method in METHODS:
                _declare(method, path, operation, known.get(operation["operationId"]))
    return result


def _declare(
    method: str, path: str, operation: dict[str, Any], codes: Mapping[str, list[str]] | None
) -> None:
    seen = UNTRIED if codes is None else map(int, codes)
    responses = operation.setdefault("responses", {})
    for status in sorted({*_by_its_form(method, path, operation), *seen}):
        response = responses.setdefault(str(status), problem_response(status))
        if codes and str(status) in codes:
            _name_codes(response, codes[str(status)])
    if method == "get":
        _declare_etag(operation)


def _by_its_form(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[int]:
    """The errors that follow from what an operation takes."""
    parameters = operation.get("parameters", [])
    yield from ALWAYS
    if "{" in path:
        yield 404
    if method in {"post", "put", "patch"}:
        yield 413
    if IDEMPOTENCY_PARAMETER in parameters:
        yield from (409, 415, 422)
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        yield from (415, 422)
    if IF_MATCH_PARAMETER in parameters:
        yield 412


def _name_codes(response: dict[str, Any], codes: list[str]) -> None:
    response["x-codes"] = codes
    if len(codes) <= CODES_SHOWN_MAX:
        response["description"] += f": {', '.join(f'`{code}`' for code in codes)}"


def _declare_etag(operation: dict[str, Any]) -> None:
    """Every answer in JSON has an ETag; a stream has none."""
    answer = operation.get("responses", {}).get("200", {})
    if "application/json" not in answer.get("content", {}):
        return
    answer.setdefault("headers", {})["ETag"] = ETAG_HEADER
    operation["responses"]["304"] = {
        "description": "Nothing has changed (If-None-Match)",
        "headers": {"ETag": ETAG_HEADER},
    }
    _add_parameter(operation, IF_NONE_MATCH_PARAMETER)


def _add_parameter(operation: dict[str, Any], parameter: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    if all(present.get("name") != parameter["name"] for present in parameters):
        parameters.append(parameter)


def problem_response(status: int) -> dict[str, Any]:
    """How an error of that status is described."""
    content = {problems.CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    response: dict[str, Any] = {"description": MEANINGS[status], "content": content}
    if status == 429:
        response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return response
