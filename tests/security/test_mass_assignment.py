"""What the portal decides for itself cannot be sent: every field of every answer, to every method that takes a body."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from foundation.http.serializers import UNKNOWN_NAMED_MAX
from teams.models import User
from tests.effort import spread
from tests.factories.teams import make_token, make_user
from tests.security.routes import ROUTES, all_routes, schema_path
from tests.security.world import Principal, different, snapshot

# What nobody may set through any body, whether an answer shows it or not.
NEVER = {
    "pk": 1,
    "public_id": "00000000-0000-7000-8000-000000000001",
    "team_id": 1,
    "owner_id": 1,
    "user_id": 1,
    "is_staff": True,
    "is_superuser": True,
    "is_platform_admin": True,
    "is_quota_manager": True,
    "is_active": False,
    "password": "x",
    "digest": "0" * 64,
    "prefix": "x",
    "used": 0,
    "grandfathered": 99,
    "units": 0,
    "desired": "run",
    "generation": 1,
    "lock_token": None,
    "attempt_number": 9,
    "retries_used": 0,
    "used_seconds": 0,
    "run_token_digest": "0" * 64,
    "price": 0,
    "cost": {"so_far": {"amount_micro_usd": 0}},
    "simulated": False,
    "sweep": None,
    "number": 1,
    "milestones": {"100": 0},
    "__class__": "x",
    "constructor": {},
}
SAMPLES: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}
BODIES = {
    (name, method): need.body
    for name, row in ROUTES.items()
    if row.kind == "api" and not name.startswith("gateway-api")
    for method, need in row.methods.items()
    if need.body != "none" and method in {"POST", "PUT", "PATCH"}
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def answered_only(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """The fields that the operation's answer has and its body has not, each with a value of its type."""
    body = resolved(document, operation["requestBody"]["content"]["application/json"]["schema"])
    accepted = {name for name, each in body["properties"].items() if not each.get("readOnly")}
    success = next(each for status, each in operation["responses"].items() if status.startswith("2"))
    answer = resolved(document, next(iter(success["content"].values()))["schema"])
    answers = [resolved(document, each) for each in answer.get("oneOf", [answer])]
    kinds = {
        name: resolved(document, each).get("type", "string")
        for shape in answers
        for name, each in shape["properties"].items()
    }
    return {name: SAMPLES[kind] for name, kind in kinds.items() if name not in accepted}


def batches(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    left = iter(fields.items())
    while some := dict(islice(left, UNKNOWN_NAMED_MAX)):
        yield some


@pytest.mark.parametrize(("name", "method"), spread(sorted(BODIES), usual=12))
def test_no_field_of_an_answer_can_be_sent(document, world, name, method):
    # Who may most: what is refused to this one is refused for the field, not for the person.
    root = make_user("root", platform_admin=True)
    world.lead.refresh_from_db()
    asker = Principal("root", bearer=make_token(root))
    row = ROUTES[name]
    if name.endswith(("checkpoints", "outputs", "progress")):
        asker = Principal("the run", bearer=world.run_token)
    url = reverse(name, kwargs=world.kwargs(row.what))
    operation = document["paths"][schema_path(all_routes()[name])][method.lower()]
    readable = answered_only(document, operation)
    body = world.body(BODIES[name, method])
    if name == "console-api:team-reopen":
        closed = asker.ask(
            "POST", reverse("console-api:team-close", kwargs=world.kwargs("team")), world.body("close-team")
        )
        assert closed.status_code == 200, closed.content
    before = snapshot()
    # A refusal names so many fields that are unknown; more of them are counted.
    for named in batches({**NEVER, **readable}):
        sent = {**named, **body}
        response = asker.ask(method, url, sent)
        assert response.status_code == 422, (response.status_code, response.content)
        refused = {each["field"] for each in response.json()["errors"]}
        assert refused == set(sent) - set(body)
    assert different(before, snapshot()) == []
    assert not User.objects.filter(is_superuser=True).exclude(pk=root.pk).exists()
    # The body itself is a good one, so that the fields above were what was refused.
    assert asker.ask(method, url, body).status_code in {200, 201, 202, 503}


def test_a_form_takes_nothing_that_it_does_not_show(world):
    page = Principal("member", user=world.member)
    response = page.client.post(
        reverse("teams:profile"),
        {
            "name": "x",
            "scopes": ["read"],
            "expires_in_days": "5",
            "user": world.lead.pk,
            "is_platform_admin": "1",
        },
    )
    assert response.status_code == 200
    world.member.refresh_from_db()
    assert not world.member.is_platform_admin
    assert world.member.api_tokens.filter(name="x").exists()
