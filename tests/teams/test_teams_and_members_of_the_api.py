from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from quotas.limits import create_cohort
from teams import services
from teams.models import AuditEvent, Membership, Team
from tests.factories.teams import ACTOR, PASSWORD, api_client, make_member, make_team, make_user

TEAMS = "/api/v1/teams/"
VISION = f"{TEAMS}vision/"
MEMBERS = f"{VISION}members/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def vision() -> Team:
    for name in ("research", "other"):
        create_cohort(name=name, parent=None, actor=ACTOR, now=clock.now())
    return make_team("vision", cohort_name="research")


def client_of(role: str, team: Team):
    return api_client(make_member(role, team=team).user)


def slugs(response) -> list[str]:
    return [each["slug"] for each in response.json()["results"]]


def test_everybody_sees_their_own_teams_and_global_roles_see_all(vision):
    make_team("speech")
    assert slugs(client_of("viewer", vision).get(TEAMS)) == ["vision"]
    assert slugs(api_client(make_user()).get(TEAMS)) == []
    assert slugs(api_client(make_user(quota_manager=True)).get(TEAMS)) == ["speech", "vision"]
    assert slugs(api_client(make_user(platform_admin=True)).get(TEAMS)) == ["speech", "vision"]


def test_a_quota_manager_reads_every_team_and_manages_none(vision):
    client = api_client(make_user(quota_manager=True))
    assert client.get(MEMBERS).status_code == 200
    assert client.patch(VISION, {"name": "Mine"}).status_code == 403


def test_a_team_is_answered_in_full(vision):
    body = client_of("viewer", vision).get(VISION).json()
    assert body == {
        "id": str(vision.public_id),
        "slug": "vision",
        "name": "Vision",
        "cohort": "research",
        "namespace": "team-vision",
        "pod_security": "automatic",
        "mlflow_tracking_uri": "",
        "version": 1,
        "created_at": vision.created_at.isoformat().replace("+00:00", "Z"),
        "may_run_as_root": False,
        "egress": ["everywhere"],
        "image_prefixes": [],
        "allowed_labels": [],
        "pod_security_enforced": "restricted",
        "state": "open",
        "closing_since": None,
        "closed_at": None,
        "closing_reason": "",
    }


def test_a_platform_admin_makes_teams_and_nobody_else():
    body = {"slug": "speech", "name": "Speech", "pod_security": "restricted"}
    assert api_client(make_user(quota_manager=True)).post(TEAMS, body).status_code == 403
    made = api_client(make_user("root", platform_admin=True)).post(TEAMS, body)
    assert made.status_code == 201
    assert made["Location"].endswith("/api/v1/teams/speech/")
    assert made["ETag"] == '"1"'
    event = AuditEvent.objects.get(action="team.create")
    assert (event.actor_label, event.team_slug, event.after["pod_security"]) == (
        "root",
        "speech",
        "restricted",
    )
    assert event.request_id == made["X-Request-ID"]
    assert event.ip == "127.0.0.1"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"name": "x"}, "slug", "required"),
        ({"slug": "Vision", "name": "x"}, "slug", "invalid_slug"),
        ({"slug": "1vision", "name": "x"}, "slug", "invalid_slug"),
        ({"slug": "vision-", "name": "x"}, "slug", "invalid_slug"),
        ({"slug": "vision\n", "name": "x", "namespace": "a_b"}, "namespace", "invalid_slug"),
        ({"slug": "v" * 41, "name": "x"}, "slug", "max_length"),
        ({"slug": "v", "name": ""}, "name", "blank"),
        ({"slug": "v", "name": "x", "pod_security": "privileged"}, "pod_security", "invalid_choice"),
        ({"slug": "v", "name": "x", "owner": "me"}, "owner", "unknown_field"),
    ],
)
def test_a_senseless_team_is_refused_by_field(body, field, code):
    response = api_client(make_user(platform_admin=True)).post(TEAMS, body)
    assert response.status_code == 422
    assert (field, code) in {(each["field"], each["code"]) for each in response.json()["errors"]}


def test_slugs_and_namespaces_are_taken_once():
    client = api_client(make_user(platform_admin=True))
    make_team("vision")
    make_team("speech", namespace="ml-speech")

    def code(**body) -> str:
        response = client.post(TEAMS, {"name": "x", **body})
        assert response.status_code == 409
        return response.json()["code"]

    assert code(slug="vision") == "slug_taken"
    assert code(slug="other", namespace="ml-speech") == "namespace_taken"
    assert code(slug="other", namespace="team-vision") == "namespace_taken"
    make_team("third", namespace="team-fourth")
    assert code(slug="fourth") == "namespace_taken"


def test_a_lead_renames_the_team_and_an_admin_changes_the_rest(vision):
    lead, admin = client_of("lead", vision), api_client(make_user(platform_admin=True))
    renamed = lead.patch(VISION, {"name": "Computer vision"})
    assert (renamed.status_code, renamed.json()["name"], renamed["ETag"]) == (200, "Computer vision", '"2"')
    assert lead.patch(VISION, {"cohort": "other"}).status_code == 403
    assert admin.patch(VISION, {"cohort": "other", "pod_security": "restricted"}).json()["cohort"] == "other"
    event = AuditEvent.objects.filter(action="team.update").first()
    assert (event.before, event.after) == ({"name": "Vision"}, {"name": "Computer vision"})


@pytest.mark.parametrize("field", ["slug", "namespace"])
def test_what_names_objects_in_the_cluster_never_changes(vision, field):
    response = api_client(make_user(platform_admin=True)).patch(VISION, {field: "other"})
    assert [(each["field"], each["code"]) for each in response.json()["errors"]] == [(field, "read_only")]


def test_a_change_that_changes_nothing_leaves_no_trace(vision):
    assert client_of("lead", vision).patch(VISION, {"name": "Vision"})["ETag"] == '"1"'
    assert not AuditEvent.objects.filter(action="team.update").exists()


def test_a_stale_if_match_changes_nothing(vision):
    lead = client_of("lead", vision)
    tag = lead.get(VISION)["ETag"]
    assert lead.patch(VISION, {"name": "A"}, headers={"If-Match": tag}).status_code == 200
    stale = lead.patch(VISION, {"name": "B"}, headers={"If-Match": tag})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert lead.patch(VISION, {"name": "C"}, headers={"If-Match": "*"}).status_code == 200


def test_an_admin_deletes_a_team_without_history_and_the_trail_stays(vision):
    make_member(team=vision)
    assert api_client(make_user(platform_admin=True)).delete(VISION).status_code == 204
    assert not Team.objects.exists()
    assert not Membership.objects.exists()
    assert AuditEvent.objects.filter(team_slug="vision", action="team.delete").exists()


def test_a_lead_manages_members(vision):
    lead, ana = client_of("lead", vision), make_user("ana")
    made = lead.post(MEMBERS, {"username": "ana", "role": "viewer"})
    assert made.status_code == 201
    assert made["Location"].endswith(f"{MEMBERS}ana/")
    assert lead.get(made["Location"]).json()["role"] == "viewer"
    assert lead.patch(f"{MEMBERS}ana/", {"role": "member"}).json()["role"] == "member"
    assert lead.delete(f"{MEMBERS}ana/").status_code == 204
    assert lead.get(f"{MEMBERS}ana/").status_code == 404
    assert not ana.memberships.exists()
    actions = AuditEvent.objects.filter(target_id=str(ana.public_id), team=vision).order_by("id")
    assert [
        (each.action, (each.before or {}).get("role"), (each.after or {}).get("role")) for each in actions
    ] == [
        ("membership.create", None, "viewer"),
        ("membership.change-role", "viewer", "member"),
        ("membership.delete", "member", None),
    ]


def test_a_member_is_added_once(vision):
    member = make_member(team=vision)
    response = client_of("lead", vision).post(MEMBERS, {"username": member.user.username, "role": "lead"})
    assert (response.status_code, response.json()["code"]) == (409, "already_member")


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"username": "nobody", "role": "member"}, "username", "unknown_user"),
        ({"username": "gone", "role": "member"}, "username", "inactive_user"),
        ({"username": "gone", "role": "owner"}, "role", "invalid_choice"),
        ({"username": "gone"}, "role", "required"),
    ],
)
def test_a_senseless_member_is_refused_by_field(vision, body, field, code):
    services.set_active(actor=ACTOR, user=make_user("gone"), active=False, now=clock.now())
    response = client_of("lead", vision).post(MEMBERS, body)
    assert response.status_code == 422
    assert [(each["field"], each["code"]) for each in response.json()["errors"]] == [(field, code)]


def test_everybody_may_leave_and_only_leads_make_others_leave(vision):
    member, other = make_member("viewer", team=vision), make_member(team=vision)
    client = api_client(member.user)
    assert client.delete(f"{MEMBERS}{other.user.username}/").status_code == 403
    assert client.delete(f"{MEMBERS}{member.user.username}/").status_code == 204
    assert client.get(VISION).status_code == 404


def test_a_removed_member_is_a_stranger_at_once_by_token_and_by_session(vision):
    member = make_member(team=vision)
    client, browser = api_client(member.user), Client()
    assert browser.login(username=member.user.username, password=PASSWORD)
    assert client.get(VISION).status_code == browser.get(VISION).status_code == 200
    services.remove_member(actor=ACTOR, membership=member, now=clock.now())
    assert client.get(VISION).status_code == browser.get(VISION).status_code == 404


def test_members_are_listed_by_name_and_filtered_by_role(vision):
    for name, role in (("cy", "lead"), ("ana", "viewer"), ("bo", "member")):
        make_member(role, team=vision, user=make_user(name))
    client = api_client(make_user(quota_manager=True))
    assert [each["username"] for each in client.get(MEMBERS).json()["results"]] == ["ana", "bo", "cy"]
    assert [each["username"] for each in client.get(f"{MEMBERS}?role=lead,viewer").json()["results"]] == [
        "ana",
        "cy",
    ]
    paged = client.get(f"{MEMBERS}?limit=2").json()
    assert [each["username"] for each in client.get(paged["next"]).json()["results"]] == ["cy"]


def test_usernames_with_dots_and_at_signs_have_a_url(vision):
    make_member(team=vision, user=make_user("ana.b@example.org"))
    assert client_of("viewer", vision).get(f"{MEMBERS}ana.b@example.org/").status_code == 200


@pytest.mark.parametrize(
    ("scopes", "read", "write"), [(("read",), 200, 403), (("submit",), 403, 403), (("manage",), 403, 200)]
)
def test_scopes_bound_what_a_leads_token_may(vision, scopes, read, write):
    client = api_client(make_member("lead", team=vision).user, scopes=scopes)
    assert client.get(VISION).status_code == read
    assert client.patch(VISION, {"name": "X"}).status_code == write


def test_a_session_has_every_scope(vision):
    browser = Client()
    browser.force_login(make_user())
    assert browser.get("/api/v1/me/").json()["scopes"] == ["read", "submit", "manage"]


def test_me_tells_who_i_am_and_what_i_may(vision):
    member = make_member("lead", team=vision, user=make_user("ana"))
    body = api_client(member.user, scopes=("read",)).get("/api/v1/me/").json()
    assert body["id"] == str(member.user.public_id)
    assert (body["username"], body["roles"], body["scopes"]) == ("ana", [], ["read"])
    assert body["memberships"] == [
        {"team": {"id": str(vision.public_id), "slug": "vision", "name": "Vision"}, "role": "lead"}
    ]
    assert body["token"]["name"] == "tests"
    assert api_client(make_user(platform_admin=True)).get("/api/v1/me/").json()["roles"] == ["platform-admin"]


def test_an_unknown_query_parameter_is_named_on_single_resources_too(vision):
    assert client_of("viewer", vision).get(f"{VISION}?fields=x").json()["errors"][0]["field"] == "fields"


def audit(client, query: str = "") -> list[str]:
    return [each["action"] for each in client.get(f"/api/v1/audit/{query}").json()["results"]]


def test_the_audit_trail_shows_each_what_they_may_see(vision):
    speech = make_team("speech")
    viewer = make_member("viewer", team=vision).user
    make_member(team=speech)
    client = api_client(viewer)
    assert audit(client) == ["token.create", "membership.create", "team.create"]
    assert audit(client, "?team=speech") == []
    assert audit(api_client(make_user(quota_manager=True)), "?team=speech") == [
        "membership.create",
        "team.create",
    ]


def test_the_audit_trail_is_filtered_and_paged(vision):
    client = api_client(make_user(platform_admin=True))
    assert audit(client, "?action=team.create,token.create") == ["token.create", "team.create"]
    later = (clock.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert audit(client, f"?from={later}") == []
    page = client.get("/api/v1/audit/?limit=1").json()
    assert len(page["results"]) == 1
    assert page["next"]


def test_addresses_and_tokens_in_the_trail_are_for_their_owner_and_admins(vision):
    lead = make_member("lead", team=vision).user
    client = api_client(lead)
    client.patch(VISION, {"name": "X"})

    def origin(reader) -> tuple:
        event = reader.get("/api/v1/audit/?action=team.update").json()["results"][0]
        return event["ip"], bool(event["token"])

    assert origin(client) == ("127.0.0.1", True)
    assert origin(client_of("viewer", vision)) == (None, False)
    assert origin(api_client(make_user(platform_admin=True))) == ("127.0.0.1", True)


@pytest.mark.parametrize("url", [TEAMS, MEMBERS, "/api/v1/tokens/", "/api/v1/audit/"])
def test_lists_cost_the_same_however_long_they_are(vision, url, django_assert_max_num_queries):
    admin = make_user(platform_admin=True)
    client = api_client(admin)
    for _ in range(8):
        make_member(team=vision)
        make_team()
    client.get(url)
    # Of teams also the setting and what is offered, which `pod_security_enforced` is derived from.
    with django_assert_max_num_queries(5 if url == TEAMS else 3):
        assert client.get(url).status_code == 200
