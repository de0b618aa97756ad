"""The fan-out in memory, without a socket."""

from __future__ import annotations

import asyncio
import json

from gateway.followed import Followed
from gateway.live import hub
from gateway.live.hub import Bell, Hub, Subscription


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
    for told in ("", "[]", "null", "{}", "\x00", payload()[:-1], payload(event="x"), payload(event="[]")):
        shared.publish(told)
    assert shared.backlog("", Subscription(Sees("a"))) == b""
    assert not reader.ended.is_set()


def test_a_new_page_asks_anew_only_if_something_happened_that_it_may_see():
    shared = Hub()
    assert shared.backlog("", Subscription(Sees("a"))) == b""
    shared.publish(payload(team="b"))
    assert shared.backlog("", Subscription(Sees("a"))) == b""
    assert b"event: resync" in shared.backlog("", Subscription(Sees("b")))


def test_a_stream_tells_what_was_asked_for_of_what_may_be_seen():
    shared = Hub()
    for number, (team, workload) in enumerate((("a", "w1"), ("a", "w2"), ("b", "w3"), ("c", "w4")), start=1):
        shared.publish(payload(team, workload=workload, event=str(number)))

    def told(sees: Sees, **followed: set[str]) -> list[int]:
        asked = Followed(**{name: frozenset(values) for name, values in followed.items()})
        missed = shared.backlog("1", Subscription(sees, asked)).decode()
        return [int(line.removeprefix("id: ")) for line in missed.splitlines() if line.startswith("id: ")]

    assert told(Sees("a", "b")) == [2, 3]
    assert told(Sees("a", "b"), teams={"b", "c"}) == [3]
    assert told(Sees("a", "b"), workloads={"w2", "w4"}) == [2]
    assert told(Sees("a", "b"), teams={"b"}, workloads={"w2"}) == []


def test_nothing_in_a_notification_can_forge_an_event():
    shared = Hub()
    shared.publish(payload(reason="x\n\nevent: forged\ndata: {}"))
    frame = shared._recent[-1].frame
    assert frame.count(b"event:") == 2
    assert frame.count(b"\n\n") == 1


def test_a_stream_goes_on_where_it_was_in_the_order_of_the_commits():
    shared = Hub()
    stream = Subscription(Sees("a"))
    for number in ("5", "4", "7"):
        shared.publish(payload(event=number))
    shared.publish(payload(reason="a new message"))
    missed = shared.backlog("4", stream)
    assert missed.count(b"id: 7\nevent: workload") == 2
    assert b"id: 5" not in missed
    assert shared.backlog("7", stream).count(b"event: workload") == 1
    # Only the database knows of these.
    for unknown in ("3", "6", "8", "0"):
        assert shared.backlog(unknown, stream) is None
    shared.resync()
    assert shared.backlog("7", stream) is None
    # What moves nothing has the number of a move from before the gap, and tells nothing of what was missed in it.
    shared.publish(payload())
    assert shared.backlog("7", stream) is None
    for odd in ("x", "0123456789ab-17", "-1", "1" * 19, "\u0661"):
        assert b"id: 7\nevent: resync" in shared.backlog(odd, stream)


def test_the_bell_rings_for_its_workload_alone():
    bell = Bell()
    mine, other = bell.add("w1"), bell.add("w2")
    bell.ring(json.dumps({"workload": "w1", "attempt": 1}))
    assert mine.is_set()
    assert not other.is_set()
    bell.remove("w1", mine)
    bell.remove("w2", other)
    assert bell._waiting == {}
