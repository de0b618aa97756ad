"""Every example of a request body in the OpenAPI document is sent, and answered with the success that is declared."""

from __future__ import annotations

import pytest
from django.conf import settings

from foundation.http.examples import examples_of
from tests.api.every_operation import BY_A_POD, BY_THE_CLUSTER
from tests.effort import spread
from tests.openapi import operations

EXAMPLES = examples_of(settings.OPENAPI_REQUEST_EXAMPLES)
WITH_BODY = [name for name, (_, _, operation) in operations().items() if "requestBody" in operation]
WHERE = "portal/openapi/request_examples.yaml has examples by operation id and title"
SENT = [(name, title) for name, bodies in EXAMPLES.items() for title in bodies if name not in BY_A_POD]

pytestmark = pytest.mark.django_db


def test_every_operation_with_a_body_has_an_example_and_no_other_has():
    without = sorted(set(WITH_BODY) - set(EXAMPLES))
    of_none = sorted(set(EXAMPLES) - set(WITH_BODY))
    assert (without, of_none) == ([], []), WHERE


def test_the_document_shows_them():
    for name in WITH_BODY:
        for content in operations()[name][2]["requestBody"]["content"].values():
            shown = {title: example["value"] for title, example in content["examples"].items()}
            assert shown == EXAMPLES[name]


@pytest.mark.parametrize(("name", "title"), spread(SENT, usual=14))
def test_it_is_answered_with_the_success_that_is_declared(name, title, vision, settings, request):
    if name in BY_THE_CLUSTER:
        settings.CLUSTER_KUBECONFIG = request.getfixturevalue("devcluster")
    response = vision.send(name, EXAMPLES[name][title])
    declared = {status for status in operations()[name][2]["responses"] if status.startswith("2")}
    assert str(response.status_code) in declared, (response.content, WHERE)
