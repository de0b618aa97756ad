"""What a platform admin lets the pods of a team do, asked for by who may not: root, images, labels, pull secrets."""

from __future__ import annotations

import pytest

from foundation import clock
from foundation.models import PlatformSettings
from teams.secret_names import record_secret
from teams.services import update_team
from tenancy.team_secrets import PULL_SECRET_KEY
from tests.api.bench import ENDPOINTS, RUNS, problem
from tests.factories.submitted import endpoint_body, run_body
from tests.factories.teams import ACTOR, api_client, make_user

QUIET = {"flavor": "a100-40gb", "cpu": "1", "memory": "1Gi"}
WAYS = [
    (RUNS, run_body),
    (f"{RUNS}preview/", run_body),
    (ENDPOINTS, endpoint_body),
    (f"{ENDPOINTS}preview/", endpoint_body),
]
VISION = "/api/v1/teams/vision/"


def let(bench, **policy):
    update_team(actor=ACTOR, team=bench.team, changes=policy, now=clock.now())


def ask(bench, path, make, **body):
    return bench.client.post(path, make("vision", **QUIET, **body))


@pytest.mark.parametrize(("path", "make"), WAYS)
def test_root_is_refused_unless_the_team_may(bench, path, make):
    found = problem(ask(bench, path, make, run_as_user=0), 422, "run_as_user")
    assert found["errors"][0]["code"] == "root_not_allowed"
    assert "may not run as root" in found["errors"][0]["message"]
    let(bench, may_run_as_root=True)
    assert ask(bench, path, make, run_as_user=0).status_code in {200, 201}
    let(bench, pod_security="restricted")
    assert "restricted" in problem(ask(bench, path, make, run_as_user=0), 422, "run_as_user")["detail"]


@pytest.mark.parametrize(("path", "make"), WAYS)
def test_an_image_outside_of_the_list_is_refused_with_what_is_allowed(bench, path, make):
    assert ask(bench, path, make, image="evil.example/x:1").status_code in {200, 201}, "off by default"
    let(bench, image_prefixes=["ghcr.io/acme"])
    found = problem(ask(bench, path, make, name="b", image="ghcr.io/acme-evil/x:1"), 422, "image")
    assert found["errors"][0]["code"] == "image_not_allowed"
    assert "ghcr.io/acme." in found["errors"][0]["message"]
    assert ask(bench, path, make, name="b", image="GHCR.io/acme/x:1").status_code in {200, 201}


def test_the_platforms_list_holds_where_the_team_has_none(bench):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"image_prefixes": ["python"]})
    problem(ask(bench, RUNS, run_body, image="ghcr.io/acme/x:1"), 422, "image")
    let(bench, image_prefixes=["ghcr.io"])
    assert ask(bench, RUNS, run_body, image="ghcr.io/acme/x:1").status_code == 201
    problem(ask(bench, RUNS, run_body, name="b", image="python:3.12"), 422, "image")


def test_a_change_of_an_endpoint_is_no_way_round(bench):
    made = bench.client.post(ENDPOINTS, endpoint_body("vision", **QUIET)).json()
    url = f"{ENDPOINTS}{made['id']}/"
    let(bench, image_prefixes=["ghcr.io/acme"])
    body = {"spec": {**made["spec"], "image": "evil.example/x:1"}}
    spec = problem(bench.client.patch(url, body["spec"]), 422)
    assert any("image" in error["field"] for error in spec["errors"]), spec


@pytest.mark.parametrize(
    "label",
    [
        "azure.workload.identity/use",
        "Azure.Workload.Identity/use",
        "eks.amazonaws.com/role",
        "iam.amazonaws.com/role",
        "iam.gke.io/service-account",
        "sidecar.istio.io/inject",
        "istio.io/rev",
        "security.istio.io/tlsMode",
        "linkerd.io/inject",
        "vault.hashicorp.com/agent-inject",
        "aadpodidbinding",
    ],
)
def test_labels_that_give_an_identity_are_refused_unless_allowed(bench, label):
    answer = ask(bench, RUNS, run_body, labels={label: "true"})
    assert answer.status_code == 422, answer.content
    if label == label.lower() or "/" not in label:
        assert answer.json()["errors"][0]["code"] == "label_not_allowed"
        let(bench, allowed_labels=[label])
        assert ask(bench, RUNS, run_body, labels={label: "true"}).status_code == 201


def test_a_pull_secret_that_nobody_registered_is_refused(bench):
    assert problem(ask(bench, RUNS, run_body, image_pull_secrets=["ghcr"]), 422, "image_pull_secrets.0")
    record_secret(
        team=bench.team, name="ghcr", keys=["token"], written_here=True, actor=ACTOR, now=clock.now()
    )
    problem(ask(bench, RUNS, run_body, image_pull_secrets=["ghcr"]), 422, "image_pull_secrets.0")
    record_secret(
        team=bench.team, name="ghcr", keys=[PULL_SECRET_KEY], written_here=True, actor=ACTOR, now=clock.now()
    )
    assert ask(bench, RUNS, run_body, image_pull_secrets=["ghcr"]).status_code == 201


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("may_run_as_root", True, "x"),
        ("pod_security", "baseline", "privileged"),
        ("egress", ["metadata", "10.0.0.0/8"], ["internet"]),
        ("image_prefixes", ["ghcr.io/acme"], ["ghcr.io/acme:1"]),
        ("allowed_labels", ["istio.io"], ["a b"]),
    ],
)
def test_platform_admins_alone_let_a_team_do_more(bench, field, value, wrong):
    problem(bench.client.patch(VISION, {field: value}), 403)
    problem(api_client(bench.lead).patch(VISION, {field: value}), 403)
    problem(api_client(make_user(quota_manager=True)).patch(VISION, {field: value}), 403)
    admin = api_client(make_user(platform_admin=True))
    problem(admin.patch(VISION, {field: wrong}), 422)
    assert admin.patch(VISION, {field: value}).json()[field] == value
