"""Waits, quiet hours, digests and mail: when something is told, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime, time
from email import message_from_bytes, policy

import pytest

from notices.models import Delivery, NoticeSubscription
from notices.outbox import tell_of_waits
from notices.quiet import end_of_quiet
from notices.texts import one_line
from portal.celery import app
from workloads.states import Phase, Reason


@pytest.mark.parametrize(
    ("now", "begin", "end", "zone", "may_go"),
    [
        ("2026-11-20T21:59", "22:00", "07:00", "UTC", "2026-11-20T21:59"),
        ("2026-11-20T22:00", "22:00", "07:00", "UTC", "2026-11-21T07:00"),
        ("2026-11-20T06:59", "22:00", "07:00", "UTC", "2026-11-20T07:00"),
        ("2026-11-20T07:00", "22:00", "07:00", "UTC", "2026-11-20T07:00"),
        ("2026-11-20T12:00", "11:00", "13:00", "UTC", "2026-11-20T13:00"),
        ("2026-11-20T21:30", "22:00", "07:00", "Europe/Zurich", "2026-11-21T06:00"),
        # Clocks are put forward, and back.
        ("2026-03-28T23:00", "22:00", "07:00", "Europe/Zurich", "2026-03-29T05:00"),
        ("2026-10-24T23:00", "22:00", "07:00", "Europe/Zurich", "2026-10-25T06:00"),
    ],
)
def test_quiet_hours_end_at_their_local_time(now, begin, end, zone, may_go):
    def at(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    ends = end_of_quiet(
        at(now), quiet_from=time.fromisoformat(begin), quiet_until=time.fromisoformat(end), time_zone=zone
    )
    assert ends == at(may_go)


@pytest.mark.django_db
def test_what_happens_in_quiet_hours_is_told_after_them(bed, receiver):
    bed.subscribe(url=receiver.url, quiet_from=time(9), quiet_until=time(17))
    bed.fail(bed.run())
    bed.deliver()
    assert receiver.got == []
    bed.later(hours=8)
    bed.deliver()
    assert len(receiver.got) == 1


@pytest.mark.django_db
def test_a_wait_is_told_once_when_it_has_become_long(bed, receiver):
    bed.subscribe(url=receiver.url, topics=["waiting"], wait_minutes=30)
    run = bed.run(name="patient")
    bed.later(minutes=29)
    assert tell_of_waits(now=bed.now) == 0
    bed.later(minutes=1)
    assert tell_of_waits(now=bed.now) == 1
    bed.later(minutes=10)
    assert tell_of_waits(now=bed.now) == 0
    bed.deliver()
    (got,) = receiver.got
    assert got.json["type"] == "workload.waiting"
    assert (got.json["data"]["id"], got.json["data"]["waited_minutes"]) == (str(run.public_id), 30)
    bed.move(run, Phase.ADMITTED, Reason.CREATING)
    bed.later(hours=9)
    assert tell_of_waits(now=bed.now) == 0


@pytest.mark.django_db
def test_a_digest_gathers_what_happens_into_one_notice(bed, receiver):
    bed.subscribe(url=receiver.url, digest_minutes=60)
    runs = [bed.fail(bed.run()) for _ in range(3)]
    bed.deliver()
    assert receiver.got == []
    bed.later(minutes=61)
    bed.deliver()
    (got,) = receiver.got
    assert got.json["type"] == "portal.digest"
    told = [each["data"]["id"] for each in got.json["data"]["notices"]]
    assert told == [str(run.public_id) for run in runs]
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["delivered", *["packed"] * 3]


@pytest.mark.django_db
def test_mail_goes_to_each_member_as_text_and_html_that_holds_no_markup(bed, mailbox):
    bed.subscribe(team=bed.team, channel="mail")
    bed.fail(bed.run(name="resnet"), "<script>alert(1)</script>\r\nBcc: eve@example.org")
    bed.deliver()
    assert sorted(to for to, _ in mailbox.mails) == [["ana@example.org"], ["lea@example.org"]]
    mail = message_from_bytes(mailbox.mails[0][1], policy=policy.default)
    assert mail["Subject"] == "[portal] Run vision/resnet failed"
    assert mail["Bcc"] is None
    row = Delivery.objects.get(recipient__email=mailbox.mails[0][0][0])
    assert str(row.public_id) in mail["Message-ID"]
    text, html = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "<script>alert(1)</script> Bcc: eve@example.org" in text
    assert "<script>" not in html
    assert f"/notices/{NoticeSubscription.objects.get().public_id}/" in html


@pytest.mark.django_db
def test_an_address_that_the_mail_server_refuses_holds_up_no_other(bed, mailbox):
    bed.subscribe(team=bed.team, channel="mail")
    mailbox.refuses.add("ana@example.org")
    bed.fail(bed.run())
    bed.deliver()
    assert [to for to, _ in mailbox.mails] == [["lea@example.org"]]
    assert Delivery.objects.get(recipient=bed.ana).error == "The mail server refuses the address."


@pytest.mark.parametrize("text", ["a\r\nBcc: b", "a\nb", "a\x00b", "a\u2028b", "a\x85b"])
def test_a_title_is_one_line(text):
    assert len(one_line(text).splitlines()) == 1


def test_beat_sends_and_looks_by_itself():
    """Each is a task that a worker knows, in a queue that it reads (tests/runtime/test_queues.py)."""
    beat = {entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()}
    assert beat["notices.tasks.deliver"] == 5.0
    assert beat["notices.tasks.look_for_waits"] == 60.0
    assert beat["notices.tasks.forget_old"] == 3600.0
