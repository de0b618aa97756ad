from __future__ import annotations

import hashlib
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from foundation import clock
from foundation.errors import Conflict, Invalid, NotSignedIn
from teams import services, tokens
from teams.models import ApiToken, AuditEvent
from teams.permissions import check_scope
from tests.factories.teams import ACTOR, PASSWORD, api_client, make_member, make_team, make_token, make_user

ME = "/api/v1/me/"
TOKENS = "/api/v1/tokens/"


def status(plain: str, scheme: str = "Bearer", url: str = ME) -> int:
    return Client().get(url, HTTP_AUTHORIZATION=f"{scheme} {plain}").status_code


def test_a_new_token_is_well_formed_and_never_the_same():
    made = {tokens.new_token() for _ in range(50)}
    assert len(made) == 50
    assert all(tokens.is_well_formed(each) for each in made)


@given(st.integers(4, 60), st.sampled_from(tokens.ALPHABET))
def test_a_mistyped_token_is_refused_by_its_checksum(position, character):
    plain = tokens.new_token()
    typed = plain[:position] + character + plain[position + 1 :]
    assert tokens.is_well_formed(typed) == (typed == plain)


@pytest.mark.parametrize(
    "plain", ["", "short", "x" * 201, "with space in the middle", "mlp_x", "mlr_" + "x" * 40, "é" * 20]
)
def test_what_is_no_token_is_refused_unasked(plain):
    assert not tokens.is_well_formed(plain)


@pytest.mark.django_db
def test_a_token_lets_its_user_in():
    user = make_user("ana")
    assert Client().get(ME, HTTP_AUTHORIZATION=f"bearer {make_token(user)}").json()["username"] == "ana"


@pytest.mark.django_db
def test_who_is_deactivated_is_nobody_at_once_by_token_by_session_and_with_any_scope():
    user = make_user("ana")
    plain, session = make_token(user), Client()
    assert session.login(username="ana", password=PASSWORD)
    assert session.get(ME).status_code == status(plain) == 200
    services.set_active(actor=ACTOR, user=user, active=False, now=clock.now())
    assert session.get(ME).status_code == status(plain) == 401
    # However such a request was let in.
    user.refresh_from_db()
    with pytest.raises(NotSignedIn):
        check_scope(SimpleNamespace(user=user, auth=None), ApiToken.Scope.READ)


@pytest.mark.django_db
def test_only_the_digest_is_kept():
    plain = make_token(make_user())
    token = ApiToken.objects.get()
    assert token.digest == hashlib.sha256(plain.encode()).hexdigest()
    assert plain.startswith(token.prefix)
    secret = plain.rsplit("_", 1)[1]
    for event in AuditEvent.objects.all():
        assert secret not in f"{event.before}{event.after}{event.reason}"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer mlp_" + "x" * 58,
        "Bearer \x00",
        "Bearer " + "x" * 5000,
        "Basic YTpi",
    ],
)
def test_a_credential_that_is_none_is_401_with_a_challenge(header):
    response = Client().get(ME, HTTP_AUTHORIZATION=header)
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.django_db
def test_an_unknown_token_costs_no_query_when_malformed_and_one_when_well_formed(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert status("mlp_nonsense") == 401
    with django_assert_num_queries(1):
        assert status(tokens.new_token()) == 401


@pytest.mark.django_db
def test_a_token_ends_at_its_expiry_to_the_second():
    plain = make_token(make_user(), expires_in_days=1)
    expiry = ApiToken.objects.get().expires_at
    with clock.freeze(expiry - timedelta(seconds=1)):
        assert status(plain) == 200
    with clock.freeze(expiry):
        assert status(plain) == 401


@pytest.mark.django_db
def test_last_use_is_noted_at_most_once_a_minute(django_assert_num_queries):
    plain, start = make_token(make_user()), clock.now()

    def used_at(seconds: int):
        with clock.freeze(start + timedelta(seconds=seconds)):
            assert status(plain) == 200
        return ApiToken.objects.get().last_used_at

    assert used_at(1) == start + timedelta(seconds=1)
    assert used_at(59) == start + timedelta(seconds=1)
    assert used_at(61) == start + timedelta(seconds=61)


@pytest.mark.django_db
def test_a_token_check_costs_one_query(django_assert_num_queries):
    plain = make_token(make_user())
    status(plain)
    with django_assert_num_queries(2):  # the token with its user; the memberships that the answer shows
        assert status(plain) == 200


@pytest.mark.django_db
def test_a_new_token_is_answered_once_with_its_secret():
    client = api_client(make_user())
    made = client.post(TOKENS, {"name": "ci", "scopes": ["submit", "read"], "expires_in_days": 7})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    body = made.json()
    assert body["scopes"] == ["read", "submit"]
    assert body["secret"].startswith(body["prefix"])
    assert status(body["secret"]) == 200
    again = client.get(made["Location"])
    assert again.json() == {name: value for name, value in body.items() if name != "secret"} | {
        "last_used_at": again.json()["last_used_at"]
    }
    assert body["secret"] not in str(client.get(TOKENS).json())


@pytest.mark.django_db
def test_making_a_token_again_with_the_same_key_shows_no_secret_twice():
    client = api_client(make_user())
    body = {"name": "ci", "scopes": ["read"]}
    assert client.post(TOKENS, body, headers={"Idempotency-Key": "k"}).status_code == 201
    again = client.post(TOKENS, body, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["code"]) == (409, "answer_not_kept")
    assert ApiToken.objects.filter(name="ci").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"scopes": ["read"]}, "name", "required"),
        ({"name": "  ", "scopes": ["read"]}, "name", "blank"),
        ({"name": "x" * 101, "scopes": ["read"]}, "name", "max_length"),
        ({"name": "ci"}, "scopes", "required"),
        ({"name": "ci", "scopes": []}, "scopes", "min_length"),
        ({"name": "ci", "scopes": ["root"]}, "scopes.0", "invalid_choice"),
        ({"name": "ci", "scopes": ["read"], "expires_in_days": 0}, "expires_in_days", "min_value"),
        ({"name": "ci", "scopes": ["read"], "expires_in_days": 366}, "expires_in_days", "max_value"),
        ({"name": "ci", "scopes": ["read"], "team": "nobodys"}, "team", "unknown_team"),
        ({"name": "ci", "scopes": ["read"], "secret": "mine"}, "secret", "unknown_field"),
    ],
)
def test_a_senseless_token_is_refused_by_field(body, field, code):
    response = api_client(make_user()).post(TOKENS, body)
    assert response.status_code == 422
    assert [(each["field"], each["code"]) for each in response.json()["errors"]] == [(field, code)]


@pytest.mark.django_db
def test_tokens_of_others_are_not_listed():
    make_token(make_user())
    theirs = ApiToken.objects.get()
    client = api_client(make_user())
    assert [each["name"] for each in client.get(TOKENS).json()["results"]] == ["tests"]
    assert str(theirs.public_id) not in str(client.get(TOKENS).json())


@pytest.mark.django_db
def test_revoking_over_rest_ends_the_token_itself():
    user = make_user()
    client = api_client(user)
    token = ApiToken.objects.get()
    assert client.delete(f"{TOKENS}{token.public_id}/").status_code == 204
    assert client.get(ME).status_code == 401
    token.refresh_from_db()
    assert token.revoked_by == user


@pytest.mark.django_db
def test_a_token_gives_no_scope_that_it_lacks():
    client = api_client(make_user(), scopes=("read", "manage"))
    assert client.post(TOKENS, {"name": "ci", "scopes": ["read"]}).status_code == 201
    refused = client.post(TOKENS, {"name": "ci", "scopes": ["submit"]})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")


@pytest.mark.django_db
def test_a_token_of_one_team_sees_that_team_and_makes_tokens_of_it_only():
    user = make_user(quota_manager=True)
    vision, speech = make_team("vision"), make_team("speech")
    for team in (vision, speech):
        make_member(team=team, user=user)
    client = api_client(user, team=vision)
    assert [each["slug"] for each in client.get("/api/v1/teams/").json()["results"]] == ["vision"]
    assert client.get("/api/v1/teams/speech/").status_code == 404
    assert client.get(ME).json()["roles"] == []
    assert client.post(TOKENS, {"name": "a", "scopes": ["read"]}).json()["team"] == "vision"
    assert client.post(TOKENS, {"name": "a", "scopes": ["read"], "team": "speech"}).status_code == 403


@pytest.mark.django_db
def test_a_team_token_opens_nothing_once_its_user_has_left_the_team():
    member = make_member()
    client = api_client(member.user, team=member.team)
    services.remove_member(actor=ACTOR, membership=member, now=clock.now())
    assert client.get(f"/api/v1/teams/{member.team.slug}/").status_code == 404
    assert client.get("/api/v1/teams/").json()["results"] == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "longest", "too_much"),
    [("name", "x" * 100, "x" * 101), ("expires_in_days", 365, 366), ("expires_in_days", 1, 0)],
)
def test_bootstrap_is_held_to_the_bounds_of_the_api(field, longest, too_much):
    user = make_user()
    make_token(user, **{field: longest})
    with pytest.raises(Invalid) as caught:
        make_token(user, **{field: too_much})
    assert [each.field for each in caught.value.errors] == [field]


@pytest.mark.django_db
def test_a_team_token_needs_a_membership():
    with pytest.raises(Invalid) as caught:
        make_token(make_user(), team=make_team())
    assert [each.field for each in caught.value.errors] == ["team"]


@pytest.mark.django_db
def test_a_token_that_is_brought_along_works_and_cannot_be_taken_twice():
    user = make_user()
    make_token(user, plain="from-the-environment-4711")
    assert status("from-the-environment-4711") == 200
    with pytest.raises(Conflict):
        make_token(user, plain="from-the-environment-4711")
    with pytest.raises(Invalid):
        make_token(user, plain="short")


@pytest.mark.django_db
def test_live_tokens_of_a_user_are_limited(monkeypatch):
    monkeypatch.setattr("teams.credentials.LIVE_TOKENS_MAX", 2)
    user = make_user()
    make_token(user)
    make_token(user)
    with pytest.raises(Conflict, match="most"):
        make_token(user)
    services.revoke_token(actor=ACTOR, token=ApiToken.objects.first(), now=clock.now())
    make_token(user)
