"""The tokens of a team's endpoints, for its leads: in pages and by REST."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from gateway.models import EndpointToken
from gateway.services import create_endpoint_token
from teams import services as people
from teams.actors import Actor
from teams.models import AuditEvent
from tests.factories.submitted import make_endpoint
from tests.factories.teams import ACTOR, api_client, make_member, make_team
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db


class Team:
    def __init__(self):
        self.team = make_team("vision")
        self.lead = make_member("lead", team=self.team).user
        self.leaver = make_member("lead", team=self.team)
        self.endpoint = make_endpoint(self.team, self.lead)
        self.old = self.token("old", created=clock.now() - timedelta(days=2), expires_in_days=1)
        self.left = self.token("of-who-left")
        people.remove_member(actor=ACTOR, membership=self.leaver, now=clock.now())
        self.page = "/teams/vision/endpoint-tokens/"
        self.rest = f"/api/v1{self.page}"

    def token(self, name, created=None, **values):
        actor = Actor.of_user(self.leaver.user)
        chosen = {"expires_in_days": 30, "now": created or clock.now(), **values}
        return create_endpoint_token(actor=actor, endpoint=self.endpoint, name=name, **chosen)[0]


@pytest.fixture
def vision():
    return Team()


def test_a_lead_sees_who_made_each_and_why_it_opens_nothing(vision):
    html = signed_in(vision.lead).get(vision.page).content.decode()
    for said in ("of-who-left", vision.leaver.user.username, "who made it left the team", "expired", "never"):
        assert said in html
    assert f'href="{vision.page}"' in signed_in(vision.lead).get("/teams/vision/").content.decode()
    shown = api_client(vision.lead).get(vision.rest).json()["results"]
    assert {each["name"]: each["ended_because"] for each in shown} == {
        "old": "expired",
        "of-who-left": "maker_left",
    }
    assert {each["endpoint_name"] for each in shown} == {vision.endpoint.name}
    assert {each["created_by"] for each in shown} == {vision.leaver.user.username}


def test_why_follows_the_maker(vision):
    def why():
        (shown,) = (
            api_client(vision.lead, name=str(clock.now()))
            .get(f"{vision.rest}?name=of-who-left")
            .json()["results"]
        )
        return shown["ended_because"]

    back = people.add_member(
        actor=ACTOR, team=vision.team, user=vision.leaver.user, role="member", now=clock.now()
    )
    assert why() is None
    people.change_role(actor=ACTOR, membership=back, role="viewer", now=clock.now())
    assert why() == "maker_role"
    people.set_active(actor=ACTOR, user=vision.leaver.user, active=False, now=clock.now())
    assert why() == "maker_inactive"


def test_a_lead_ends_the_token_of_who_left_for_good(vision):
    page = signed_in(vision.lead).post(f"{vision.page}{vision.left.public_id}/revoke/")
    assert (page.status_code, page["Location"]) == (303, vision.page)
    vision.left.refresh_from_db()
    assert vision.left.revoked_by == vision.lead
    told = AuditEvent.objects.get(action="endpoint-token.revoke")
    assert (told.actor, told.team) == (vision.lead, vision.team)
    people.add_member(actor=ACTOR, team=vision.team, user=vision.leaver.user, role="lead", now=clock.now())
    assert EndpointToken.objects.get(pk=vision.left.pk).end_at(clock.now()) == "revoked"


def test_by_rest_too_and_in_no_other_team(vision):
    other = make_team("speech")
    people.add_member(actor=ACTOR, team=other, user=vision.lead, role="lead", now=clock.now())
    client = api_client(vision.lead)
    token = vision.left.public_id
    assert client.delete(f"/api/v1/teams/speech/endpoint-tokens/{token}/").status_code == 404
    assert signed_in(vision.lead).post(f"/teams/speech/endpoint-tokens/{token}/revoke/").status_code == 404
    assert client.delete(f"{vision.rest}{token}/").status_code == 204
    vision.left.refresh_from_db()
    assert vision.left.revoked_by == vision.lead


def test_a_token_of_lesser_scope_reads_them_and_ends_none(vision):
    reads = api_client(vision.lead, name="reads", scopes=("read", "submit"))
    assert reads.get(vision.rest).status_code == 200
    assert reads.delete(f"{vision.rest}{vision.left.public_id}/").status_code == 403


def test_the_page_costs_as_much_for_many_as_for_one(vision, django_assert_max_num_queries):
    for number in range(10):
        create_endpoint_token(
            actor=Actor.of_user(vision.lead),
            endpoint=vision.endpoint,
            name=f"n{number}",
            expires_in_days=1,
            now=clock.now(),
        )
    client = signed_in(vision.lead)
    with django_assert_max_num_queries(8):
        assert client.get(vision.page).status_code == 200
