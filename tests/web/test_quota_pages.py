"""What a team sees of its quota: the bar and its numbers, the fence, its queue, asking for more."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from costs.models import UsageInterval
from foundation import clock
from pages.quotas.bars import Bar, QuotaFacts
from quotas import limits
from quotas.changes import LimitChange, apply_changes
from quotas.models import Fence, Quota, QuotaRequest
from quotas.requests import deny_request
from tests.tables import each_row
from tests.web.conftest import signed_in
from tests.web.quota_world import QuotaWorld
from tests.web.test_escaping import PAYLOADS, harm_in

QUOTA = "/teams/vision/quota/"


@pytest.fixture
def world(quota_world) -> QuotaWorld:
    return quota_world


# --- the bar


def parts(**facts: int) -> dict[str, tuple[float, float]]:
    """Where each part begins and how wide it is, in per cent."""
    bar = Bar(QuotaFacts(**{"ceiling": facts["nominal"], "available": 0} | facts), what="a100")
    return {each.part: (float(each.left[:-1]), float(each.width[:-1])) for each in bar.parts}


def figures(**facts: int) -> dict[str, int]:
    bar = Bar(QuotaFacts(**{"ceiling": facts["nominal"], "available": 0} | facts), what="a100")
    return {each.name: each.units for each in bar.figures}


def test_use_within_the_quota_leaves_the_rest_free():
    assert parts(nominal=16, used=4) == {"used": (0, 25), "free": (25, 75)}


def test_what_is_reserved_and_not_used_is_a_part_of_its_own():
    assert parts(nominal=16, used=8, headroom=4) == {"used": (0, 25), "idle": (25, 25), "free": (50, 50)}


def test_headroom_that_a_run_lives_on_is_no_longer_unused():
    assert figures(nominal=16, used=8, headroom=4, lent_headroom=3)["Reserved, unused"] == 1


def test_what_is_borrowed_stands_beyond_the_quota():
    assert parts(nominal=4, used=6, ceiling=8) == {"used": (0, 50), "borrowed": (50, 25)}


def test_what_is_lent_is_the_end_of_the_quota():
    assert parts(nominal=16, used=4, lent=8) == {"used": (0, 25), "free": (25, 25), "lent": (50, 50)}


def test_use_after_a_cut_is_over_the_limit_and_not_borrowed():
    found = figures(nominal=2, used=6, ceiling=3, available=-3)
    assert (found["Used"], found["Borrowed"], found["Over the limit"], found["Available"]) == (2, 1, 3, -3)


@each_row("used", [0, 3, 9, 40])
@each_row("ceiling", [8, 20])
@each_row("headroom", [0, 2, 9])
@each_row("lent", [0, 5])
def test_the_parts_follow_each_other_and_add_up_to_what_is_used_or_guaranteed(used, ceiling, headroom, lent):
    facts = QuotaFacts(
        nominal=8, used=used, ceiling=ceiling, available=0, headroom=min(headroom, used), lent=lent, pending=7
    )
    bar = Bar(facts, what="a100")
    end = 0.0
    for part in bar.parts:
        assert float(part.left[:-1]) == pytest.approx(end, abs=0.01)
        end += float(part.width[:-1])
    assert end == pytest.approx(max(8, used) * 100 / bar.whole, abs=0.01)
    held = {each.name: each.units for each in bar.figures}
    assert held["Used"] + held["Reserved, unused"] + held["Borrowed"] + held.get("Over the limit", 0) == used
    for each in (bar.room, bar.pending):
        assert each is None or float(each.left[:-1]) + float(each.width[:-1]) <= 100.01


def test_a_bar_of_nothing_is_drawn():
    bar = Bar(QuotaFacts(nominal=0, used=0, ceiling=0, available=0), what="a100")
    assert (bar.parts, bar.room, bar.pending) == ([], None, None)


# --- the page


def numbers(html: str, flavor: str) -> dict[str, str]:
    """The legend of one flavor's bar."""
    article = re.search(rf'<article class="pool" aria-label="{flavor}.*?</article>', html, re.DOTALL)[0]
    found = re.findall(r"<dt>(.*?)</dt><dd[^>]*>([^<]*)</dd>", article, re.DOTALL)
    return {re.sub(r"<[^>]*>", "", name).strip(): value for name, value in found}


def test_the_owner_of_lent_quota_sees_what_is_lent_and_what_waits(full):
    shown = numbers(signed_in(full.ana).get(QUOTA).content.decode(), "a100-40gb")
    assert shown == {
        "Guaranteed": "18",
        "Used": "6",
        "Borrowed": "0",
        "Available": "10",
        "Limit": "22",
        "Reserved, unused": "0",
        "Lent out": "2",
        "Waiting": "8",
    }


def test_the_borrower_sees_what_it_borrows_of_whom_and_why_its_queue_stands(full):
    html = signed_in(full.stranger).get("/teams/speech/quota/").content.decode()
    assert numbers(html, "a100-40gb")["Borrowed"] == "2"
    assert "2 borrowed from cohort research" in html
    assert "is stopped since" in html
    assert "The data set is being moved." in html


def test_a_quota_that_was_cut_below_its_use_is_shown_as_negative_with_a_sentence(full):
    html = signed_in(full.manager).get("/teams/robotics/quota/").content.decode()
    assert numbers(html, "a100-40gb")["Available"] == "\N{MINUS SIGN}1"
    assert "1 more in use than the limit allows" in html


@pytest.mark.parametrize("path", ["/teams/vision/", QUOTA])
def test_the_same_bar_is_on_the_team_page_and_on_the_quota_page(full, path):
    html = signed_in(full.ana).get(path).content.decode()
    assert numbers(html, "a100-40gb")["Lent out"] == "2"
    assert (
        'role="img" aria-label="a100-40gb on-demand: 6 of 18 used, 2 lent out, 8 waiting; limit 22"' in html
    )
    assert html.count('id="quota-lent"') == 1


def test_both_numbers_of_the_fair_share_are_shown(full):
    html = signed_in(full.ana).get(QUOTA).content.decode()
    use, weighted = re.search(
        r'>(\d+\.\d) <span class="muted">GPU-h</span></td><td class="num strong">(\d+\.\d)<', html
    ).groups()
    hours = 200 / 60 + (clock.now() - full.now).total_seconds() / 3600
    assert float(use) == pytest.approx(6 * hours, abs=0.3)
    assert float(weighted) == pytest.approx(float(use) / 3, abs=0.1)
    assert 'Weight <span class="strong">3</span>' in html


def test_a_fence_out_of_step_shows_both_numbers_and_its_age(full):
    html = signed_in(full.ana).get(QUOTA).content.decode()
    assert "Out of step" in html
    assert re.search(r'class="differs">.*?requests\.nvidia\.com/gpu.*?>24</td>.*?>20</td>', html)
    assert "3 min ago" in html


def test_a_fence_is_in_step_or_not_there_or_not_checked(full):
    client = signed_in(full.ana)
    fence = Fence.objects.get()
    fence.observed = fence.derived
    fence.save()
    assert "In step" in client.get(QUOTA).content.decode()
    fence.observed = None
    fence.save()
    assert "No namespace yet" in client.get(QUOTA).content.decode()
    fence.delete()
    assert "Not checked yet" in client.get(QUOTA).content.decode()


def test_the_part_that_refreshes_is_the_bars_alone(full):
    headers = {"HX-Request": "true", "HX-Target": "pools"}
    html = signed_in(full.ana).get(QUOTA, headers=headers).content.decode()
    assert html.strip().startswith('<div class="stack" id="pools"')
    assert "Ask for more" not in html


def test_changes_say_who_and_why_and_lead_to_their_change_set_for_managers_alone(full):
    made = apply_changes(
        changes=[LimitChange(full.team, full.a100, "on-demand", {"nominal": 20})],
        reason="Two more nodes.",
        evicts=False,
        actor=full.by_manager,
        now=clock.now(),
    )
    link = f'href="/quotas/changes/{made.public_id}/"'
    mine, theirs = (signed_in(who).get(QUOTA).content.decode() for who in (full.ana, full.manager))
    assert "Two more nodes." in mine
    assert link not in mine
    assert link in theirs


# --- asking for more


def form(**values: str) -> dict[str, str]:
    until = f"{clock.now() + timedelta(days=10):%Y-%m-%d}"
    return {"pool": "a100-40gb~on-demand", "units": "4", "until": until, "reason": "A paper."} | values


@pytest.mark.usefixtures("still")
def test_a_member_asks_and_sees_what_became_of_it(world):
    client = signed_in(world.ana)
    assert client.post(QUOTA, form()).status_code == 303
    asked = QuotaRequest.objects.get()
    assert (asked.units, asked.requested_by, asked.until.hour) == (4, world.ana, 0)
    assert asked.until.date() == (clock.now() + timedelta(days=11)).date()
    typed = form()["until"]
    for reader, path in ((world.ana, QUOTA), (world.manager, "/quotas/requests/")):
        assert f">{typed}</time>" in signed_in(reader).get(path).content.decode()
    deny_request(request=asked, comment="Not this quarter.", actor=world.by_manager, now=clock.now())
    html = client.get(QUOTA).content.decode()
    assert "Denied" in html
    assert "Not this quarter." in html


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pool", "no-such~on-demand"),
        ("pool", "a100-40gb~spot"),
        ("units", "0"),
        ("units", "-4"),
        ("units", "1.5"),
        ("units", "99999999999999999999"),
        ("units", "٤"),
        ("until", "soon"),
        ("until", "2001-01-01"),
        ("until", "9999-12-31"),
        ("reason", "   "),
    ],
)
def test_what_is_asked_wrong_is_told_at_its_field_and_kept(world, field, value):
    response = signed_in(world.ana).post(QUOTA, form(**{field: value}))
    html = response.content.decode()
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in html
    assert re.search(r'name="units" value="4"', html) or field == "units"
    assert not QuotaRequest.objects.exists()


def test_who_may_not_ask_or_stop_the_queue_is_not_offered_it(world):
    viewers, members = (signed_in(who).get(QUOTA).content.decode() for who in (world.viewer, world.ana))
    assert 'id="ask"' not in viewers
    assert "Stop the queue" not in members


def test_who_asked_may_withdraw_and_nobody_else(world):
    asked = world.ask()
    path = f"{QUOTA}requests/{asked.public_id}/withdraw/"
    assert "Withdraw" not in signed_in(world.lead).get(QUOTA).content.decode()
    assert signed_in(world.lead).post(path).status_code == 403
    assert signed_in(world.ana).post(path).status_code == 303
    asked.refresh_from_db()
    assert asked.state == "withdrawn"
    again = signed_in(world.ana).post(path, follow=True).content.decode()
    assert "This request is withdrawn already." in again


# --- the queue


def test_a_lead_stops_and_starts_the_queue_with_a_reason(world):
    client = signed_in(world.lead)
    refused = client.post(f"{QUOTA}queue/", {"action": "stop", "reason": " "}, follow=True).content.decode()
    assert "Say why" in refused
    client.post(f"{QUOTA}queue/", {"action": "stop", "reason": "Maintenance."})
    assert "Maintenance." in client.get(QUOTA).content.decode()
    client.post(f"{QUOTA}queue/", {"action": "start"})
    assert "Maintenance." not in client.get(QUOTA).content.decode()


# --- hostile text


def test_no_text_of_people_acts(full):
    text = " ".join(PAYLOADS[:8])
    full.team.name = PAYLOADS[0]
    full.team.save()
    full.ask(reason=text)
    limits.stop_queue(team=full.team, reason=text, actor=full.by_manager, now=clock.now())
    Quota.objects.filter(team=full.team).first().changes.update(reason=text, actor=PAYLOADS[1])
    for path in (QUOTA, "/teams/vision/"):
        response = signed_in(full.lead).get(path)
        assert harm_in(response) == []
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in response.content.decode()
    typed = signed_in(full.ana).post(QUOTA, dict.fromkeys(("pool", "units", "until", "reason"), text))
    assert harm_in(typed) == []


@pytest.mark.usefixtures("still")
def test_a_request_until_another_time_than_midnight_says_that(world):
    until = (clock.now() + timedelta(days=3)).replace(hour=15, minute=30, second=0, microsecond=0)
    client = signed_in(world.ana)
    client.post(QUOTA, form())
    QuotaRequest.objects.update(until=until)
    assert f">{until:%Y-%m-%d} 15:30</time>" in client.get(QUOTA).content.decode()


def test_the_pages_of_a_team_say_the_same_rate_in_the_same_unit(world):
    """An endpoint that may grow to four replicas and has one: a card-hour is $2.744705."""
    endpoint = world.endpoint(
        "grows", flavor="a100-40gb", max_replicas=4, scaling={"trigger": "cpu", "threshold": 70}
    )
    world.start(endpoint)
    UsageInterval.objects.filter(workload=endpoint).update(units=1)
    client = signed_in(world.ana)
    home, team, own = (
        client.get(path).content.decode()
        for path in ("/", "/teams/vision/", f"/endpoints/{endpoint.public_id}/")
    )
    assert 'data-label="Per hour now" class="num"><span>$2.74<' in home
    assert 'data-label="Per hour now" class="num"><span>$2.74<' in team
    assert "$2.74 per hour now, together" in team
    assert "$2.74 per hour now, $10.98 at its most" in own
    assert "$2.74 per unit and hour" in team


def test_a_team_of_more_workloads_than_are_shown_is_told_how_many_more_and_the_rate_of_all(
    world, monkeypatch
):
    monkeypatch.setattr("pages.teams.team.HOLDERS_MAX", 1)
    for name in ("one", "another", "third"):
        world.start(world.run(name))
    page = signed_in(world.ana).get("/teams/vision/").content.decode()
    assert "$16.47 per hour now, together" in page
    assert "And 2 smaller ones" in page


def test_a_card_that_advises_to_ask_fills_in_what_and_how_many(world):
    page = signed_in(world.ana).get(QUOTA, {"pool": "a100-40gb~on-demand", "units": "6"}).content.decode()
    assert 'name="units" value="6"' in page
    assert '<option value="a100-40gb~on-demand" selected>' in page
