"""The fan-out in memory, without a socket."""

from __future__ import annotations

import asyncio
import json

from gateway.live import hub
from gateway.live.hub import Hub, LogBell, Subscription


class Sees:
    def __init__(self, *slugs: str, fresh: bool = True) -> None:
        self.slugs = frozenset(slugs)
        self.fresh = fresh

    def is_fresh(self) -> bool:
        return self.fresh


def payload(team: str = "a", **facts: str) -> str:
    return json.dumps({"workload": "w", "kind": "k", "team": team, "phase": "p", "reason": "r"} | facts)


def subscribe(to: Hub, view: Sees) -> Subscription:
    subscription = Subscription(view)
    to.add(subscription)
    return subscription


def test_a_consumer_that_does_not_read_is_cut_off_and_no_other():
    shared = Hub()
    slow, reading = subscribe(shared, Sees("a")), subscribe(shared, Sees("a"))

    async def scenario():
        frames = reading.frames(ping_seconds=5)
        for _ in range(hub.WAITING_MAX + 1):
            shared.publish(payload())
            assert b"event: workload" in await anext(frames)

    asyncio.run(scenario())
    assert slow.ended.is_set()
    assert not reading.ended.is_set()


def test_a_stream_whose_rights_are_not_known_ends_rather_than_miss_an_event():
    shared = Hub()
    unsure = subscribe(shared, Sees("a", fresh=False))
    shared.publish(payload())
    assert unsure.ended.is_set()


def test_malformed_notifications_are_dropped():
    shared = Hub()
    reader = subscribe(shared, Sees("a"))
    for told in ("", "[]", "null", "{}", "\x00", payload()[:-1]):
        shared.publish(told)
    assert shared.backlog("", Sees("a")) == b""
    assert not reader.ended.is_set()


def test_a_new_page_asks_anew_only_if_something_happened_that_it_may_see():
    shared = Hub()
    assert shared.backlog("", Sees("a")) == b""
    shared.publish(payload(team="b"))
    assert shared.backlog("", Sees("a")) == b""
    assert b"event: resync" in shared.backlog("", Sees("b"))


def test_nothing_in_a_notification_can_forge_an_event():
    shared = Hub()
    shared.publish(payload(reason="x\n\nevent: forged\ndata: {}"))
    frame = shared._recent[-1].frame
    assert frame.count(b"event:") == 2
    assert frame.count(b"\n\n") == 1


def test_ids_of_before_a_gap_are_not_taken_for_those_after_it():
    shared = Hub()
    shared.publish(payload())
    before = f"{shared._epoch}-1"
    assert shared.backlog(before, Sees("a")) == b""
    shared.resync()
    assert b"event: resync" in shared.backlog(before, Sees("a"))
    for odd in ("x", f"{shared._epoch}-", f"{shared._epoch}-99", f"{shared._epoch}--1", "-"):
        assert b"event: resync" in shared.backlog(odd, Sees("a"))


def test_the_bell_rings_for_its_workload_alone():
    bell = LogBell()
    mine, other = bell.add("w1"), bell.add("w2")
    bell.ring(json.dumps({"workload": "w1", "attempt": 1}))
    assert mine.is_set()
    assert not other.is_set()
    bell.remove("w1", mine)
    bell.remove("w2", other)
    assert bell._waiting == {}
