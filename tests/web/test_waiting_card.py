from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from console.pages.card import Page, look_at
from controller.waiting_card import Card, LeverOffer
from foundation import clock
from foundation.money import format_usd
from policy.estimates import Estimate
from policy.levers import Lever
from policy.pool_snapshot import TeamFacts
from policy.verdicts import Outcome, PreemptionCause, Verdict, Victim
from quotas.limits import set_policy
from tests.factories.catalogue import SETUP
from tests.web.browsing import chromium, faults, needs_chromium, open_page, session_of, show
from tests.web.conftest import signed_in
from workloads.models import NodeRecord, Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db

REFRESHED_MS = 10_500
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def text_of(client, workload) -> str:
    """The words of the card alone."""
    html = client.get(f"/runs/{workload.public_id}/").content.decode()
    card = re.search(r'<section class="card callout[^>]*>(.*?)</section>', html, re.DOTALL)[1]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", card)).split())


def html_of(client, workload) -> str:
    return client.get(f"/runs/{workload.public_id}/").content.decode()


def rest(client, workload) -> dict:
    return client.get(f"/api/v1/training-runs/{workload.public_id}/waiting/").json()


# --- the card on the page of a run


@pytest.mark.usefixtures("still")
def test_the_card_says_what_rest_says(ana, queue):
    card, said = rest(ana, queue["bert-large"]), text_of(ana, queue["bert-large"])
    assert card["verdict"] == "wait"
    before, after = card["quota"]["before"], card["quota"]["after"]
    for fact in (
        "Waits",
        card["message"],
        f"revision {card['revision']}",
        "nodes seen",
        f"Place in queue {card['position']} {card['ahead_count']} ahead",
        f"{before['used']} → {after['used']} of {before['nominal']} guaranteed",
        f"at most {before['limit']}",
        card["start"]["basis"],
        "9 of 10 past estimates held",
        "$21.96",
        "at worst",
        f"Decided by the rule {card['rule']}",
    ):
        assert fact in said, fact


@pytest.mark.usefixtures("still")
def test_the_card_says_when_it_starts_with_the_exact_time_beside_it(ana, queue):
    card, html = rest(ana, queue["vit-huge"]), html_of(ana, queue["vit-huge"])
    ends = [datetime.fromisoformat(card["start"][name]) for name in ("p50", "p90")]
    said = re.search(r'<dd class="figure">in ([0-9]+)m to ([0-9]+)m</dd>', html).groups()
    times = re.findall(r'<time datetime="([^"]+)" title="([^"]+) UTC">([^<]+)</time>', html)
    shown = {datetime.fromisoformat(exact): (title, text) for exact, title, text in times}
    for minutes, end in zip(said, ends, strict=True):
        assert abs(int(minutes) - (end - clock.now()).total_seconds() / 60) <= 1.5
        (moment,) = (each for each in shown if abs(each - end) <= timedelta(seconds=1))
        # In the minutes before midnight it starts on another day, which is said then.
        form = "%H:%M" if moment.date() == clock.now().date() else "%a %d %b %H:%M"
        assert shown[moment] == (f"{moment:%Y-%m-%d %H:%M:%S}", f"{moment:{form}}")


def test_every_number_behind_the_verdict_has_its_age(ana, queue):
    html = html_of(ana, queue["bert-large"])
    table = re.search(r'<table class="mini numbers">(.*?)</table>', html, re.DOTALL)[1]
    rows = re.findall(r"<tr><th scope=\"row\">([^<]+)</th>.*?</tr>", table, re.DOTALL)
    assert {"Asked for", "Guaranteed to the team", "Free on nodes", "Waiting ahead"} <= set(rows)
    assert table.count("<time ") == len(rows) == len(rest(ana, queue["bert-large"])["evidence"])


def test_runs_of_the_own_team_are_links_and_those_of_others_have_no_name(ana, queue):
    html = html_of(ana, queue["bert-large"])
    assert f'<a href="/runs/{queue["vit-huge"].public_id}/" id="next-3">vit-huge</a> (8)' in html
    assert "another team (8)" in html
    for hidden in ("slam", "conformer", "wav2vec", "grasp", "speech", "robotics", "Robotics"):
        assert hidden not in html, hidden


def test_who_holds_what_it_waits_for_is_named_where_that_is_of_the_own_team(ana, queue):
    said = text_of(ana, queue["bert-large"])
    line = re.search(r"In use by: (.*?)(?: By capacity type| Ahead of it| Quota in use|$)", said)[1]
    assert "resnet50 (" in line
    assert "other teams (" in line or "another team (" in line


def test_who_is_first_and_yet_must_not_start_is_told_whom_it_would_delay(ana, queue):
    card, said = rest(ana, queue["detr"]), text_of(ana, queue["detr"])
    assert (card["position"], card["rule"]) == (1, "backfill")
    delayed = "it is kept for one of team vision that came first and waits for the team's guaranteed quota"
    assert delayed in card["message"]
    assert delayed in said


def test_a_team_that_shows_its_name_is_named(ana, queue, world):
    set_policy(team=queue["slam"].team, changes={"shows_name": True}, actor=SETUP, now=world.now)
    html = html_of(ana, queue["bert-large"])
    assert "team robotics (8)" in html
    assert "slam" not in html


def test_several_of_other_teams_in_a_row_are_one_line(world, queue):
    said = text_of(signed_in(world.stranger), queue["conformer"])
    ahead = rest(signed_in(world.stranger), queue["conformer"])["ahead"]
    assert [each["id"] for each in ahead] == [None] * len(ahead)
    assert f"Ahead of it: {len(ahead)} of other teams ({sum(each['units'] for each in ahead)})" in said


def test_who_had_to_leave_is_told_by_whose_need_and_what_it_lost(ana, queue):
    said = text_of(ana, queue["vit-huge"])
    assert "takes back quota that was lent to this team (InCohortReclamation)" in said
    assert "It lost 5m 40s of work" in said
    assert "It had to stop" not in text_of(ana, queue["bert-large"])


def test_an_open_page_of_what_waits_asks_less_often(ana, queue):
    assert 'hx-trigger="every 10s, live:workload:' in html_of(ana, queue["bert-large"])
    assert 'hx-trigger="every 2s, live:workload:' in html_of(ana, queue["resnet50"])


def test_what_runs_has_no_such_card(ana, queue):
    assert "Why it waits" not in html_of(ana, queue["resnet50"])


def test_a_viewer_reads_the_card_and_can_press_nothing(viewer, queue):
    html = html_of(viewer, queue["bert-large"])
    assert "Why it waits" in html
    card = re.search(r'<section class="card callout[^>]*>(.*?)</section>', html, re.DOTALL)[1]
    assert "button" not in card


def test_the_levers_of_the_card_are_those_of_rest_and_can_be_taken(ana, queue):
    run = queue["detr"]
    levers = {next(iter(each["change"].items())): each for each in rest(ana, run)["levers"]}
    said, html = text_of(ana, run), html_of(ana, run)
    cost = levers[("flavor", "a100-80gb")]["cost_at_time_limit"]["amount_micro_usd"]
    assert f"a100-80gb instead of a100-40gb starts now $7.35/h, {format_usd(cost)} at its limit" in said
    assert (
        f'href="/runs/new/?from={run.public_id}&amp;replaces=1&amp;name=detr-2&amp;flavor=a100-80gb"' in html
    )
    seconds = re.search(r'name="seconds" value="(\d+)"', html)[1]
    longest = next(value for name, value in levers if name == "time_limit_seconds")
    assert longest - 90 < int(seconds) <= longest
    ana.post(f"/runs/{run.public_id}/time-limit/", {"seconds": seconds})
    assert rest(ana, run)["verdict"] == "admit"


# --- another time limit


def test_another_time_limit_is_one_click(ana, queue):
    run = queue["detr"]
    response = ana.post(f"/runs/{run.public_id}/time-limit/", {"seconds": "1500"}, follow=True)
    assert response.redirect_chain == [(f"/runs/{run.public_id}/", 303)]
    assert "detr has another time limit now." in response.content.decode()
    run.refresh_from_db()
    assert run.time_limit_seconds == run.training_run.spec["time_limit_seconds"] == 1500


@pytest.mark.parametrize("sent", ["", "-5", "1.5", "0", "soon", "9" * 30, "1500\x00"])
def test_a_time_limit_that_makes_no_sense_is_refused(ana, queue, sent):
    run = queue["detr"]
    response = ana.post(f"/runs/{run.public_id}/time-limit/", {"seconds": sent}, follow=True)
    assert "No time limit:" in response.content.decode()
    assert Workload.objects.get(pk=run.pk).time_limit_seconds == 24 * 3600


# --- what a card becomes


QUOTA = "Team vision uses 16 of 16 a100-40gb; this run needs 4."


def card(message=QUOTA, start=None, victims=(), levers=(), names=None) -> Card:
    verdict = Verdict(Outcome.WAIT, Reason.WAITING_FOR_QUOTA, message, "quota", victims=tuple(victims))
    return Card(
        verdict=verdict, kind="training-run", units=4, now=NOW, revision=7, position=1, ahead_count=0, ahead=(),
        estimate=start or Estimate(None, None, ""), past_hit_rate=None, rate_per_hour=None, at_time_limit=None, account=None,
        team=TeamFacts("vision", "vision"), offers=tuple(levers), names=names or {},
    )  # fmt: skip


def lever(verdict="wait", start=(None, None), **change) -> LeverOffer:
    p50, p90 = (moment and int(moment.timestamp()) for moment in start)
    found = Verdict(Outcome(verdict), Reason.WAITING_FOR_QUOTA, "x", "quota")
    return LeverOffer(Lever(change, found, Estimate(p50, p90, "")), change, 2_000_000, None)


CURRENT = {"gpus_per_replica": 8, "flavor": "a100", "capacity": "on-demand", "time_limit_seconds": 86400}
ON_THE_RUN = Page(
    noun="run", current=CURRENT, new="/runs/new/?from=1", limit="/runs/1/time-limit/", quota="/q/"
)
ON_THE_FORM = Page(noun="run", current=CURRENT, form=True, quota="/q/")
NOWHERE = Page(noun="run", current=CURRENT)


def levers_of(page, *given):
    return look_at(card(levers=given), page=page, submitted=True).levers


def test_a_lever_of_the_form_fills_its_fields():
    (found,) = levers_of(ON_THE_FORM, lever(gpus_per_replica=4, time_limit_seconds=5400))
    assert (found.fields, found.url, found.post) == ("gpus=4&time_limit=90m", "", "")
    assert found.words == "4 GPUs instead of 8 and a time limit of 1h 30m instead of 1d"


def test_a_lever_of_fewer_pods_fills_the_form_too():
    (found,) = levers_of(ON_THE_FORM, lever(replicas=2))
    assert (found.words, found.fields, found.url, found.post) == ("2 pods", "replicas=2", "", "")


def test_a_lever_of_a_run_leads_to_the_form_or_sets_the_limit():
    fewer, shorter = levers_of(ON_THE_RUN, lever(gpus_per_replica=4), lever(time_limit_seconds=7200))
    assert (fewer.url, fewer.post) == ("/runs/new/?from=1&gpus=4", "")
    assert (shorter.url, shorter.post, shorter.seconds) == ("", "/runs/1/time-limit/", 7200)


@pytest.mark.parametrize("page", [ON_THE_RUN, ON_THE_FORM])
def test_more_quota_is_asked_for_on_the_page_of_the_team(page):
    (found,) = levers_of(page, lever(verdict="admit", ask_for_quota=4))
    assert found.url == "/q/?pool=a100~on-demand&units=4#ask"
    assert (found.words, found.outcome) == ("4 more units of quota", "starts once a quota manager grants it")


@pytest.mark.parametrize("page", [ON_THE_RUN, ON_THE_FORM])
def test_an_own_run_that_could_make_room_is_named_with_what_it_loses(page):
    suspended = lever(start=(NOW, NOW + timedelta(seconds=30)), suspend="7f0f976b")
    offer = replace(suspended, lever=replace(suspended.lever, lost_seconds=600))
    shown = card(levers=[offer], names={"7f0f976b": ("pretrain", "training-run")})
    (found,) = look_at(shown, page=page, submitted=True).levers
    assert found.words == "Suspend pretrain, your own run"
    assert found.outcome == "starts within 30s"
    assert found.losses == ("it loses 10m of work and waits until you resume it",)
    assert (found.url, found.fields, found.post) == ("/runs/7f0f976b/", "", "")


def test_what_the_form_has_no_field_for_is_said_and_cannot_be_pressed():
    (other,) = levers_of(ON_THE_FORM, lever(topology="any"))
    assert (other.fields, other.url, other.post, other.label) == ("", "", "", "")
    assert not any(found.label for found in levers_of(NOWHERE, lever(flavor="t4"), lever(ask_for_quota=1)))


def test_a_time_limit_is_said_in_words_and_typed_as_the_form_reads_it():
    (found,) = levers_of(ON_THE_RUN, lever(time_limit_seconds=5340))
    assert (found.words, found.seconds) == ("A time limit of 1h 29m instead of 1d", 5340)
    assert levers_of(ON_THE_FORM, lever(time_limit_seconds=5340))[0].fields == "time_limit=89m"
    assert levers_of(ON_THE_RUN, lever(time_limit_seconds=90))[0].seconds == 90


def test_a_lever_says_when_it_would_start():
    half, hour = NOW + timedelta(minutes=30), NOW + timedelta(minutes=60)
    said = levers_of(
        NOWHERE, lever("admit", flavor="t4"), lever("wait", (half, hour), flavor="t4"), lever(flavor="x")
    )
    assert [each.outcome for each in said] == ["starts now", "starts in 30m to 1h", "start unknown"]


def test_an_unknown_start_does_not_say_the_reason_twice():
    message = "No node can hold 64."
    start = Estimate(None, None, "", f"It cannot start as things are. {message}")
    look = look_at(card(message=message, start=start), page=NOWHERE, submitted=False)
    assert (look.start, look.unknown) == ("", "It cannot start as things are.")


def test_victims_of_the_own_team_are_named_and_the_others_are_counted():
    cause = PreemptionCause.IN_COHORT_RECLAMATION
    own = Victim("7f0f976b", "vision", 60, cause)
    names = {"7f0f976b": ("resnet50", "training-run"), "a": ("theirs", "training-run")}
    others = [Victim("a", "speech", 30, cause), Victim("b", "robotics", 15, cause)]
    look = look_at(card(victims=[own, *others], names=names), page=ON_THE_FORM, submitted=False)
    assert [(each.name, each.url) for each in look.victims] == [("resnet50", f"/runs/{own.id}/")]
    assert (look.others.count, look.others.lost_seconds, look.victim_count) == (2, 45, 3)
    assert look.stops == "Would stop"


# --- in a browser


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_what_a_reader_opened_stays_open_and_keeps_the_focus_while_the_card_is_refreshed(
    live_server, world, queue
):
    session, address = session_of(world.ana), f"/runs/{queue['bert-large'].public_id}/"
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(address)
        summary = page.locator("#why-numbers-summary")
        summary.focus()
        page.keyboard.press("Enter")
        page.locator("#why-numbers table").wait_for()
        for look in ((1440, "light"), (390, "dark")):
            show(page, look)
            page.evaluate("document.querySelector('#live').dataset.old = 'yes'")
            with page.expect_response(lambda response: response.url.endswith(address) and response.ok):
                page.clock.run_for(REFRESHED_MS)
            page.locator("#live:not([data-old])").wait_for()
            assert page.locator("#why-numbers").get_attribute("open") is not None, look
            assert page.evaluate("document.activeElement.id") == "why-numbers-summary", look
            assert faults(page, look) == []
        assert complaints == []


def test_a_run_that_is_admitted_any_moment_says_so(ana, queue, world):
    run = world.run("small", minutes_ago=1, gpus_per_replica=1, time_limit_seconds=300)
    world.move(run, Phase.QUEUED, Reason.WAITING_FOR_QUOTA, "It waits.", at=world.now)
    said = text_of(ana, run)
    assert rest(ana, run)["verdict"] == "admit"
    assert "Starts any moment" in said


def test_a_run_without_gpus_that_no_node_has_taken_says_what_lacks_where(ana, world):
    NodeRecord.objects.update(others={"cpu": "4", "memory": "14Gi"})
    run = world.run("plain", flavor=None, gpus_per_replica=0, memory="8Gi", cpu="1")
    world.move(run, Phase.ADMITTED, Reason.UNSCHEDULABLE, "0/2 nodes are available.", at=world.now)
    assert "Why it waits" not in html_of(ana, run), "there is room as far as anybody knows"
    NodeRecord.objects.update(others={"cpu": "4", "memory": "5Gi"})
    said = text_of(ana, run)
    assert "Cannot start as things are" in said
    assert "No node can hold 8Gi of memory without GPUs in one pod; the most is 5Gi." in said
    assert "5Gi of memory instead of 8Gi" in said
    assert "Without a node since" in said
    assert "more quota" not in said
