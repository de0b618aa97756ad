"""drf-spectacular hook: OpenAPI links, from each answer to what can be asked next about the same thing.

What is made, and what a list has first, leads to the thing; the thing to all that is below it. They follow from the paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_LAST: Final = re.compile(r"^(?P<collection>.*/)\{(?P<parameter>\w+)\}/$")
_JSON: Final = "application/json"
_OWN: Final = ("get", "put", "patch", "delete")
LOCATION_HEADER: Final = {
    "description": "Where it is, at the host that was asked.",
    "schema": {"type": "string", "format": "uri"},
}
Document = Mapping[str, Any]


def declare_links(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:  # noqa: FBT001
    """POSTPROCESSING_HOOK: the links of every answer that holds a thing which has an address."""
    del generator, request, public
    paths = result.get("paths", {})
    for item in paths:
        last = _LAST.match(item)
        if last is not None:
            parameter = last["parameter"]
            of_collection = paths.get(last["collection"], {})
            own = {each: paths[item][each] for each in _OWN if each in paths[item]}
            _link(result, of_collection.get("post"), own, parameter, pointer="")
            _link(
                result,
                of_collection.get("get"),
                {"get": own["get"]} if "get" in own else {},
                parameter,
                pointer="/results/0",
            )
            below = dict(_below(paths, item))
            _link(result, own.get("get"), {**below, **own}, parameter, pointer="")
    return result


def _below(paths: Document, item: str) -> Iterator[tuple[str, Document]]:
    """What can be asked of the parts of a thing without naming one of them."""
    for path, methods in paths.items():
        if path.startswith(item) and path != item and "{" not in path[len(item) :]:
            yield from ((f"{method} {path}", operation) for method, operation in methods.items())


def _link(
    document: Document, source: dict[str, Any] | None, targets: Document, parameter: str, *, pointer: str
) -> None:
    for status, answer in (source or {}).get("responses", {}).items():
        schema = answer.get("content", {}).get(_JSON, {}).get("schema")
        if status.startswith("2") and schema is not None:
            name = _field(document, schema, parameter, listed=bool(pointer))
            links = {
                target["operationId"]: _to(target, parameter, f"$response.body#{pointer}/{name}")
                for target in targets.values()
                if name and target is not source
            }
            if links and status == "201":
                answer.setdefault("headers", {})["Location"] = LOCATION_HEADER
            if links:
                answer["links"] = {**answer.get("links", {}), **links}


def _to(target: Document, parameter: str, value: str) -> dict[str, Any]:
    inherited = (each["name"] for each in target.get("parameters", ()) if each["in"] == "path")
    parameters = {name: value if name == parameter else f"$request.path.{name}" for name in inherited}
    return {"operationId": target["operationId"], "parameters": parameters}


def _field(document: Document, schema: Document, parameter: str, *, listed: bool) -> str | None:
    """The field that names the thing: the parameter's own, or its id."""
    fields = _resolved(document, schema).get("properties", {})
    if listed:
        rows = _resolved(document, fields.get("results", {})).get("items", {})
        fields = _resolved(document, rows).get("properties", {})
    return next((name for name in (parameter, "id") if name in fields), None)


def _resolved(document: Document, schema: Document) -> Document:
    """What the schema stands for; of several kinds of answers the first, which is the usual one."""
    found: Document = schema
    while "$ref" in found or "oneOf" in found:
        found = (
            found["oneOf"][0]
            if "oneOf" in found
            else document["components"]["schemas"][found["$ref"].rpartition("/")[2]]
        )
    return found
