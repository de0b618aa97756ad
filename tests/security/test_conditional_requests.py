"""If-Match, If-None-Match, query parameters: what the schema declares is done, and what is done is declared."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse

from tests.effort import spread
from tests.factories.teams import make_token, make_user
from tests.openapi import document
from tests.security.routes import ROUTES, all_routes, schema_path
from tests.security.world import Principal, different, snapshot

pytestmark = pytest.mark.django_db
CHANGES = ("post", "put", "patch", "delete")
DOCUMENT = document()
OPERATIONS = {
    (name, method): operation
    for name, pattern in all_routes().items()
    if name in ROUTES and ROUTES[name].kind == "api" and schema_path(pattern) in DOCUMENT["paths"]
    for method, operation in DOCUMENT["paths"][schema_path(pattern)].items()
}


def declares(operation: dict[str, Any], header: str) -> bool:
    return any(parameter["name"] == header for parameter in operation.get("parameters", []))


# A run's own token opens its reports, and whoever may see an endpoint may try it by any method.
UNNAMED = {
    "jobs-api:training-run-progress",
    "jobs-api:training-run-outputs",
    "jobs-api:training-run-checkpoints",
    "gateway-api:invoke",
}
HONOURED = sorted(key for key, operation in OPERATIONS.items() if declares(operation, "If-Match"))
READ_AGAIN = sorted(key for key, operation in OPERATIONS.items() if "304" in operation["responses"])


@pytest.fixture
def root(world) -> Principal:
    world.lead.refresh_from_db()
    return Principal("root", bearer=make_token(make_user("root", platform_admin=True)))


def of(world, name: str, method: str) -> tuple[str, Any]:
    """The address of an object that the route is about, and a body that would be accepted."""
    need = ROUTES[name].methods.get(method.upper())
    body = world.body(need.body) if need and method not in {"get", "delete"} else None
    return reverse(name, kwargs=world.kwargs(ROUTES[name].what)), body


def test_the_same_methods_declare_it_as_declare_412():
    assert {key for key, operation in OPERATIONS.items() if "412" in operation["responses"]} == set(HONOURED)
    assert {"patch", "delete", "post"} == {method for _, method in HONOURED}


@pytest.mark.parametrize(("name", "method"), spread(HONOURED, usual=8))
def test_a_change_of_what_was_not_seen_is_refused(world, root, name, method):
    url, body = of(world, name, method)
    seen = url.removesuffix("rollback/").removesuffix("scale/").replace("/reopen/", "/close/")
    tag = root.ask("GET", seen)["ETag"]
    before = snapshot()
    refused = root.ask(method.upper(), url, body, If_Match='"99"')
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert different(before, snapshot()) == []
    done = root.ask(method.upper(), url, body, If_Match=tag)
    assert done.status_code < 300 or done.json()["code"] != "precondition_failed", done.content
    if method != "delete":
        gone_by = root.ask(method.upper(), url, body, If_Match=tag)
        moved = root.ask("GET", seen)["ETag"].split("-")[0] != tag.split("-")[0]
        assert (gone_by.status_code == 412) is moved


@pytest.mark.parametrize(("name", "method"), spread(READ_AGAIN, usual=12))
def test_what_has_not_changed_is_not_sent_again(world, root, name, method):
    url, _ = of(world, name, method)
    if name == "console-api:compare":
        url += f"?a={world.run.public_id}&b={world.run.public_id}"
    first = root.ask("GET", url)
    if first.status_code != 200:
        # Nothing to read without a cluster or a report.
        assert first.status_code in {403, 404, 409, 422, 503}, first.content
        return
    if first.streaming:
        # The lines of a log as text; what is declared is true of `format=json`.
        url += "?format=json"
        first = root.ask("GET", url)
    again = root.ask("GET", url, If_None_Match=f'W/{first["ETag"]}, "other"')
    if again.status_code == 200:
        assert again.content != first.content, "the same, sent twice"
        return
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == first["ETag"]
    assert again["X-Request-ID"]
    assert root.ask("GET", url, If_None_Match='"other"').status_code == 200


@pytest.mark.parametrize(
    "name", spread(sorted(name for name, method in OPERATIONS if method == "get"), usual=12)
)
def test_an_unknown_parameter_is_refused_by_its_name(world, root, name):
    url, _ = of(world, name, "get")
    refused = root.ask("GET", f"{url}?no_such=1")
    assert refused.status_code == 400, refused.content
    assert refused.json()["errors"][0]["field"] == "no_such"


@pytest.mark.parametrize(
    "name", spread(sorted(name for name, method in OPERATIONS if method == "post"), usual=10)
)
def test_a_malformed_key_is_refused_where_keys_are_honoured(world, root, name):
    url, body = of(world, name, "post")
    with transaction.atomic():
        answered = root.ask("POST", url, body, Idempotency_Key="a b")
        transaction.set_rollback(True)
    refused = answered.status_code == 400 and answered.json()["errors"][0]["field"] == "Idempotency-Key"
    assert refused is declares(OPERATIONS[name, "post"], "Idempotency-Key"), answered.content


def test_a_token_without_the_scope_that_is_declared_is_refused(world):
    scopes = {"read", "submit", "manage"}
    root = make_user("root", platform_admin=True)
    without = {
        scope: Principal(
            f"without {scope}", bearer=make_token(root, scopes=sorted(scopes - {scope}), name=scope)
        )
        for scope in scopes
    }
    wrong = []
    for (name, method), operation in OPERATIONS.items():
        if scope := operation.get("x-required-scope"):
            url, body = of(world, name, method)
            answered = without[scope].ask(method.upper(), url, body)
            if answered.status_code != 403 or answered.json()["code"] != "scope_missing":
                wrong.append(f"{method} {url} without {scope}: {answered.status_code}")
            assert f"`{scope}`" in operation["description"]
    assert wrong == []
    unnamed = {name for (name, _), operation in OPERATIONS.items() if "x-required-scope" not in operation}
    assert unnamed == UNNAMED
