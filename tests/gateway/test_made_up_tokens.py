"""Made-up tokens of one address have one place at the database, and made-up tickets none; nobody else waits or is refused."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest

from foundation import clock
from foundation.errors import NotSignedIn
from gateway.live import strangers
from gateway.live.strangers import A_SECOND, AT_ONCE, Strangers
from teams.tickets import mint_for, read


async def come(counted, address):
    with pytest.raises(NotSignedIn):
        async with counted.turn(address):
            raise NotSignedIn("made up")


class Looks:
    """Looks at tokens that take until they are let go."""

    def __init__(self, counted):
        self.counted = counted
        self.begun = []
        self.free = asyncio.Event()

    async def look(self, address):
        async with self.counted.turn(address):
            self.begun.append(address)
            await self.free.wait()

    async def many(self, *addresses):
        """Those that have begun, once each had its chance: a task runs until it waits."""
        tasks = [asyncio.ensure_future(self.look(each)) for each in addresses]
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(done.set_result, None)
        await done
        begun = list(self.begun)
        self.free.set()
        await asyncio.gather(*tasks)
        return begun


def test_an_address_above_its_count_has_one_place_and_comes_back_with_time(monkeypatch):
    async def scenario():
        now = 1000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        counted = Strangers()
        for _ in range(int(AT_ONCE)):
            await come(counted, "a")
        looks = Looks(counted)
        assert await looks.many("a", "a", "a", "b", "b") == ["a", "b", "b"]
        assert len(looks.begun) == 5, "those that waited are looked at, too"
        now += 1.5 / A_SECOND
        assert await Looks(counted).many("a", "a") == ["a", "a"]

    asyncio.run(scenario())


def test_what_is_remembered_of_addresses_is_bounded(monkeypatch):
    monkeypatch.setattr(strangers, "ADDRESSES_MAX", 10)

    async def scenario():
        counted = Strangers()
        for number in range(100):
            await come(counted, f"192.0.2.{number}")
        assert len(counted._addresses) <= 10

    asyncio.run(scenario())


def test_made_up_tokens_are_told_so_and_a_good_one_of_the_same_address_is_answered(live, bench, settings):
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.0/8")]
    path = "/vision/digits/"
    told = {live.get(path, token=f"made-up-token-{number:08}").status for number in range(int(AT_ONCE) + 30)}
    assert told == {401}
    assert live.application.live.strangers._addresses["127.0.0.1"].left < AT_ONCE / 2
    assert live.get(path, token=bench.token).status == 200
    assert (
        live.get(path, token="made-up-token-at-last", headers={"X-Forwarded-For": "192.0.2.7"}).status == 401
    )


@pytest.mark.django_db
def test_a_made_up_ticket_asks_the_database_nothing(django_assert_num_queries, bench):
    good = mint_for(user=bench.user, purpose="events", now=clock.now())
    made_up = [
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        ("x" if good[0] != "x" else "y") + good[1:],
        "",
        "short",
        "é" * 80,
        good + "x",
    ]
    with django_assert_num_queries(0):
        for text in made_up:
            with pytest.raises(NotSignedIn):
                read(text, purpose="events", now=clock.now())
    assert read(good, purpose="events", now=clock.now()).principal.user_id == bench.user.pk
