"""Members on the team's page: plain forms that lead back to it, for leads alone."""

from __future__ import annotations

import pytest
from django.test import Client

from teams.models import AuditEvent, Membership
from teams.services import set_active
from tests.factories.teams import ACTOR, make_user
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

TEAM = "/teams/vision/"
ADD = f"{TEAM}members/"


@pytest.fixture
def lead(world) -> Client:
    return signed_in(world.lead)


def said(response) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def roles(world) -> dict[str, str]:
    return dict(Membership.objects.filter(team=world.team).values_list("user__username", "role"))


def test_a_lead_adds_a_member_changes_the_role_and_removes_them(lead, world):
    make_user("nina")
    back = lead.post(ADD, {"username": " nina ", "role": "viewer"}, follow=True)
    assert back.redirect_chain == [(f"{TEAM}#members", 303)]
    assert said(back) == ["nina is a viewer of Vision now."]
    assert roles(world)["nina"] == "viewer"
    assert said(lead.post(f"{ADD}nina/", {"role": "member"}, follow=True)) == [
        "nina is a member of Vision now."
    ]
    assert roles(world)["nina"] == "member"
    assert said(lead.post(f"{ADD}nina/remove/", follow=True)) == ["nina is in Vision no more."]
    assert "nina" not in roles(world)
    trail = AuditEvent.objects.filter(action__startswith="membership.", actor=world.lead).order_by("id")
    assert list(trail.values_list("action", "after__role")) == [
        ("membership.create", "viewer"),
        ("membership.change-role", "member"),
        ("membership.delete", None),
    ]


@pytest.mark.parametrize(
    ("path", "sent", "told"),
    [
        ("", {"username": "nobody", "role": "member"}, "There is no user nobody."),
        ("", {"username": "a\x00", "role": "member"}, "There is no user a."),
        ("", {"username": "ana", "role": "lead"}, "ana is a member of team vision already."),
        ("", {"username": "asleep", "role": "lead"}, "asleep is not active."),
        ("", {"username": "mallory", "role": "owner"}, "A role is one of viewer, member, lead."),
        ("ana/", {"role": ""}, "A role is one of viewer, member, lead."),
        ("mallory/", {"role": "lead"}, "mallory is no member of team vision."),
        ("mallory/remove/", {}, "mallory is no member of team vision."),
    ],
)
def test_what_cannot_be_done_is_said_on_the_page_and_nothing_changes(lead, world, path, sent, told):
    set_active(actor=ACTOR, user=make_user("asleep"), active=False, now=world.now)
    before = roles(world)
    assert said(lead.post(ADD + path, sent, follow=True)) == [told]
    assert roles(world) == before


def test_only_leads_and_platform_admins_are_offered_the_forms(ana, viewer, lead, world):
    admin = signed_in(make_user("root", platform_admin=True))
    for client in (lead, admin):
        assert "Add a member" in client.get(TEAM).content.decode()
    assert admin.post(f"{ADD}ana/", {"role": "viewer"}).status_code == 303
    for client in (ana, viewer):
        assert "Add a member" not in client.get(TEAM).content.decode()
    assert roles(world) == {"ana": "viewer", "bo": "lead", "vera": "viewer"}


def test_everybody_may_leave_and_is_led_to_what_they_may_still_see(viewer, world):
    assert "Leave" in viewer.get(TEAM).content.decode()
    back = viewer.post(f"{ADD}vera/remove/", follow=True)
    assert back.redirect_chain[0] == ("/teams/", 303)
    assert said(back) == ["You are in Vision no more."]
    assert "vera" not in roles(world)


def test_a_team_of_more_members_than_are_shown_is_told_how_many_more(lead, monkeypatch):
    monkeypatch.setattr("pages.teams.team.MEMBERS_MAX", 1)
    assert "And 2 more; by REST" in lead.get(TEAM).content.decode()
