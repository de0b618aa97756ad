from __future__ import annotations

import base64
import json

import pytest

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import MANAGED_BY, MANAGER, TEAM, WORKLOAD_ID
from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound
from teams.actors import Actor
from teams.models import AuditEvent, SecretName
from teams.secret_names import SECRETS_MAX
from tenancy.namespaces import ensure_namespace
from tenancy.team_secrets import PULL_SECRET_KEY, delete_secret, register_secret, write_secret
from tests.factories.teams import make_member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lead(bench):
    return Actor.of_user(make_member("lead", team=bench.team).user)


def write(bench, name="hf", **values):
    return write_secret(
        bench.client,
        team=bench.team,
        name=name,
        values=values or {"token": "canary"},
        actor=Actor.of_user(bench.member),
        now=clock.now(),
    )


def held(bench, name="hf"):
    """What the Secret holds, read with the rights of the tests."""
    found = bench.client.get(ObjectRef("v1", "Secret", bench.team.namespace_name, name))
    return found["type"], {key: base64.b64decode(text).decode() for key, text in found["data"].items()}


def foreign(bench, name="theirs", **labels):
    """A Secret that somebody made with kubectl."""
    ensure_namespace(bench.client, bench.team)
    metadata = {"name": name, "namespace": bench.team.namespace_name, "labels": labels}
    data = {"password": base64.b64encode(b"x").decode()}
    return bench.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def test_values_go_to_the_cluster_and_names_stay(bench):
    row = write(bench, token="canary-ü", other="")
    assert held(bench) == ("Opaque", {"token": "canary-ü", "other": ""})
    assert (row.keys, row.written_here, row.updated_by) == (["other", "token"], True, bench.member)
    events = AuditEvent.objects.filter(action="secret.written")
    assert "canary" not in json.dumps([[event.before, event.after] for event in events])


def test_writing_again_replaces_every_key(bench):
    write(bench, token="one", old="x")
    row = write(bench, token="two")
    assert held(bench) == ("Opaque", {"token": "two"})
    assert SecretName.objects.get() == row
    assert row.keys == ["token"]


def test_a_registry_login_is_a_secret_that_images_are_pulled_with(bench):
    login = json.dumps({"auths": {"ghcr.io": {"auth": "eDp5"}}})
    write(bench, "ghcr", **{PULL_SECRET_KEY: login})
    assert held(bench, "ghcr") == ("kubernetes.io/dockerconfigjson", {PULL_SECRET_KEY: login})


def test_what_the_portal_did_not_make_is_not_overwritten(bench):
    foreign(bench)
    with pytest.raises(Conflict) as caught:
        write(bench, "theirs")
    assert caught.value.code == "name_taken"
    assert held(bench, "theirs")[1] == {"password": "x"}
    assert not SecretName.objects.exists()


def test_the_metadata_that_is_asked_for_holds_no_value(bench, client):
    foreign(bench)
    found = client.read_identity(ObjectRef("v1", "Secret", bench.team.namespace_name, "theirs"))
    assert found["metadata"]["name"] == "theirs"
    if found["kind"] == "PartialObjectMetadata":
        assert "data" not in found


def test_a_lead_registers_what_exists_and_forgetting_it_deletes_nothing(bench, lead):
    foreign(bench)
    given = {"team": bench.team, "name": "theirs", "now": clock.now()}
    with pytest.raises(NotAllowed):
        register_secret(bench.client, **given, keys=["password"], actor=Actor.of_user(bench.member))
    row = register_secret(bench.client, **given, keys=["password"], actor=lead)
    assert (row.keys, row.written_here) == (["password"], False)
    with pytest.raises(NotAllowed):
        delete_secret(bench.client, **given, actor=Actor.of_user(bench.member))
    delete_secret(bench.client, **given, actor=lead)
    assert not SecretName.objects.exists()
    assert held(bench, "theirs")[1] == {"password": "x"}


def test_what_is_not_there_or_an_attempts_token_is_not_registered(bench, lead):
    def register(name):
        register_secret(bench.client, team=bench.team, name=name, keys=["token"], actor=lead, now=clock.now())

    with pytest.raises(Invalid, match="Make it first") as caught:
        register("missing")
    assert caught.value.errors[0].code == "unknown_secret"
    foreign(bench, "run-token", **{MANAGED_BY: MANAGER, TEAM: bench.team.slug, WORKLOAD_ID: "0192f0c1"})
    with pytest.raises(Invalid) as caught:
        register("run-token")
    assert caught.value.errors[0].code == "reserved_name"
    with pytest.raises(Conflict):
        write(bench, "run-token")


def test_deleting_deletes_it_in_the_cluster_and_only_what_the_portal_made(bench):
    write(bench)
    actor = Actor.of_user(bench.member)
    delete_secret(bench.client, team=bench.team, name="hf", actor=actor, now=clock.now())
    names = [
        item["metadata"]["name"]
        for item in bench.client.list(kinds.SECRET, namespace=bench.team.namespace_name).items
    ]
    assert "hf" not in names
    with pytest.raises(NotFound):
        delete_secret(bench.client, team=bench.team, name="hf", actor=actor, now=clock.now())
    # Deleted and made anew by somebody else meanwhile: the row goes, theirs stays.
    write(bench, "other")
    own = bench.client.get(ObjectRef("v1", "Secret", bench.team.namespace_name, "other"))
    bench.client.delete(
        ObjectRef("v1", "Secret", bench.team.namespace_name, "other"), uid=own["metadata"]["uid"]
    )
    foreign(bench, "other")
    delete_secret(bench.client, team=bench.team, name="other", actor=actor, now=clock.now())
    assert held(bench, "other")[1] == {"password": "x"}


def test_a_viewer_writes_none_and_a_bad_name_is_told(bench):
    viewer = make_member("viewer", team=bench.team).user
    with pytest.raises(NotAllowed):
        write_secret(
            bench.client,
            team=bench.team,
            name="hf",
            values={"a": "b"},
            actor=Actor.of_user(viewer),
            now=clock.now(),
        )
    with pytest.raises(Invalid) as caught:
        write(bench, "../x")
    assert [problem.field for problem in caught.value.errors] == ["name"]


def test_a_team_has_so_many_secrets_and_writes_those_anew(bench):
    """Without an end one member filled the cluster's store, a megabyte at a time."""
    write(bench)
    others = [SecretName(team=bench.team, name=f"s{number}", keys=["k"]) for number in range(SECRETS_MAX - 1)]
    SecretName.objects.bulk_create(others)
    with pytest.raises(Conflict, match="100 secrets, which is the most") as refused:
        write(bench, "one-more")
    assert refused.value.code == "too_many_secrets"
    with pytest.raises(ObjectNotFound):
        held(bench, "one-more")
    write(bench, token="another")
    assert held(bench)[1] == {"token": "another"}
    others[0].delete()
    write(bench, "one-more")
