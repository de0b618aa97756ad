"""Sequences over the links of the OpenAPI document: what is made is read, changed and deleted, each answer as declared."""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache
from ipaddress import ip_network
from itertools import count
from typing import Any, ClassVar

import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ensure_resource_availability,
    response_schema_conformance,
    status_code_conformance,
)

from foundation.clock import freeze
from foundation.http.examples import examples_of
from tests.api.every_operation import NOW, Vision
from tests.effort import SOAK, drawn
from tests.openapi import document, operations
from tests.security.test_api_fuzz import no_server_error, one_connection  # noqa: F401

pytestmark = pytest.mark.django_db

SEQUENCES = drawn(usual=12, soak=2000)
STEPS = 10
CHECKS = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    ensure_resource_availability,
]
EXAMPLES = examples_of(django_settings.OPENAPI_REQUEST_EXAMPLES)
NAMED = ("name", "slug")


def links() -> list[tuple[str, str, str, dict[str, str]]]:
    """Of every link: from which operation, of which answer, to which operation, with which parameters."""
    return [
        (name, status, target, link["parameters"])
        for name, (_, _, operation) in operations().items()
        for status, answer in operation["responses"].items()
        for target, link in answer.get("links", {}).items()
    ]


def test_every_link_fills_the_whole_address_of_its_target():
    for name, _, target, parameters in links():
        needed = {
            each["name"] for each in operations()[target][2].get("parameters", ()) if each["in"] == "path"
        }
        assert needed == parameters.keys(), (name, target)


def test_what_is_made_says_where_it_is(vision):
    declaring = {
        name
        for name, (_, _, operation) in operations().items()
        if "Location" in operation["responses"].get("201", {}).get("headers", {})
    }
    located = {}
    for name in declaring:
        made = vision.send(name, next(iter(EXAMPLES[name].values())))
        located[name] = vision.reader().get(made["Location"]).status_code
    assert located == dict.fromkeys(declaring, 200)
    assert {"training_runs_create", "tokens_create", "cohorts_create"} <= declaring


def test_what_can_be_made_leads_to_where_it_is_read_changed_and_deleted():
    led = {(name, target) for name, _, target, _ in links()}
    made = [name for name, (_, _, operation) in operations().items() if "201" in operation["responses"]]
    followed = {name for name, _ in led}
    # Of these nothing is read by an address of its own, or it is that of another resource.
    assert set(made) - followed == {
        "adjustments_create", "quota_changes_undo", "tokens_exchange", "training_runs_checkpoints_create",
        "training_runs_clone_create", "training_runs_outputs_create", "training_runs_progress_create", "training_runs_retry_create", "volumes_create",
        "subscriptions_renew_secret", "budget_overrides_create", "prices_import",
    }  # fmt: skip
    for kind in ("training_runs", "endpoints"):
        for what in ("retrieve", "partial_update", "destroy"):
            assert (f"{kind}_create", f"{kind}_{what}") in led


@cache
def machine() -> Any:
    schema = schemathesis.openapi.from_dict(copy.deepcopy(dict(document())))
    schema.app = get_wsgi_application()
    schema.config.generation.modes = [GenerationMode.POSITIVE]
    return schema.as_state_machine()


@pytest.fixture(scope="module")
def standing_vision(stands):
    with freeze(NOW):
        return stands(Vision)


@pytest.fixture
def vision(one_connection, own, standing_vision, settings):  # noqa: F811
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    # Where the example of a webhook goes, and that mail is offered; nothing is sent.
    settings.NOTICE_NETWORKS, settings.EMAIL_HOST = (ip_network("10.0.0.0/8"),), "mail.example.org"
    with freeze(NOW):
        yield own(standing_vision)


@pytest.mark.matrix
def test_no_sequence_of_requests_gets_an_answer_that_is_not_declared(vision):
    numbers, steps = count(1), Counter()

    class Sequences(machine()):
        world: ClassVar[Vision] = vision

        def setup(self) -> None:
            self.block = transaction.atomic()
            # As those of Django's own TestCase: what must not be inside a transaction may be inside this one.
            self.block._from_testcase = True
            self.block.__enter__()

        def teardown(self) -> None:
            transaction.set_rollback(True)
            self.block.__exit__(None, None, None)

        def before_call(self, case: Any) -> None:
            """A request that would be taken, with a name of its own, so that the next step has something to go on with."""
            case.query, case.headers = {}, {}
            bodies = list(EXAMPLES.get(case.operation.definition.raw["operationId"], {}).values())
            # A sweep is made by the address of runs, and the links of that lead to runs.
            bodies = [body for body in bodies if "matrix" not in body]
            if bodies:
                case.body = copy.deepcopy(bodies[next(numbers) % len(bodies)])
                case.body |= {key: f"{case.body[key]}-{next(numbers)}" for key in NAMED if key in case.body}

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {self.world.bearer}"}}

        def validate_response(
            self, response: Any, case: Any, additional_checks: Any = (), **kwargs: Any
        ) -> None:
            steps[f"{case.method} {response.status_code}"] += 1
            case.validate_response(response, checks=CHECKS, headers=self.get_call_kwargs(case)["headers"])

    Sequences.run(
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=STEPS,
            derandomize=not SOAK,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )
    assert sum(steps.values()) >= SEQUENCES
    assert {"POST 201", "GET 200", "PATCH 200", "DELETE 204"} <= steps.keys()
