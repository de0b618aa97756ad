"""Generated requests over the portal's own OpenAPI document: whatever is sent, the answer is one that it declares.

`make test` sends some to each operation, `make matrix` two thousand, always the same; `make soak` many more, new ones each time.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests import openapi
from tests.effort import SOAK, drawn
from tests.factories.teams import make_token, make_user
from tests.security.routes import ROUTES, all_routes, schema_path
from tests.security.world import TEAM, World
from tests.tables import every_row, undone

pytestmark = pytest.mark.django_db


def no_server_error(context, response, case) -> bool | None:
    """As schemathesis says it, but for the cluster: it is not there, and saying so (503, declared) is an answer."""
    return None if response.status_code == 503 else not_a_server_error(context, response, case)


# To an operation; in `make test`, and in `make matrix`.
FEW, MANY = drawn(usual=3, soak=800), 12
CHECKS = [no_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Only the method that the document describes; the others pass through to whatever the endpoint is.
UNDESCRIBED = {"gateway-api:invoke-root"}
# Its credential is its body, so it is in no matrix of principals.
DESCRIBED = {"teams-api:token-exchange"}
OPERATIONS = sorted(
    f"{method} {schema_path(all_routes()[name])}"
    for name, row in ROUTES.items()
    if (row.kind == "api" or name in DESCRIBED) and name not in UNDESCRIBED
    for method in row.methods
    if name != "gateway-api:invoke" or method == "POST"
)


def collection_of(name: str) -> str:
    return name.partition("/api/v1/")[2].partition("/")[0]


COLLECTIONS = sorted({collection_of(name) for name in OPERATIONS})
IN_THE_MATRIX = [pytest.param(MANY, each, marks=pytest.mark.matrix) for each in COLLECTIONS]
CASES = (
    [(FEW, each) for each in COLLECTIONS]
    if SOAK
    else [(FEW, each) for each in COLLECTIONS[::3]] + IN_THE_MATRIX
)


@cache
def document() -> Any:
    schema = schemathesis.openapi.from_dict(deepcopy(dict(openapi.document())))
    schema.app = get_wsgi_application()
    return schema


@cache
def operations() -> dict[str, Any]:
    found = (result.ok() for result in document().get_all_operations())
    return {f"{each.method.upper()} {each.path}": each for each in found}


def test_the_document_describes_every_route_of_the_api_and_no_other():
    assert sorted(operations()) == OPERATIONS


def test_make_matrix_sends_two_thousand_requests():
    assert MANY * len(OPERATIONS) >= 2000


@pytest.fixture
def one_connection(db):
    """As Django's own test client does it: the test's transaction outlives the requests in it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def standing_headers(stands, standing_world):
    return stands(headers_of, standing_world)


@pytest.fixture
def headers(one_connection, world, own, standing_headers) -> dict[str, dict[str, str]]:
    return own(standing_headers)


def headers_of(world: World) -> dict[str, dict[str, str]]:
    """Who asks, and everything that there is to ask about."""
    admin = make_user("admin", platform_admin=True)
    return {
        "lead": {"Authorization": f"Bearer {make_token(world.lead)}"},
        "admin": {"Authorization": f"Bearer {make_token(admin)}"},
        "run": {"Authorization": f"Bearer {world.run_token}"},
        "anonymous": {},
        "paths": {each: str(value) for each, value in real_paths(world).items()},
    }


def real_paths(world: World) -> dict[str, Any]:
    return {
        "training-runs": world.run.public_id,
        "endpoints": world.endpoint.public_id,
        "sweeps": world.sweep.public_id,
        "quota-changes": world.change_set.public_id,
        "quota-requests": world.request.public_id,
        "prices": world.price.public_id,
        "budgets": world.budget.public_id,
        "decisions": world.decision.public_id,
        "subscriptions": world.subscription.public_id,
        "notices": world.notice.public_id,
        "flavors": world.flavor.name,
        "templates": world.template.name,
        "alert-rules": "idle",
        "secrets": "hf",
        "cohorts": world.cohort.name,
        "slug": TEAM,
        "username": world.viewer.username,
        "token_id": world.own_token.public_id,
        "path": "v1/predict",
    }


@pytest.mark.parametrize(("requests", "collection"), CASES)
def test_every_answer_is_one_that_the_document_declares(collection, headers, requests):
    """Each operation in the world as it was."""
    with every_row() as row:
        for name in (name for name in OPERATIONS if collection_of(name) == collection):
            with row(name), undone():
                ask(operations()[name], headers, requests)


def ask(operation: Any, headers: dict[str, dict[str, str]], requests: int) -> None:
    paths = headers["paths"]
    collections = reversed(operation.path.removeprefix("/api/v1/").split("/"))
    of_this = next((paths[each] for each in collections if each in paths), "")
    real = {**paths, "public_id": of_this, "name": of_this}
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))
    # A foreign address is refused early, so most requests go to one that exists, from somebody who may.
    who = st.sampled_from(["lead", "lead", "admin", "admin", "anonymous", "run"])

    @settings(
        max_examples=requests,
        derandomize=not SOAK,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, asks=who, exists=st.sampled_from([True, True, True, False]))
    def check(case, asks, exists):
        if exists and case.path_parameters:
            case.path_parameters = {key: real.get(key, value) for key, value in case.path_parameters.items()}
        response = case.call(headers=headers[asks])
        case.validate_response(response, checks=CHECKS, headers=headers[asks])

    check()
