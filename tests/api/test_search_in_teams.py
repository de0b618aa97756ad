"""A search costs what may be shown, whatever others call theirs; and finds what a plain look at names and teams finds."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from django.db import connection
from django.test import Client

from console.api import search_conditions as finding
from teams.models import Membership, Team
from tests.api.bench import RUNS
from tests.api.test_lists_by_index import ROWS_MAX, grow, names, past, standing_past  # noqa: F401 (fixtures)
from tests.effort import seeds
from tests.factories.teams import api_client, make_member, make_team, make_user
from tests.factories.workloads import make_workload
from tests.plans import rows_read
from workloads.models import Workload

PIECES = ("a", "ab", "abc", "b", "ba", "1", "12", "2", "21")
"""Short and alike, so that words of names begin with words of others, and with the keys of teams."""


@pytest.fixture
def ben(past):  # noqa: F811
    """Of two teams: one with fifteen hundred runs that are called otherwise than those of team vision, one with none."""
    speech, audio = make_team("speech"), make_team("audio")
    user = make_member(team=speech, user=make_user("ben")).user
    make_member(team=audio, user=user)
    model = make_workload(team=speech, owner=user, flavor=past.flavor)
    grow(model, 1500, name=lambda number: f"whisper-{number}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return user


def test_a_search_reads_nothing_of_what_others_call_theirs(ben):
    member, admin, browser = api_client(ben), api_client(make_user("root", platform_admin=True)), Client()
    browser.force_login(ben)
    for client, path, asked in (
        (member, RUNS, {}),
        (member, RUNS, {"team": "speech"}),
        (browser, "/runs/", {}),
        (browser, "/teams/speech/runs/", {}),
        # Who sees all sees one team here.
        (admin, RUNS, {"team": "speech"}),
        (admin, RUNS, {"team": "audio"}),
    ):
        look = partial(client.get, path, {**asked, "search": "past"})
        assert look().status_code == 200
        assert rows_read(look) <= ROWS_MAX, (path, asked)
    assert len(names(admin.get(RUNS, {"search": "past", "limit": 10}))) == 10


def some(random: Random, most: int) -> list[str]:
    return ["".join(random.choices(PIECES, k=2)) for _ in range(random.randint(1, most))]


def expected(found: list[Workload], words: list[str], teams: set[str]) -> list[str]:
    """By a plain look at what is there."""
    return [
        each.name
        for each in found
        if each.team.slug in teams
        and all(any(part.startswith(word) for part in each.name.split("-")) for word in words)
    ]


def filled(random: Random) -> list[Team]:
    """Five teams with runs, of which several have the same names."""
    teams = [make_team() for _ in range(5)]
    model = make_workload(team=teams[0], name="-".join(PIECES))
    grow(
        model,
        60,
        team_id=lambda number: random.choice(teams).pk,
        name=lambda number: "-".join(some(random, 3)),
    )
    return teams


def visible_to(user, teams: list[Team]) -> list[Team]:
    mine = set(Membership.objects.filter(user=user).values_list("team", flat=True))
    return [team for team in teams if user.is_platform_admin or team.pk in mine]


@pytest.mark.django_db
@pytest.mark.parametrize("seed", seeds(usual=1, matrix=2, soak=20))
def test_whoever_searches_finds_what_a_plain_look_finds(seed, monkeypatch):
    random = Random(seed)
    teams = filled(random)
    # In more teams than that the words of all teams are read: both ways are walked.
    monkeypatch.setattr(finding, "TEAMS_MAX", 3)
    users = [make_user(), make_user(platform_admin=True), *(make_member(team=each).user for each in teams)]
    for user in users[2:]:
        for team in random.sample(teams, random.randint(0, 4)):
            Membership.objects.get_or_create(user=user, team=team, role="member")
    there = list(Workload.objects.select_related("team").order_by("-created_at", "-id"))
    for user in users:
        client, seen = api_client(user), {team.slug for team in visible_to(user, teams)}
        for _ in range(6):
            words = [word[: random.randint(1, 3)] for word in some(random, 2)]
            asked, one = {"search": " ".join(words), "limit": 200}, random.choice(teams).slug
            assert names(client.get(RUNS, asked)) == expected(there, words, seen)
            assert names(client.get(RUNS, {**asked, "team": one})) == expected(there, words, seen & {one})


@pytest.mark.django_db
def test_a_token_of_one_team_finds_in_that_team_alone():
    one, other, user = make_team(), make_team(), make_user()
    for team in (one, other):
        make_member(team=team, user=user)
        make_workload(team=team, owner=user, name=f"bert-{team.slug}")
    assert names(api_client(user, team=one).get(RUNS, {"search": "bert"})) == [f"bert-{one.slug}"]


@pytest.mark.django_db
def test_whatever_a_name_holds_its_row_can_be_written_and_no_other_team_finds_it():
    """Names are of small letters, digits and dashes; the index takes others too."""
    team, other = make_team(), make_team()
    for name in ("", "a b", "it's", "'", "\\", f"{other.pk}:bert", "-"):
        make_workload(team=team, name=name)
    found = finding.matching(("bert",), teams=[other.pk])
    assert not Workload.objects.filter(found).exists()
