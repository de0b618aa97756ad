from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.openapi import document

PATHS = {
    "/api/v1/me/": {"get"},
    "/api/v1/teams/": {"get", "post"},
    "/api/v1/teams/{slug}/": {"get", "patch", "delete"},
    "/api/v1/teams/{slug}/members/": {"get", "post"},
    "/api/v1/teams/{slug}/members/{username}/": {"get", "patch", "delete"},
    "/api/v1/tokens/": {"get", "post"},
    "/api/v1/tokens/{token_id}/": {"get", "delete"},
    "/api/v1/audit/": {"get"},
}


@pytest.fixture(scope="module")
def schema() -> Mapping[str, Any]:
    return document()


@pytest.mark.parametrize("path", PATHS)
def test_each_resource_is_described_with_its_methods(schema, path):
    assert set(schema["paths"][path]) == PATHS[path]


@pytest.mark.parametrize("path", PATHS)
def test_each_operation_declares_its_problems(schema, path):
    for method, operation in schema["paths"][path].items():
        expected = {"400", "401", "403", "500", "503"} | ({"404"} if "{" in path else set())
        expected |= {"413", "415", "422"} if method in {"post", "patch"} else set()
        assert expected <= set(operation["responses"])
        content = operation["responses"]["401"]["content"]
        assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        assert {"bearerToken": []} in operation["security"]


def parameters(operation: dict, place: str) -> set[str]:
    return {each["name"] for each in operation.get("parameters", []) if each["in"] == place}


def test_lists_declare_pages_and_filters(schema):
    audit = schema["paths"]["/api/v1/audit/"]["get"]
    assert {"limit", "cursor", "ordering", "team", "action", "from", "to"} == parameters(audit, "query") - {
        "actor", "target_kind", "target_id", "target", "request_id",
    }  # fmt: skip


def test_changes_declare_their_headers(schema):
    team = schema["paths"]["/api/v1/teams/{slug}/"]
    assert parameters(team["patch"], "header") == {"If-Match"}
    assert parameters(schema["paths"]["/api/v1/teams/"]["post"], "header") == {"Idempotency-Key"}


def test_only_the_answer_to_creation_holds_a_secret(schema):
    schemas = schema["components"]["schemas"]
    assert "secret" in schemas["TokenWithSecret"]["properties"]
    assert "secret" not in schemas["Token"]["properties"]


def test_a_page_is_results_next_and_previous(schema):
    page = schema["components"]["schemas"]["PaginatedTeamList"]
    assert page["required"] == ["results", "next", "previous"]
