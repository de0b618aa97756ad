"""Every operation is asked so that it gives each answer that the OpenAPI document declares of it, one kind a test.

What only states of its own bring about (a conflict, a field) is in the tests of the operation. What is declared and yet
seen by no test is listed by `python -m tests.rest_coverage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from json import dumps
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.db import connection, connections
from rest_framework.test import APIClient

from foundation.http import rates
from foundation.http.examples import examples_of
from foundation.http.middleware import BODY_BYTES_MAX
from foundation.http.rates import Kind, RateBucket
from foundation.models import IdempotencyKey, PlatformSettings
from teams.api.schema import SCOPE
from teams.models import ApiToken, User
from tests.api.every_operation import BY_A_POD, BY_THE_CLUSTER, NOW, Vision
from tests.factories.teams import make_token
from tests.openapi import document, operations
from tests.rest_coverage.recorder import codes_of
from tests.tables import undone

EXAMPLES = examples_of(settings.OPENAPI_REQUEST_EXAMPLES)
NOBODY = "00000000-0000-7000-8000-000000000000"
WHERE = (
    "declared by foundation/http/schema.py; a state or an address of its own: tests/api/every_operation.py"
)

pytestmark = pytest.mark.django_db


def declaring(status: int, *, but: Iterable[str] = ()) -> list[str]:
    """The operations that declare the status."""
    return [
        name
        for name, (_, _, operation) in operations().items()
        if str(status) in operation["responses"] and name not in but
    ]


def having(parameter: str) -> list[str]:
    return [
        name
        for name, (_, _, operation) in operations().items()
        if any(each["name"] == parameter for each in operation.get("parameters", ()))
    ]


def body_of(name: str) -> Any:
    return next(iter(EXAMPLES.get(name, {}).values()), None)


def others(status: int, names: Iterable[str], ask: Callable[[str], Any]) -> dict[str, int]:
    """The operations that answer otherwise, each asked in the world as it was."""
    found = {}
    for name in names:
        with undone():
            response = ask(name)
            if response.status_code != status:
                found[name] = response.status_code
    return found


def asked(
    vision: Vision, name: str, *, client: APIClient | None = None, query: str = "", **request: Any
) -> Any:
    """The operation with no body of its own, by `client` or who may."""
    sent = {"data": "", "content_type": "application/json", **request}
    return (client or vision.client(name)).generic(operations()[name][0], vision.path(name) + query, **sent)


def successes(name: str) -> set[str]:
    return {status for status in operations()[name][2]["responses"] if status.startswith(("2", "30"))}


def test_every_operation_without_a_body_succeeds(vision):
    names = [name for name in operations() if name not in EXAMPLES and name not in BY_THE_CLUSTER | BY_A_POD]
    failed = {}
    for name in names:
        with undone():
            response = vision.send(name)
            if str(response.status_code) not in successes(name):
                failed[name] = response.content
    assert failed == {}, WHERE


@pytest.mark.parametrize("name", ["preflight_list", "volumes_list", "secrets_delete"])
def test_what_the_cluster_answers_succeeds(name, vision, settings, devcluster):
    settings.CLUSTER_KUBECONFIG = devcluster
    response = vision.send(name)
    assert str(response.status_code) in successes(name), response.content
    if "304" in successes(name):
        assert vision.send(name, If_None_Match=response["ETag"]).status_code == 304


def test_a_volume_of_the_same_name_is_409(vision, settings, devcluster):
    settings.CLUSTER_KUBECONFIG = devcluster
    body = {"name": "twice", "size": "1Gi"}
    assert [vision.send("volumes_create", body).status_code for _ in range(2)] == [201, 409]


@pytest.mark.matrix
def test_what_has_not_changed_is_304(vision):
    def again(name: str) -> Any:
        # Of the two forms of logs one is a stream, which has no ETag.
        query = "?format=json" if name.endswith("_logs_retrieve") else ""
        return vision.send(name, query=query, If_None_Match=vision.send(name, query=query)["ETag"])

    # The first use of a token shows in what the second reads of it.
    vision.send("me_read")
    assert others(304, declaring(304, but=BY_THE_CLUSTER), again) == {}, WHERE


@pytest.mark.matrix
def test_every_query_parameter_is_known(vision):
    unknown = []
    for name in (name for name in operations() if name not in BY_THE_CLUSTER):
        for parameter in operations()[name][2].get("parameters", ()):
            if parameter["in"] == "query":
                query = f"?{urlencode({parameter['name']: sample(parameter['schema'])})}"
                with undone():
                    response = vision.send(name, query=query)
                if response.status_code >= 500 or "unknown_parameter" in codes_of(response):
                    unknown.append(f"{name}{query}")
    assert unknown == []


def sample(schema: Mapping[str, Any]) -> Any:
    """Some value that a parameter takes."""
    schema = schema.get("items", schema)
    if "$ref" in schema:
        schema = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    by_format = {"date-time": NOW.isoformat(), "uuid": NOBODY}
    by_type = {"integer": 1, "boolean": "true", "number": 1}
    if "enum" in schema:
        return schema["enum"][0]
    return by_format.get(schema.get("format", ""), by_type.get(schema.get("type", ""), "a"))


def test_a_nul_in_the_address_is_400(vision):
    assert others(400, declaring(400), lambda name: asked(vision, name, query="?a=%00")) == {}, WHERE


def test_nobody_is_401(vision):
    unknown = vision.asking("mlp_" + "x" * 58)
    names = declaring(401, but=["tokens_exchange"])
    assert others(401, names, lambda name: asked(vision, name, client=unknown)) == {}, WHERE


@pytest.mark.matrix
def test_a_token_without_the_scope_is_403(vision):
    reader = vision.asking(make_token(vision.boss, scopes=("read",), name="reads"))
    writer = vision.asking(make_token(vision.boss, scopes=("submit",), name="writes"))

    def ask(name: str) -> Any:
        return asked(vision, name, client=writer if operations()[name][2][SCOPE] == "read" else reader)

    assert others(403, [name for name in declaring(403) if SCOPE in operations()[name][2]], ask) == {}, WHERE


def test_an_exchange_that_is_switched_off_is_403_and_a_wrong_password_401(vision):
    body = body_of("tokens_exchange")
    assert vision.send("tokens_exchange", {**body, "password": "wrong"}).status_code == 401
    PlatformSettings.objects.update_or_create(pk=1, defaults={"password_exchange": False})
    assert vision.send("tokens_exchange", body).status_code == 403


def test_what_is_not_there_is_404(vision):
    named = [name for name in declaring(404) if "{" in operations()[name][1]]
    without = dict.fromkeys(("public_id", "token_id"), NOBODY) | dict.fromkeys(
        ("name", "slug", "username"), "nobody"
    )

    def ask(name: str) -> Any:
        method, template, _ = operations()[name]
        path = template.format(**without, number=999, path="v1/predict")
        return vision.client(name).generic(method, path, _json(name), content_type="application/json")

    assert others(404, named, ask) == {}, WHERE


def _json(name: str) -> str:
    body = body_of(name)
    return "" if body is None else dumps(body)


def test_another_form_than_json_is_406(vision):
    def ask(name: str) -> Any:
        return asked(vision, name, headers={"Accept": "application/xml"})

    assert others(406, declaring(406), ask) == {}, WHERE


def test_a_row_that_has_moved_on_is_412(vision):
    def ask(name: str) -> Any:
        return vision.send(name, body_of(name), If_Match='"0"')

    assert others(412, having("If-Match"), ask) == {}, WHERE


def test_a_body_that_is_too_large_is_413(vision):
    large = "x" * (BODY_BYTES_MAX + 1)
    assert others(413, declaring(413), lambda name: asked(vision, name, data=large)) == {}, WHERE


def test_a_body_that_is_no_json_is_415(vision):
    def ask(name: str) -> Any:
        return asked(vision, name, data="a=b", content_type="text/plain", headers={"Idempotency-Key": "key"})

    assert others(415, declaring(415), ask) == {}, WHERE


@pytest.mark.matrix
def test_a_key_that_was_used_for_another_request_is_422_and_one_in_flight_409(vision):
    def reused(name: str) -> Any:
        _kept(vision, name, fingerprint="another")
        return vision.send(name, body_of(name), Idempotency_Key="key")

    def in_flight(name: str) -> Any:
        vision.send(name, body_of(name), Idempotency_Key="key")
        IdempotencyKey.objects.update(state=IdempotencyKey.State.IN_FLIGHT, status=None, body=None)
        return asked(vision, name, data=_sent(vision, name), headers={"Idempotency-Key": "key"})

    names = [name for name in having("Idempotency-Key") if name not in BY_THE_CLUSTER]
    assert others(422, names, reused) == {}, WHERE
    assert others(409, names, in_flight) == {}, WHERE


def _kept(vision: Vision, name: str, *, fingerprint: str) -> None:
    IdempotencyKey.objects.create(
        principal=f"user:{vision.boss.pk}", key="key", fingerprint=fingerprint, method="POST", path=vision.path(name),
        state=IdempotencyKey.State.DONE, status=200, created_at=NOW,
    )  # fmt: skip


def _sent(vision: Vision, name: str) -> str:
    return vision.written(body_of(name))


@pytest.mark.matrix
def test_a_failure_of_the_portal_is_500_and_tells_nothing(vision):
    vision.bearer = make_token(vision.boss, name="before")
    with connection.cursor() as cursor:
        for model in (ApiToken, User):
            cursor.execute(f"ALTER TABLE {model._meta.db_table} RENAME TO away_{model._meta.db_table}")
    said = set()

    def ask(name: str) -> Any:
        client = vision.client(name) if name == "tokens_exchange" else vision.asking(vision.bearer)
        client.raise_request_exception = False
        with undone():
            response = asked(vision, name, client=client, data=_sent(vision, name))
        said.add(response.json()["detail"])
        return response

    assert others(500, declaring(500), ask) == {}, WHERE
    assert len(said) == 1


def test_a_database_that_is_away_is_503(vision):
    paths = {name: (vision.client(name), vision.path(name)) for name in declaring(503)}
    there = connections.settings["default"]
    away = {"HOST": "127.0.0.1", "PORT": "1"}
    before = {name: there[name] for name in away}
    found: dict[str, Any] = {}

    def ask_all() -> None:
        for name, (client, path) in paths.items():
            response = client.generic(
                operations()[name][0], path, vision.written(body_of(name)), content_type="application/json"
            )
            found[name] = response.status_code, response.json()["code"], response["Retry-After"]
        connections.close_all()

    there.update(away)
    try:
        # A thread has connections of its own: this test's holds the world.
        thread = Thread(target=ask_all)
        thread.start()
        thread.join()
    finally:
        there.update(before)
    assert found.keys() == paths.keys()
    assert {
        name: answer for name, answer in found.items() if answer != (503, "database_unavailable", "5")
    } == {}


@pytest.mark.matrix
def test_every_operation_answers_429_with_the_time_to_wait(vision, monkeypatch):
    """By what is counted in Valkey, as the process has refused none of them before."""
    monkeypatch.setattr(settings, "REST_RATES", {kind.value: 1 for kind in Kind})
    subjects = [f"user:{vision.boss.pk}", f"attempt:{vision.run.attempts.latest('number').pk}"]
    for subject in subjects:
        assert rates.count([RateBucket(kind, subject) for kind in Kind]) == 0
    assert rates.count([RateBucket(Kind.UNKNOWN, "address:127.0.0.1")]) == 0
    answered = {}
    for name in operations():
        rates._refused.clear()
        answer = vision.client(name).generic(operations()[name][0], vision.path(name))
        answered[name] = (answer.status_code, answer.headers.get("Retry-After"))
    assert {name: found for name, found in answered.items() if found != (429, "60")} == {}
