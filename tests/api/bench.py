"""What the API tests share: a team with quota, and the shape of every error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.db import connection
from rest_framework.test import APIClient

from tests.factories.catalogue import make_flavor, make_node, make_price, make_quota
from tests.factories.submitted import endpoint_body, run_body
from tests.factories.teams import api_client, make_member, make_team, make_user
from tests.security.world import snapshot
from workloads.models import Workload

RUNS = "/api/v1/training-runs/"
ENDPOINTS = "/api/v1/endpoints/"
PROBLEM_KEYS = ["type", "title", "status", "detail", "code", "request_id", "errors"]


class Bench:
    """A member of team vision, which may use eight a100-40gb at 3,600 USD an hour each."""

    def __init__(self) -> None:
        self.team = make_team("vision")
        self.user = make_member(team=self.team, user=make_user("ana")).user
        self.lead = make_member("lead", team=self.team, user=make_user("lea")).user
        self.flavor = make_flavor()
        make_node()
        self.quota = make_quota(self.team, self.flavor)
        make_price()
        self.client: APIClient = api_client(self.user)

    def run(self, **values: Any) -> dict[str, Any]:
        """A run that was accepted."""
        response = self.client.post(RUNS, run_body("vision", **values))
        assert response.status_code == 201, response.content
        return response.json()

    def endpoint(self, **values: Any) -> dict[str, Any]:
        """An endpoint that was accepted."""
        response = self.client.post(ENDPOINTS, endpoint_body("vision", **values))
        assert response.status_code == 201, response.content
        return response.json()


def problem(response: Any, status: int, *fields: str, code: str | None = None) -> dict[str, Any]:
    """The problem document that the response is; its errors name exactly `fields`, where any are given."""
    assert response.status_code == status, response.content[:500]
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert list(body) == PROBLEM_KEYS
    assert body["status"] == status
    assert body["type"] == f"urn:ml-portal:problem:{body['code']}"
    assert body["title"]
    assert body["detail"]
    assert body["request_id"] == response["X-Request-ID"]
    for error in body["errors"]:
        assert list(error) == ["field", "code", "message"]
        assert error["code"]
        assert error["message"]
    if fields:
        assert {error["field"] for error in body["errors"]} == set(fields), body["errors"]
    assert code is None or code in {body["code"], *(error["code"] for error in body["errors"])}, body
    return body


class Unchanged:
    """Nothing was made, changed or deleted inside the block."""

    def __enter__(self) -> None:
        self.before = snapshot()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            assert snapshot() == self.before


def until_somebody_waits_for_a_row() -> None:
    """Some other connection waits for a lock that this one holds."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with connection.cursor() as cursor:
        for _ in range(100_000):
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(waits)
            if cursor.fetchone()[0]:
                return
    raise AssertionError("Nobody ever waited for the row.")


def ids(results: Iterable[dict[str, Any]]) -> list[str]:
    return [each["id"] for each in results]


def row(answered: dict[str, Any]) -> Workload:
    """The row of the run or endpoint that was answered."""
    return Workload.objects.get(public_id=answered["id"])
