"""The audit trail as a page and as a file: names, filters, and what each reader may see of it."""

from __future__ import annotations

import csv
import re
from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from teams import services
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import AuditEvent, User
from tests.effort import spread
from tests.factories.submitted import make_run
from tests.factories.teams import ACTOR, PASSWORD, api_client, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
PAGE, REST, FILE = "/audit/", "/api/v1/audit/", "/api/v1/audit/export.csv"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def vision():
    return make_team("vision")


@pytest.fixture
def lead(vision) -> User:
    return make_member("lead", team=vision, user=make_user("lena")).user


@pytest.fixture
def root() -> User:
    return make_user("root", platform_admin=True)


def browser(user: User) -> Client:
    client = Client(REMOTE_ADDR="198.51.100.4")
    client.force_login(user)
    return client


def page(user: User, query: str = "") -> str:
    answer = browser(user).get(f"{PAGE}{query}")
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def cells(user: User, query: str = "") -> list[list[str]]:
    """What a reader sees, without tags: what, to what, who, team."""
    body = page(user, query).partition("<tbody>")[2].partition("</tbody>")[0]
    found = []
    for row in body.split("<tr>")[1:]:
        texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", cell)).strip() for cell in row.split("<td")[1:]]
        found.append([text.partition(">")[2].strip() for text in texts][:4])
    return found


def lines(user: User, query: str = "") -> list[dict[str, str]]:
    answer = browser(user).get(f"{FILE}{query}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(answer.getvalue().decode().splitlines()))


def test_names_stand_where_ids_stood(vision, lead, root):
    run = make_run(vision, lead, name="resnet")
    shown = cells(root)
    assert any(row[1].endswith("resnet") for row in shown)
    assert ["membership.create", "user lena", "system:tests", "vision"] in shown
    html = page(root)
    visible = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert not UUID.search(re.sub(r"<[^>]*>", "", visible))
    assert f'href="/runs/{run.public_id}/"' in html
    assert 'href="/teams/vision/"' in html


def test_events_of_before_are_called_as_their_targets_are_now(vision, lead, root):
    """Older ones keep no name: those of a team, a user and a run are asked for, and so in REST and in the file."""
    run = make_run(vision, lead, name="resnet")
    AuditEvent.objects.bulk_create(
        AuditEvent(at=clock.now(), actor_label="old", action=f"{kind}.old", target_kind=kind, target_id=public_id)
        for kind, public_id in (
            ("team", vision.public_id), ("user", lead.public_id), (run.kind, run.public_id), (run.kind, "gone"),
        )
    )  # fmt: skip
    names = ["gone", "resnet", "lena", "vision"]
    assert [row[1].split()[-1] for row in cells(root, "?actor=old")] == names
    assert [each["target_name"] for each in lines(root, "?actor=old")] == ["", *names[1:]]
    told = api_client(root).get(f"{REST}?actor=old").json()["results"]
    assert [each["target_name"] for each in told] == ["", *names[1:]]


def test_a_name_is_that_of_its_time(vision, root):
    services.delete_team(actor=Actor.of_user(root), team=vision, now=clock.now())
    assert cells(root, "?what=people&actor=root") == [["team.delete", "team vision", "root", "vision"]]


@pytest.mark.parametrize(
    ("query", "actions"),
    spread(
        [
            ("?actor=lena", {"sign-in.succeed"}),
            ("?what=failures", {"sign-in.fail"}),
            ("?what=sign-ins", {"sign-in.succeed"}),
            ("?target=lena", {"user.create", "membership.create", "sign-in.succeed", "sign-in.fail"}),
            ("?target={lena}", {"user.create", "membership.create", "sign-in.succeed", "sign-in.fail"}),
            ("?team=vision", {"team.create", "membership.create"}),
            ("?action=team.create", {"team.create"}),
            ("?what=people&team=vision&target=vision", {"team.create"}),
            ("?from={day}&to={day}", None),
            ("?from={tomorrow}", set()),
            ("?to={yesterday}", set()),
            ("?actor=&team=&what=&target=&from=&to=", None),
        ],
        usual=4,
    ),
)
@pytest.mark.usefixtures("still")
def test_what_one_looks_for_is_found(vision, lead, root, query, actions):
    client = Client()
    client.post("/sign-in/", {"username": "lena", "password": "wrong"})
    client.post("/sign-in/", {"username": "lena", "password": PASSWORD})
    today = clock.now()
    days = {
        name: f"{today + timedelta(days=by):%Y-%m-%d}"
        for name, by in (("day", 0), ("tomorrow", 1), ("yesterday", -1))
    }
    wanted = query.format(lena=lead.public_id, **days)
    everything = set(AuditEvent.objects.values_list("action", flat=True))
    shown = cells(root, wanted)
    assert {row[0] for row in shown} == (everything if actions is None else actions)
    # The file that the page offers holds the same.
    export = re.search(r'href="(/api/v1/audit/export\.csv[^"]*)"', page(root, wanted))[1].replace(
        "&amp;", "&"
    )
    assert [each["action"] for each in lines(root, export.removeprefix(FILE))] == [row[0] for row in shown]


@pytest.mark.parametrize(
    "query", ["?what=all", "?from=yesterday", "?from=0001-01-01", "?to=9999-12-31", "?when=now"]
)
def test_what_cannot_be_looked_for_is_refused(root, query):
    assert browser(root).get(f"{PAGE}{query}").status_code == 400


def test_a_lead_sees_the_team_and_themselves_and_nothing_of_others(vision, lead, root):
    make_member("member", team=make_team("speech"), user=make_user("sam"))
    Client().post("/sign-in/", {"username": "lena", "password": PASSWORD})
    Client().post("/sign-in/", {"username": "lena", "password": "wrong"})
    for rows in (cells(lead), cells(lead, "?team=speech"), cells(lead, "?target=sam")):
        assert not any("speech" in " ".join(row) or "sam" in " ".join(row) for row in rows)
    assert {row[0] for row in cells(lead)} == {"team.create", "membership.create", "sign-in.succeed"}
    assert {each["action"] for each in lines(lead)} == {"team.create", "membership.create", "sign-in.succeed"}
    assert "sign-in.fail" in {row[0] for row in cells(root)}


def test_where_it_came_from_is_for_oneself_and_for_platform_admins(vision, lead, root):
    actor = Actor(user=lead, label="lena", ip="198.51.100.77")
    services.update_team(actor=actor, team=vision, changes={"name": "Seeing"}, now=clock.now())
    other = make_member("lead", team=vision).user
    manager = make_user("qm", quota_manager=True)
    for user, sees in ((lead, True), (root, True), (other, False), (manager, False)):
        assert ("198.51.100.77" in page(user, "?action=team.update")) is sees
        assert (lines(user, "?action=team.update")[0]["ip"] == "198.51.100.77") is sees


def test_a_file_holds_no_formula_and_no_more_than_the_trail(vision, root):
    record_audit(
        actor=ACTOR, action="team.update", target_kind="team", target_id=vision.public_id, target_name="=cmd|' /C calc'!A0",
        team=vision, reason="@SUM(1)", after={"x": 1}, now=clock.now(),
    )  # fmt: skip
    line = lines(root, "?action=team.update")[0]
    assert (line["target_name"], line["reason"], line["after"]) == (
        "'=cmd|' /C calc'!A0",
        "'@SUM(1)",
        '{"x": 1}',
    )
    assert len(lines(root)) == AuditEvent.objects.count()


def test_text_of_strangers_is_text(root):
    Client().post("/sign-in/", {"username": "<script>alert(1)</script>" * 4, "password": "wrong"})
    record_audit(
        actor=Actor(user=None, label="<script>x"), action="a.b", target_kind="user", target_id="<img src=x>",
        after={"<i>": "</pre><script>"}, reason="<script>", now=clock.now(),
    )  # fmt: skip
    html = page(root)
    assert "<script>" not in html.partition("<main")[2]
    assert "<img" not in html.partition("<main")[2].partition("<table")[2]


def test_the_page_goes_on_and_asks_the_same_however_long_the_trail_is(
    vision, root, django_assert_max_num_queries
):
    for number in range(40):
        record_audit(
            actor=ACTOR, action="team.update", target_kind="team", target_id=vision.public_id, team=vision,
            after={"name": f"Team {number}"}, now=clock.now(),
        )  # fmt: skip
    client = browser(root)
    with django_assert_max_num_queries(8):
        html = client.get(f"{PAGE}?team=vision").content.decode()
    older = re.search(r'href="([^"]*cursor=[^"]*)"', html)[1].replace("&amp;", "&")
    assert "team=vision" in older
    assert "team.create" in client.get(older).content.decode()


def test_only_who_is_signed_in_reads_it():
    assert Client().get(PAGE).status_code == 302
    assert Client().get(FILE).status_code == 401
