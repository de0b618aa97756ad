"""Secrets over REST and on the team's page, and runs that name them."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from cluster.client import connect
from foundation import clock
from jobs.models import TrainingRun
from teams.models import AuditEvent, SecretName
from teams.secret_names import record_secret
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.submitted import endpoint_body, run_body
from tests.factories.teams import ACTOR, api_client
from workloads.models import Workload

URL = "/api/v1/teams/vision/secrets/"


@pytest.fixture
def known(bench):
    return record_secret(
        team=bench.team, name="hf", keys=["token"], written_here=True, actor=ACTOR, now=clock.now()
    )


def naming(secret="hf", key="token"):  # noqa: S107 - a Secret's name
    return {"env": [{"name": "A", "value": "b"}, {"name": "HF_TOKEN", "secret": secret, "key": key}]}


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        (naming("nothing"), "env.1.secret", "unknown_secret"),
        (naming(key="other"), "env.1.key", "unknown_key"),
    ],
)
def test_a_secret_that_is_not_known_is_told_at_once_with_what_is_there(bench, known, body, field, code):
    with Unchanged():
        for path, make in ((RUNS, run_body), (ENDPOINTS, endpoint_body)):
            for url in (path, f"{path}preview/"):
                said = problem(bench.client.post(url, make("vision", **body)), 422, field, code=code)
                assert ("hf" if field.endswith("secret") else "token") in said["detail"]


def test_a_run_and_an_endpoint_name_a_key_of_a_secret(bench, known):
    bench.run(**naming())
    assert TrainingRun.objects.get().spec["env"][1] == {"name": "HF_TOKEN", "secret": "hf", "key": "token"}
    made = bench.endpoint(**naming())
    url = f"{ENDPOINTS}{made['id']}/"
    problem(bench.client.patch(url, naming("gone")), 422, "env.1.secret", code="unknown_secret")
    assert bench.client.patch(url, {"image": "example.org/serve:2"}).status_code == 200


def test_another_teams_secret_is_not_there(bench, known):
    from tests.factories.teams import make_team

    SecretName.objects.update(team=make_team("other"))
    problem(bench.client.post(RUNS, run_body("vision", **naming())), 422, "env.1.secret")


WRONG = [
    ({}, "values", "required"),
    ({"values": {}}, "values", "required"),
    ({"values": {"token": "a"}, "keys": ["token"]}, "values", "required"),
    ({"values": {"to ken": "a"}}, "values", "invalid_key"),
    ({"values": {"token": 5}}, "values", "invalid_value"),
    ({"values": {"token": "x" * 2**20, "b": "y"}}, "values", "too_large"),
    ({"values": {f"k{n}": "" for n in range(201)}}, "values", "too_many"),
    ({"values": "canary"}, "values", "not_a_dict"),
    ({"keys": []}, "keys", "min_length"),
    ({"keys": ["a b"]}, "keys.0", "invalid_key"),
    ({"value": {"token": "canary"}}, "value", "unknown_field"),
]


@pytest.mark.parametrize(("body", "field", "code"), WRONG, ids=[f"{case[1]}-{case[2]}" for case in WRONG])
def test_a_wrong_body_is_refused_by_name_and_no_value_is_repeated(bench, body, field, code):
    with Unchanged():
        said = problem(bench.client.put(f"{URL}hf/", body), 422, code=code)
    assert field in {each["field"] for each in said["errors"]}
    assert "canary" not in json.dumps(said)


@pytest.mark.django_db(transaction=True)
def test_written_listed_used_and_deleted(devcluster, settings):
    from tests.api.bench import Bench

    settings.CLUSTER_KUBECONFIG = devcluster
    bench = Bench()
    put = bench.client.put(f"{URL}hf/", {"values": {"token": "canary-value"}})
    assert put.status_code == 200, put.content
    listed = bench.client.get(URL).json()["results"]
    assert listed == [put.json()]
    assert (listed[0]["name"], listed[0]["keys"], listed[0]["updated_by"]) == ("hf", ["token"], "ana")
    problem(bench.client.put(f"{URL}Bad_name/", {"values": {"a": "b"}}), 422, "name")
    problem(bench.client.put(f"{URL}hf/", {"keys": ["token"]}), 403)
    lead = api_client(bench.lead)
    problem(lead.put(f"{URL}missing/", {"keys": ["token"]}), 422, "name", code="unknown_secret")

    page = Client()
    page.force_login(bench.user)
    shown = page.get("/teams/vision/").content.decode()
    assert "<code>token</code>" in shown
    assert "canary" not in shown
    sent = {"name": "aws", "key": ["id", "key", ""], "value": ["canary-a", "canary-b", ""]}
    back = page.post("/teams/vision/secrets/", sent, follow=True).content.decode()
    assert "aws is written to the cluster" in back
    assert "canary" not in back
    assert list(SecretName.objects.values_list("name", "keys")) == [("aws", ["id", "key"]), ("hf", ["token"])]
    back = page.post("/teams/vision/secrets/", {"name": "x", "key": "a b", "value": "canary"}, follow=True)
    assert "a key holds letters" in back.content.decode()
    assert "canary" not in back.content.decode()
    assert page.post("/teams/vision/secrets/aws/delete/").status_code == 303
    assert bench.client.delete(f"{URL}hf/").status_code == 204
    problem(bench.client.delete(f"{URL}hf/"), 404)
    assert not SecretName.objects.exists()
    events = [[event.before, event.after] for event in AuditEvent.objects.all()]
    assert "canary" not in json.dumps(events)
    assert not Workload.objects.exists()
    assert connect(devcluster).version()
