"""The page of costs: what is counted, in which order, whose, and how it is written."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest

from budgets.services import create_budget
from budgets.standings import standing
from costs.ledger.services import settle_due
from costs.reports.queries import spent, spent_with_days
from costs.reports.windows import DAY, CostWindow, midnight
from foundation import clock
from foundation.money import format_usd
from pages.costs.spans import read_span
from teams.actors import Actor
from tests.factories.teams import make_user
from tests.web.conftest import signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("within_month", "still")]

USD = 1_000_000


@pytest.fixture
def manager(world):
    return signed_in(world.manager)


@pytest.fixture
def spoken(world, made):
    """Team speech spent something too."""
    run = world.run("whisper", team="speech", owner=world.stranger, minutes_ago=50, gpus_per_replica=1)
    world.start(run)
    return run


def names(answer) -> list[str]:
    return [row.name for row in answer.context["table"].rows]


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", answer.content.decode())))


def give_budget(world, usd, team=None):
    values = {"amount_micro_usd": round(usd * USD), "period": "month"}
    return create_budget(
        team=team or world.team, values=values, actor=Actor.of_user(world.manager), now=world.now
    )


def test_the_month_is_told_with_what_runs_now_dearest_first(ana, made):
    answer = ana.get("/costs/")
    rows, report = answer.context["table"].rows, answer.context["report"]
    assert [row.amount for row in rows] == sorted((row.amount for row in rows), reverse=True)
    assert sum(row.amount for row in rows) == report.total_micro_usd > report.running_micro_usd > 0
    shown = {row.name: row for row in rows}
    assert [shown[name].so_far for name in ("resnet50", "unet-3d")] == [True, False]
    assert (shown["resnet50"].gpu, rows[0].name) == ("8 \N{MULTIPLICATION SIGN} a100-40gb", "resnet50")
    assert f"{format_usd(rows[0].amount)} so far" in text_of(answer)


def test_what_is_in_the_ledger_and_what_is_not_yet_are_counted_once(ana, made, world):
    before = ana.get("/costs/").context["report"]
    settle_due(now=clock.now())
    after = ana.get("/costs/").context["report"]
    assert after.running_micro_usd < before.running_micro_usd
    assert abs(after.total_micro_usd - before.total_micro_usd) < USD // 10


def test_every_grouping_and_the_days_add_up_to_the_same_total(manager, spoken):
    for by in ("workload", "team", "user", "project", "flavor", "capacity", "phase", "day"):
        answer = manager.get(f"/costs/?by={by}")
        total = answer.context["report"].total_micro_usd
        assert sum(row.amount for row in answer.context["table"].rows) == total > 0, by
        assert abs(sum(amount for _, amount in answer.context["day_rows"]) - total) < USD // 100, by
        expected = spent(teams=None, window=CostWindow.month_of(clock.now()), group_by=by, now=clock.now())
        assert {row.name for row in answer.context["table"].rows} >= {
            group.name for group in expected.groups if by not in {"phase", "project"}
        }


@pytest.mark.parametrize(
    ("ordering", "key"),
    [
        ("name", lambda row: row.name),
        ("-owner", lambda row: row.workload.owner.username),
        ("state", lambda row: row.workload.phase),
        ("-gpu", lambda row: row.workload.units),
        ("cost", lambda row: row.amount),
        ("-cost", lambda row: row.amount),
        ("kind", lambda row: row.workload.kind),
        ("team", lambda row: row.workload.team.slug),
    ],
)
def test_a_column_orders_the_lines_both_ways(manager, spoken, ordering, key):
    answer = manager.get(f"/costs/?ordering={ordering}")
    keys = [key(row) for row in answer.context["table"].rows]
    assert keys == sorted(keys, reverse=ordering.startswith("-"))
    wanted = "descending" if ordering.startswith("-") else "ascending"
    assert answer.content.decode().count("aria-sort") == 1
    assert f'aria-sort="{wanted}"' in answer.content.decode()


def test_a_tab_and_a_heading_bring_the_table_alone(ana, made):
    whole, part = ana.get("/costs/?by=user"), ana.get("/costs/?by=user", headers={"HX-Target": "costs-table"})
    assert ["<html" in each.content.decode() for each in (whole, part)] == [True, False]
    assert part.content.decode().lstrip().startswith("<section")
    assert names(part) == names(whole)


def test_a_member_sees_the_teams_that_are_theirs_and_a_manager_all(ana, stranger, manager, spoken):
    assert "whisper" not in names(ana.get("/costs/"))
    assert names(stranger.get("/costs/")) == ["whisper"]
    assert {"whisper", "resnet50"} <= set(names(manager.get("/costs/")))
    assert names(manager.get("/costs/?team=speech")) == ["whisper"]
    assert set(names(manager.get("/costs/?by=team"))) == {"Vision", "Speech"}


@pytest.mark.parametrize("team", ["speech", "no-such-team"])
def test_a_team_that_one_may_not_see_is_not_there(ana, spoken, team):
    answer = ana.get(f"/costs/?team={team}")
    assert answer.status_code == 404
    assert "whisper" not in answer.content.decode()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("month=2026-13", "month: must be a month such as 2026-11."),
        ("month=november", "month: must be a month such as 2026-11."),
        ("month=0000-01", "month: must be a month such as 2026-11."),
        ("from=2026-02-30", "from: must be a day such as 2026-11-24."),
        ("to=9999-12-31", "to: must be a day such as 2026-11-24."),
        ("from=2026-02-03&to=2026-02-01", "to: must not be before from."),
        ("from=2020-01-01&to=2026-02-01", "from: at most 366 days"),
        ("month=2026-02&from=2026-02-01", "month: cannot be asked for together with from and to."),
        ("by=planet", "by: must be one of workload"),
        ("ordering=planet", "ordering: must be one of name"),
        ("planet=1", "planet: unknown query parameter"),
        ("month=2026-01&month=2026-02", "month: may be given once."),
    ],
)
def test_what_cannot_be_read_is_named_and_said_plainly(ana, query, words):
    answer = ana.get(f"/costs/?{query}")
    assert (answer.status_code, words in text_of(answer)) == (400, True)


def test_a_month_without_costs_says_so_in_words(ana, made):
    answer = ana.get("/costs/?month=2025-02")
    assert "Team" not in text_of(answer).split("Nothing was spent")[1][:30]
    assert "None of your teams spent anything in February 2025." in text_of(answer)
    assert answer.context["report"].total_micro_usd == 0


def test_who_is_in_no_team_is_told_so(world):
    answer = signed_in(make_user("nobody")).get("/costs/")
    assert "You are in no team yet" in text_of(answer)


def test_the_months_beside_are_linked_and_the_future_is_not(ana, made):
    now = clock.now()
    this = ana.get("/costs/")
    assert this.context["span"].month == f"{now:%Y-%m}"
    assert "Next month" not in text_of(this)
    earlier = ana.get(f"/costs/?month={this.context['span'].previous}&by=user")
    assert earlier.context["span"].following == f"{now:%Y-%m}"
    assert f"?by=user&amp;month={now:%Y-%m}" in earlier.content.decode()


def test_days_that_are_a_whole_month_are_that_month():
    at = clock.now()
    assert read_span({"from": "2026-02-01", "to": "2026-02-28"}, now=at).month == "2026-02"
    part = read_span({"from": "2026-02-01", "to": "2026-02-27"}, now=at)
    assert (part.month, part.days, part.title) == ("", 27, "1 Feb 2026 to 27 Feb 2026")
    assert part.window == CostWindow(*(clock.now().replace(2026, 2, day, 0, 0, 0, 0) for day in (1, 28)))


def test_a_day_alone_tells_what_was_spent_on_it(ana, made, world):
    today = clock.now().date()
    asked = {"from": str(today - timedelta(days=1)), "to": str(today)}
    both = ana.get("/costs/", asked).context["report"].total_micro_usd
    each = [
        ana.get("/costs/", {"from": day, "to": day}).context["report"].total_micro_usd
        for day in asked.values()
    ]
    assert abs(sum(each) - both) < USD // 100


def test_money_above_nothing_is_never_written_as_nothing(ana, made):
    page = text_of(ana.get("/costs/"))
    rows = ana.get("/costs/").context["table"].rows
    assert all(row.amount for row in rows)
    assert "$0.00 " not in page.split("What it was spent on")[1]
    assert format_usd(3_000) == "<$0.01"


def test_the_file_is_of_the_same_days_and_team(ana, made):
    settle_due(now=clock.now())
    answer = ana.get("/costs/?team=vision")
    address = answer.context["export"]
    assert address.endswith("&team=vision")
    assert f"from={clock.now():%Y-%m}-01T00%3A00%3A00Z" in address
    assert ana.get(address).status_code == 200


def test_the_budget_stands_beside_as_rest_tells_it(ana, manager, made, world):
    budget = give_budget(world, 500)
    context = ana.get("/costs/").context
    told = standing(budget, now=clock.now())
    seen = context["budget"]
    assert (seen.amount, seen.is_monthly) == (told.amount, True)
    assert abs(seen.spent - told.spent) < USD // 100
    assert abs(seen.reserved - told.reserved) < USD // 10
    assert "Change the budget" not in text_of(ana.get("/costs/"))
    linked = manager.get("/costs/?team=vision")
    assert f'href="{linked.context["budget"].admin_url}"' in linked.content.decode()
    assert manager.get(linked.context["budget"].admin_url).status_code == 200


def test_a_budget_that_ends_before_its_month_says_on_which_day(ana, made, world):
    spent_now = ana.get("/costs/").context["report"].total_micro_usd
    give_budget(world, spent_now / USD + 1)
    before = clock.now()
    context = ana.get("/costs/").context
    out = context["forecast"].runs_out_at
    last = context["budget"].span.ends_at
    assert out is None or before < out < last
    give = f"runs out on {out:%Y-%m-%d}" if out else "It lasts"
    assert give in text_of(ana.get("/costs/"))


def test_who_sees_several_teams_sees_their_budgets_by_team(manager, spoken, world):
    give_budget(world, 1)
    answer = manager.get("/costs/?by=team")
    by_team = {row.team: row.budget for row in answer.context["table"].rows}
    assert by_team["speech"] is None
    assert by_team["vision"].percent > 100
    assert f"{by_team['vision'].percent} % of $1.00" in text_of(answer)


def test_a_line_tells_the_month_of_a_team_and_what_is_left_of_its_budget(
    ana, stranger, manager, spoken, world
):
    assert 'hx-get="/costs/this-month/?team=vision"' in ana.get("/teams/vision/").content.decode()
    assert 'hx-get="/costs/this-month/"' in ana.get("/").content.decode()
    give_budget(world, 1_000)
    with clock.freeze(clock.now()):
        spent_now = format_usd(ana.get("/costs/").context["report"].total_micro_usd)
        line = text_of(ana.get("/costs/this-month/?team=vision"))
    assert re.search(
        r"This month: \$[\d.,]+ of \$1,000.00 \(\d+ % of the budget\) ?\. See what it was spent on", line
    )
    assert spent_now in line
    assert "Speech" in text_of(manager.get("/costs/this-month/"))
    assert "Vision" not in text_of(stranger.get("/costs/this-month/"))
    assert stranger.get("/costs/this-month/?team=vision").status_code == 404


def test_a_member_is_refused_what_is_told_of_all_cards(ana, manager, made):
    assert ana.get("/costs/capacity/").status_code == 403
    answer = manager.get("/costs/capacity/?month=2026-02")
    assert answer.status_code == 200
    assert "Idle and lost" not in text_of(ana.get("/costs/"))
    assert "Idle and lost" in text_of(manager.get("/costs/"))


def test_the_card_of_what_was_charged_is_told_as_the_ledger_has_it(manager, made):
    settle_due(now=clock.now())
    context = manager.get("/costs/capacity/").context
    total = manager.get("/costs/").context["report"]
    assert context["parts"][0].amount == total.total_micro_usd - total.running_micro_usd > 0
    assert 0 < context["failed"] < context["parts"][0].amount


def test_a_team_of_many_runs_shows_the_dearest_and_sums_the_others(ana, world, made, monkeypatch):
    monkeypatch.setattr("pages.costs.pages.ROWS_MAX", 3)
    settle_due(now=clock.now())
    answer = ana.get("/costs/")
    table, report = answer.context["table"], answer.context["report"]
    assert (len(table.rows), table.complete) == (3, False)
    assert table.others + sum(row.amount for row in table.rows) == report.total_micro_usd
    assert "All others" in text_of(answer)
    assert "3 dearest, in another order" in text_of(ana.get("/costs/?ordering=name"))


@pytest.mark.parametrize("group_by", ["workload", "user", "phase"])
def test_what_is_asked_together_with_the_days_is_what_each_alone_is_told(made, group_by):
    now = clock.now()
    today = midnight(now.date())
    days, window = CostWindow(today - timedelta(days=40), today + DAY), CostWindow(today - DAY, today + DAY)
    both, by_day = spent_with_days(teams=None, window=window, days=days, group_by=group_by, now=now)
    assert both == spent(teams=None, window=window, group_by=group_by, now=now)
    assert by_day == spent(teams=None, window=days, group_by="day", now=now)
