"""What a month or a week cost is told when it is over: once, to who may see it, in the figures of the page."""

from __future__ import annotations

import html
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from email import message_from_bytes, policy
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client

from budgets.services import create_budget
from costs.models import BudgetPeriod, LedgerEntry, Price
from foundation import clock
from foundation.money import format_usd
from notices import tasks
from notices.delivering import KEEP
from notices.models import Delivery, DeliveryState
from notices.periods import TOLD_WITHIN, Rhythm, due_period, period_of
from notices.reporting import tell_of_costs
from portal.celery import app
from teams.services import remove_member
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.submitted import make_run
from tests.factories.teams import ACTOR, api_client, make_member, make_team, make_user
from tests.waiting import result_of

USD = 1_000_000
MONTHLY = ["monthly_costs"]
NOVEMBER_IS_OVER = datetime(2026, 12, 1, 1, tzinfo=UTC)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("rhythm", "zone", "before", "due", "key"),
    [
        # The last hour of a month is in the ledger an hour later.
        ("month", "UTC", "2026-12-01T00:59", "2026-12-01T01:00", "2026-11"),
        # Where the month has begun before that of UTC, it waits for the ledger; where it begins later, for the morning.
        ("month", "Asia/Tokyo", "2026-12-01T00:59", "2026-12-01T01:00", "2026-11"),
        ("month", "America/New_York", "2026-12-01T04:59", "2026-12-01T05:00", "2026-11"),
        # In summer time.
        ("month", "America/New_York", "2026-08-01T03:59", "2026-08-01T04:00", "2026-07"),
        ("month", "America/New_York", "2027-01-01T04:59", "2027-01-01T05:00", "2026-12"),
        ("week", "UTC", "2026-11-30T00:59", "2026-11-30T01:00", "2026-W48"),
        ("week", "America/New_York", "2027-01-04T04:59", "2027-01-04T05:00", "2026-W53"),
    ],
)
def test_a_report_is_due_when_the_day_after_begins_in_its_time_zone(rhythm, zone, before, due, key):
    rhythm = Rhythm(rhythm)
    period = due_period(rhythm, now=at(due), time_zone=zone)
    assert (period.key, period_of(period.key)) == (key, period)
    # Until then it is that of the week before, for who was not told of it, or none.
    earlier = due_period(rhythm, now=at(before), time_zone=zone)
    assert earlier is None or (rhythm, earlier) == (Rhythm.WEEK, period.before)


def test_a_report_that_nobody_could_make_for_a_week_is_made_no_more_and_rows_are_kept_for_longer():
    late = NOVEMBER_IS_OVER + TOLD_WITHIN
    assert due_period(Rhythm.MONTH, now=late, time_zone="UTC") is None
    assert KEEP > TOLD_WITHIN


# --- who is told what


class Books:
    """Two teams that have spent something in October and November."""

    def __init__(self, bed):
        self.bed = bed
        self.flavor = make_flavor()
        make_price()
        self.price = Price.objects.get()
        self.audio = make_team("audio")
        self.ben = make_member("lead", team=self.audio, user=make_user("ben")).user
        self.fin = make_user("fin", quota_manager=True)
        self.fin.email = "fin@example.org"
        self.fin.save()
        with clock.freeze(bed.now):
            self.resnet = make_run(bed.team, bed.ana, name="resnet")
            self.whisper = make_run(self.audio, self.ben, name="whisper")
        self.spend(self.resnet, 40, "2026-10-30T12:00")
        self.spend(self.resnet, 50, "2026-11-30T22:59")
        self.spend(self.whisper, 25, "2026-11-03T12:00")
        # Of the next month already.
        self.spend(self.resnet, 7, "2026-12-01T00:00")
        self.post("idle:a100-40gb:on-demand", 20, "2026-11-04T12:00")
        self.post("stranded:a100-40gb:on-demand", 4, "2026-11-04T12:00")
        self.post("lost:a100-40gb:on-demand", 1, "2026-11-04T12:00", team=bed.team)

    def spend(self, run, usd, when):
        whose = {"team": run.team, "workload": run, "user": run.owner, "phase": "running"}
        self.post(f"team:{run.team.slug}", usd, when, **whose)

    def post(self, account, usd, when, **whose):
        common = {
            "transaction_id": uuid4(), "started_at": at(when), "ended_at": at(when) + timedelta(hours=1), "price": self.price,
            "units": 1, "posted_at": at(when), "flavor_name": self.flavor.name,
        }  # fmt: skip
        LedgerEntry.objects.bulk_create(
            [
                LedgerEntry(**common, account=account, amount_micro_usd=usd * USD, **whose),
                LedgerEntry(**common, account="supply:a100-40gb:on-demand", amount_micro_usd=-usd * USD),
            ]
        )


@pytest.fixture
def books(bed):
    return Books(bed)


def month_is_over(bed):
    bed.now = NOVEMBER_IS_OVER
    made = tell_of_costs(now=bed.now)
    bed.deliver()
    return made


def opened(mailbox):
    """By recipient: subject, text and HTML."""
    mails = {}
    for (to,), raw in mailbox.mails:
        mail = message_from_bytes(raw, policy=policy.default)
        mails[to] = (mail["Subject"], *(mail.get_body((kind,)).get_content() for kind in ("plain", "html")))
    assert len(mails) == len(mailbox.mails)
    return mails


@pytest.mark.django_db
def test_one_mail_tells_what_the_page_tells_and_leads_to_it(bed, books, mailbox):
    bed.subscribe(channel="mail", topics=MONTHLY)
    assert month_is_over(bed) == 1
    assert tell_of_costs(now=bed.later(minutes=5)) == 0
    ((subject, text, page),) = opened(mailbox).values()
    assert subject == "[portal] Costs of team vision in November 2026: $50.00"
    for told in (text, html.unescape(re.sub(r"<[^>]*>", " ", page))):
        assert "$50.00 in November 2026, 25 % more than in October 2026 ($40.00)" in told
        assert "resnet" in told
        assert "whisper" not in told
        assert re.search(r"Lost to preemption, and credited:? +\$1\.00", told)
        assert "Idle" not in told
    page_url, csv_url = (
        re.search(rf"{what}: http://[^/]+(\S+)", text)[1] for what in ("All of it", r"columns\)")
    )
    browser = Client()
    browser.force_login(bed.ana)
    with clock.freeze(bed.now):
        shown = browser.get(page_url)
        lines = b"".join(browser.get(csv_url).streaming_content).decode()
    total = shown.context["report"].total_micro_usd
    assert format_usd(total) == "$50.00"
    assert Delivery.objects.get().payload["data"]["total"]["amount_micro_usd"] == total
    assert page_url.replace("&", "&amp;") in page
    assert lines.count("resnet") == 1


@pytest.mark.django_db
def test_each_is_told_of_the_teams_that_they_may_see_and_a_manager_of_all_with_what_stood_idle(
    bed, books, mailbox
):
    bed.subscribe(team=bed.team, channel="mail", topics=MONTHLY)
    bed.subscribe(books.fin, channel="mail", topics=MONTHLY)
    bed.subscribe(bed.lea, channel="mail", topics=["failed"])
    month_is_over(bed)
    mails = opened(mailbox)
    assert set(mails) == {"ana@example.org", "lea@example.org", "fin@example.org"}
    subject, text, _ = mails["fin@example.org"]
    assert subject == "[portal] Costs in November 2026: $75.00"
    assert text.index("$50.00  vision/resnet") < text.index("$25.00  audio/whisper")
    assert "Idle, nobody held it: $20.00 (20.0 % of what the cards were worth)" in text
    assert "Stranded, no flavor can use it: $4.00" in text
    for who in ("ana", "lea"):
        subject, text, _ = mails[f"{who}@example.org"]
        assert subject == "[portal] Costs of team vision in November 2026: $50.00"
        assert "audio" not in text


@pytest.mark.django_db
def test_a_budget_of_the_month_is_told_with_what_is_spent_of_it(bed, books, mailbox):
    values = {"amount_micro_usd": 80 * USD, "period": "month"}
    budget = create_budget(team=bed.team, values=values, actor=SETUP, now=bed.now)
    BudgetPeriod.objects.update_or_create(
        budget=budget, starts_at=at("2026-11-01T00:00"),
        defaults={"ends_at": at("2026-12-01T00:00"), "ceiling_micro_usd": 80 * USD},
    )  # fmt: skip
    bed.subscribe(channel="mail", topics=MONTHLY)
    month_is_over(bed)
    ((_, text, page),) = opened(mailbox).values()
    assert "team vision has spent 62 % of its budget of $80.00" in text
    assert "62 % of $80.00" in page


@pytest.mark.django_db
def test_a_webhook_gets_the_figures_and_no_digest_holds_them_back(bed, books, receiver):
    bed.subscribe(url=receiver.url, topics=[*MONTHLY, "weekly_costs"], digest_minutes=600)
    month_is_over(bed)
    (month,), (week,) = (
        [got.json for got in receiver.got if got.json["type"] == told]
        for told in ("costs.monthly", "costs.weekly")
    )
    data = month["data"]
    assert (data["id"], data["team"], data["about"], data["capacity"]) == (
        "2026-11",
        "vision",
        ["vision"],
        None,
    )
    assert [(each["name"], each["cost"]["usd"]) for each in data["dearest"]] == [("resnet", "50.000000")]
    assert (data["total"]["usd"], data["previous"]["usd"], data["change_percent"]) == (
        "50.000000",
        "40.000000",
        25,
    )
    # Nothing was spent from Monday, 23 November, to Sunday.
    assert (week["data"]["id"], week["data"]["total"]["usd"]) == ("2026-W48", "0.000000")
    assert week["data"]["from"] == "2026-11-23T00:00:00+00:00"


@pytest.mark.django_db
def test_who_left_a_team_before_it_was_sent_is_told_of_the_others_alone(bed, books, mailbox):
    make_member("viewer", team=books.audio, user=bed.ana)
    both = make_member("viewer", team=books.audio, user=bed.lea)
    bed.subscribe(channel="mail", topics=MONTHLY, quiet_from=time(0), quiet_until=time(7))
    bed.subscribe(bed.lea, channel="mail", topics=MONTHLY, quiet_from=time(0), quiet_until=time(7))
    month_is_over(bed)
    assert mailbox.mails == []
    remove_member(actor=ACTOR, membership=both, now=bed.now)
    for membership in bed.ana.memberships.all():
        remove_member(actor=ACTOR, membership=membership, now=bed.now)
    bed.later(hours=6)
    bed.deliver()
    ((to, (subject, text, _)),) = opened(mailbox).items()
    assert (to, subject) == ("lea@example.org", "[portal] Costs of team vision in November 2026: $50.00")
    assert "audio" not in text
    dropped = Delivery.objects.get(recipient=bed.ana)
    assert (dropped.state, "see it any more" in dropped.error) == (DeliveryState.DROPPED, True)


@pytest.mark.django_db
def test_who_is_a_manager_no_more_is_not_told_of_the_whole(bed, books, mailbox):
    bed.subscribe(books.fin, channel="mail", topics=MONTHLY, quiet_from=time(0), quiet_until=time(7))
    month_is_over(bed)
    books.fin.is_quota_manager = False
    books.fin.save()
    make_member("viewer", team=books.audio, user=books.fin)
    bed.later(hours=6)
    bed.deliver()
    ((subject, text, _),) = opened(mailbox).values()
    assert subject == "[portal] Costs of team audio in November 2026: $25.00"
    assert "Idle" not in text


@pytest.mark.django_db
def test_what_was_sent_is_sent_again_with_its_id(bed, books, mailbox):
    subscription, _ = bed.subscribe(channel="mail", topics=MONTHLY)
    month_is_over(bed)
    (notice,) = api_client(bed.ana).get("/api/v1/notices/?type=costs.monthly").json()["results"]
    assert (notice["subscription"], notice["state"]) == (str(subscription.public_id), "delivered")
    assert api_client(bed.ana).post(f"/api/v1/notices/{notice['id']}/replay/").status_code == 202
    bed.deliver_now()
    ids = [message_from_bytes(raw)["Message-ID"] for _, raw in mailbox.mails]
    assert ids == [ids[0]] * 2


@pytest.mark.django_db
def test_who_subscribes_later_is_told_of_the_next_month(bed, books, mailbox):
    bed.now = NOVEMBER_IS_OVER + timedelta(minutes=1)
    bed.subscribe(channel="mail", topics=MONTHLY)
    assert tell_of_costs(now=bed.now) == 0
    bed.now = datetime(2027, 1, 1, 1, tzinfo=UTC)
    assert tell_of_costs(now=bed.now) == 1


@pytest.mark.django_db
def test_nobody_is_told_of_nothing(bed, books, mailbox):
    """Who is in no team, is not active, or has switched it off."""
    eve = make_user("eve")
    eve.email = "eve@example.org"
    eve.save()
    bed.subscribe(eve, channel="mail", topics=MONTHLY)
    off, _ = bed.subscribe(channel="mail", topics=MONTHLY)
    off.enabled = False
    off.save()
    bed.subscribe(bed.lea, channel="mail", topics=MONTHLY)
    bed.lea.is_active = False
    bed.lea.save()
    assert month_is_over(bed) == 0


@pytest.mark.django_db(transaction=True)
def test_those_who_look_at_the_same_time_make_one_notice(bed, books, receiver):
    for number in range(5):
        bed.subscribe(url=receiver.url, topics=MONTHLY, name=f"{number}")

    def look():
        try:
            tell_of_costs(now=NOVEMBER_IS_OVER)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(look) for _ in range(4)]:
            result_of(done)
    bed.now = NOVEMBER_IS_OVER
    bed.deliver()
    assert len(receiver.got) == len({got.id for got in receiver.got}) == 5


@pytest.mark.django_db(transaction=True)
def test_beat_has_it_looked_by_itself(bed, books, mailbox):
    bed.subscribe(channel="mail", topics=MONTHLY)
    beat = {entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()}
    assert beat["notices.tasks.tell_of_costs"] == 300.0
    with clock.freeze(NOVEMBER_IS_OVER):
        tasks.tell_of_costs()
        tasks.deliver()
    assert len(mailbox.mails) == 1


@pytest.mark.django_db
def test_it_is_chosen_on_the_page_and_by_rest(bed, receiver):
    browser = Client()
    browser.force_login(bed.ana)
    assert "A month is over: what it cost" in browser.get("/notices/new/").content.decode()
    assert browser.get("/notices/new/").context["form"]["topics"].value() == ["failed", "finished"]
    link = re.search(r'href="(/notices/new/[^"]+)"', browser.get("/costs/").content.decode())[1]
    form = browser.get(html.unescape(link)).context["form"]
    assert form["topics"].value() == ["monthly_costs"]
    assert browser.get("/notices/new/?topic=nonsense").context["form"]["topics"].value() == [
        "failed",
        "finished",
    ]
    body = {
        "name": "bill",
        "channel": "webhook",
        "url": receiver.url,
        "topics": ["weekly_costs", "monthly_costs"],
    }
    made = api_client(bed.ana).post("/api/v1/subscriptions/", {**body, "time_zone": "Europe/Zurich"})
    assert (made.status_code, made.json()["topics"]) == (201, ["monthly_costs", "weekly_costs"])
