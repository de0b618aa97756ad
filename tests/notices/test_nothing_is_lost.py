"""A receiver that fails, hangs, answers 500 and restarts gets all of it, in order, and knows repetitions by their id."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction

from notices import sending
from notices.delivering import LOCK, _take, deliver_due
from notices.models import Delivery, DeliveryState, NoticeSubscription, OutboxEvent
from notices.outbox import hand_on
from notices.sending import send
from tests.effort import drawn
from tests.factories.submitted import make_endpoint
from tests.waiting import result_of
from workloads.models import Workload
from workloads.states import Phase, Reason

ENDPOINTS = drawn(usual=10, soak=50)
FLAPS = drawn(usual=30, soak=200)
SEED = 20261124


def flap(bed, endpoints, number):
    """Each becomes ill or well: an event each, in the order of `number`."""
    reason = Reason.READY if number % 2 else Reason.DEGRADED
    for endpoint in endpoints:
        bed.move(endpoint, Phase.RUNNING, reason, str(number))


def in_order(receiver):
    """For each workload what came, repetitions and refused ones too, as numbers."""
    lanes = defaultdict(list)
    for got in receiver.got:
        lanes[got.json["data"]["id"]].append(int(got.json["data"]["message"]))
    return lanes


def check(receiver, endpoints, flaps):
    accepted = {(got.json["data"]["id"], int(got.json["data"]["message"])) for got in receiver.accepted}
    assert len(accepted) == len(endpoints) * flaps
    assert all(came == sorted(came) for came in in_order(receiver).values())
    ids = defaultdict(set)
    for got in receiver.got:
        ids[got.id].add(got.body)
    assert len(ids) == len(endpoints) * flaps
    assert all(len(bodies) == 1 for bodies in ids.values())


@pytest.mark.matrix
@pytest.mark.django_db
@pytest.mark.timeout(3600)
def test_of_many_events_none_is_lost_or_overtaken_and_repetitions_have_the_same_id(
    bed, receiver, monkeypatch
):
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.2)
    draw = random.Random(SEED)
    bed.subscribe(team=bed.team, url=receiver.url)
    endpoints = [make_endpoint(bed.team, bed.ana, phase=Phase.RUNNING) for _ in range(ENDPOINTS)]
    receiver.behave = lambda _: draw.choices([204, 500, None, 302], weights=[200, 10, 1, 1])[0]
    told = 0
    while told < FLAPS or OutboxEvent.objects.exists() or pending().exists():
        if told < FLAPS:
            flap(bed, endpoints, told)
            told += 1
        match draw.randrange(20):
            case 0:
                receiver.stop()
            case 1:
                # A worker that dies after it has sent, and writes nothing down.
                hand_on(now=bed.now)
                send(_take(uuid4(), bed.now), now=bed.now)
                bed.later(seconds=LOCK.total_seconds())
            case _:
                receiver.stop()
                receiver.start()
        deliver_due(now=bed.now)
        bed.later(seconds=draw.choice([1, 5, 60, 600]))
    check(receiver, endpoints, FLAPS)
    assert len(receiver.got) > len(receiver.accepted) > ENDPOINTS * FLAPS, "nothing was sent twice"
    assert set(Delivery.objects.values_list("state", flat=True)) == {DeliveryState.DELIVERED.value}


def pending():
    return Delivery.objects.filter(state=DeliveryState.PENDING)


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_workers_beside_each_other_send_each_once_and_in_order(bed, receiver):
    bed.subscribe(team=bed.team, url=receiver.url)
    endpoints = [make_endpoint(bed.team, bed.ana, phase=Phase.RUNNING) for _ in range(8)]
    for number in range(12):
        flap(bed, endpoints, number)

    def work():
        try:
            while OutboxEvent.objects.exists() or pending().exists():
                deliver_due(now=bed.now)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            result_of(done)
    check(receiver, endpoints, 12)
    assert len(receiver.got) == 96


@pytest.mark.django_db
def test_what_fails_is_tried_later_and_later_and_then_given_up(bed, receiver):
    bed.subscribe(url=receiver.url)
    receiver.behave = lambda _: 500
    bed.fail(bed.run())
    pauses = []
    while pending().exists() or OutboxEvent.objects.exists():
        before = bed.now
        bed.deliver()
        row = Delivery.objects.get()
        if row.state == DeliveryState.PENDING:
            NoticeSubscription.objects.update(held_until=None)
            pauses.append((row.next_at - before).total_seconds())
            bed.now = row.next_at - timedelta(seconds=1)
            assert bed.deliver() == 0
            bed.now = row.next_at
    assert pauses == [5 * 3**n for n in range(8)] + [21600] * 5
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.status_code, len(receiver.got)) == ("dead", 14, 500, 14)


@pytest.mark.django_db
def test_a_receiver_that_fails_is_asked_by_one_at_a_time_and_then_gets_all(bed, receiver):
    bed.subscribe(url=receiver.url)
    for _ in range(10):
        bed.fail(bed.run())
    receiver.behave = lambda _: 503
    bed.deliver()
    assert len(receiver.got) == 10
    for _ in range(3):
        bed.later(hours=1)
        bed.deliver()
    assert len(receiver.got) == 13
    receiver.behave = lambda _: 204
    bed.later(hours=6)
    bed.deliver()
    assert len(receiver.accepted) == 10


@pytest.mark.django_db
def test_a_receiver_that_fails_holds_up_no_other(bed, receiver):
    bed.subscribe(url=f"{receiver.url}?of=bad")
    bed.subscribe(team=bed.team, url=f"{receiver.url}?of=good")
    receiver.behave = lambda _: 204
    run = bed.run()
    NoticeSubscription.objects.filter(user=bed.ana).update(failures=9, held_until=bed.later(hours=1))
    bed.now -= timedelta(hours=1)
    bed.fail(run)
    bed.deliver()
    assert [got.path for got in receiver.got] == ["/hook?of=good"]


@pytest.mark.django_db
def test_a_receiver_that_is_gone_is_asked_no_more(bed, receiver):
    bed.subscribe(url=receiver.url)
    receiver.behave = lambda _: 410
    for _ in range(3):
        bed.fail(bed.run())
    bed.deliver()
    row = NoticeSubscription.objects.get()
    assert (row.enabled, row.off_because) == (False, "The receiver answered 410: it wants no more.")
    assert not pending().exists()


@pytest.mark.django_db
def test_a_move_that_is_rolled_back_is_told_to_nobody(bed, receiver):
    bed.subscribe(url=receiver.url)
    run = bed.run()
    with transaction.atomic():
        bed.fail(run)
        assert OutboxEvent.objects.count() == 1
        transaction.set_rollback(True)
    bed.deliver()
    assert (OutboxEvent.objects.count(), receiver.got) == (0, [])
    assert Workload.objects.get(pk=run.pk).phase == "Queued"
