"""drf-spectacular hook: what every operation shares is declared once, from the code that does it."""

from __future__ import annotations

from typing import Any

from foundation.http import etag, idempotency, problems

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
    409: "Conflict",
    412: "Changed in the meantime (If-Match)",
    413: "The body is larger than 2 MiB",
    415: "The body is not application/json",
    422: "A field is invalid, or the request can never be met",
    429: "Too many requests; see Retry-After",
    500: "Unexpected failure, logged under the request id",
    503: "Temporarily unavailable",
}
ALWAYS = (400, 401, 403, 404, 429, 500, 503)
WITH_BODY = (409, 413, 415, 422)
METHODS = frozenset({"get", "post", "put", "patch", "delete"})
IDEMPOTENCY_PARAMETER = {
    "name": idempotency.HEADER,
    "in": "header",
    "required": False,
    "description": "The same key and body within 24 hours give the first answer again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
}
IF_MATCH_PARAMETER = {
    "name": etag.HEADER,
    "in": "header",
    "required": False,
    "description": "The ETag that was read, or *: the change is refused (412) if the row has moved on.",
    "schema": {"type": "string"},
}


IF_NONE_MATCH_PARAMETER = {
    "name": etag.KNOWN_HEADER,
    "in": "header",
    "required": False,
    "description": "The ETag of the last answer: 304 without a body where nothing has changed since.",
    "schema": {"type": "string"},
}
ETAG_HEADER = {
    "description": "Of what is answered, for If-None-Match, and of the row's version, for If-Match.",
    "schema": {"type": "string"},
}


def declare_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:  # noqa: FBT001
    """POSTPROCESSING_HOOK: problem responses on every operation, ETag and 304 on GET."""
    del generator, request, public
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas["FieldProblem"], schemas["Problem"] = FIELD_PROBLEM, PROBLEM
    for operations in result.get("paths", {}).values():
        for method, operation in operations.items():
            if method in METHODS:
                _declare(method, operation)
    return result


def _declare(method: str, operation: dict[str, Any]) -> None:
    statuses = [*ALWAYS]
    if method in {"post", "put", "patch"}:
        statuses += WITH_BODY
    if IF_MATCH_PARAMETER in operation.get("parameters", []):
        statuses.append(412)
    if method == "get":
        _declare_etag(operation)
    if method == "delete":
        statuses.append(409)
    for status in sorted(statuses):
        operation.setdefault("responses", {}).setdefault(str(status), _response(status))


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


def _response(status: int) -> dict[str, Any]:
    content = {problems.CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    response: dict[str, Any] = {"description": MEANINGS[status], "content": content}
    if status == 429:
        response["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return response
