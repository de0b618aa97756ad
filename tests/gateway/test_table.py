"""Answers in memory: who asks the database, and when."""

from __future__ import annotations

import asyncio
from collections import Counter

import django.db
import pytest

from gateway.errors import DatabaseAway
from gateway.live.table import AT_ONCE, BATCH, Ages, Table

NEVER = 3600.0


class Source:
    """Stands where the database is: answers are what `answers` holds, None for the rest."""

    def __init__(self) -> None:
        self.answers: dict[str, int] = {}
        self.asked: Counter[str] = Counter()
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.was_asked = asyncio.Event()

    async def __call__(self, keys):
        self.asked.update(keys)
        self.was_asked.set()
        if self.is_away:
            raise django.db.OperationalError("gone")
        found = {key: self.answers.get(key) for key in keys}
        await self.gate.wait()
        return found

    def table(self, **ages) -> Table[str, int | None]:
        chosen = {"fresh": NEVER, "refusal": NEVER, "stale": NEVER, **ages}
        return Table(self, ages=Ages(**chosen), is_refusal=lambda value: value is None)


def test_callers_with_one_question_ask_once_and_what_is_known_costs_nothing():
    async def scenario():
        source = Source()
        source.answers["k"] = 7
        table = source.table()
        assert await asyncio.gather(*(table.get("k") for _ in range(50))) == [7] * 50
        assert await table.get("k") == 7
        assert source.asked == {"k": 1}

    asyncio.run(scenario())


def test_an_error_is_told_to_all_who_asked_and_not_remembered():
    async def scenario():
        source = Source()
        table = source.table()
        source.is_away = True
        told = await asyncio.gather(*(table.get("k") for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in told] == [DatabaseAway] * 5
        source.is_away, source.answers["k"] = False, 7
        assert await table.get("k") == 7
        assert source.asked == {"k": 2}

    asyncio.run(scenario())


def test_what_is_forgotten_is_asked_before_it_is_used():
    async def scenario():
        source = Source()
        source.answers = {"k": 7, "other": 1}
        table = source.table()
        await table.get("k"), await table.get("other")
        source.answers["k"] = 8
        table.forget(lambda key, value: value == 7)
        assert (await table.get("k"), await table.get("other")) == (8, 1)
        assert source.asked == {"k": 2, "other": 1}
        # The database goes before it was asked again: nothing is let in on what was forgotten.
        table.forget(lambda *_: True)
        source.is_away = True
        with pytest.raises(DatabaseAway):
            await table.get("k")

    asyncio.run(scenario())


def test_an_answer_from_before_a_change_is_not_remembered():
    async def scenario():
        source = Source()
        source.answers["k"] = 7
        table = source.table()
        source.gate.clear()
        asking = asyncio.create_task(table.get("k"))
        await source.was_asked.wait()
        source.answers["k"] = 8
        table.forget(lambda *_: True)
        # It began before the change and may see the old world, but nobody after it may.
        source.gate.set()
        assert await asking == 7
        assert await table.get("k") == 8

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["doubted", "used"])
def test_what_is_used_is_asked_again_behind_the_callers_backs(how):
    async def scenario():
        source = Source()
        source.answers["k"] = 7
        table = source.table(fresh=NEVER if how == "doubted" else 0.2)
        keeping = asyncio.create_task(table.keep_fresh())
        assert await table.get("k") == 7
        source.answers["k"] = 8
        news = asyncio.create_task(table.news(10))
        await asyncio.sleep(0)
        if how == "doubted":
            table.doubt(lambda key, _: key == "k")
        await news
        assert await table.get("k") == 8
        assert source.asked == {"k": 2}
        keeping.cancel()

    asyncio.run(scenario())


def test_while_the_database_is_away_what_is_known_is_good_for_its_time_and_a_refusal_is_none():
    async def scenario():
        source = Source()
        source.answers["k"] = 7
        table = source.table(fresh=0.0, refusal=0.0)
        assert (await table.get("k"), await table.get("refused")) == (7, None)
        source.is_away = True
        asked = source.asked["k"]
        assert [await table.get("k") for _ in range(20)] == [7] * 20
        assert source.asked["k"] == asked + 1, "once it is known to be away nobody waits for it"
        for key in ("refused", "unknown"):
            with pytest.raises(DatabaseAway):
                await table.get(key)

    asyncio.run(scenario())


def test_beyond_its_time_an_old_answer_opens_nothing():
    async def scenario():
        source = Source()
        source.answers["k"] = 7
        table = source.table(fresh=0.0, stale=0.0)
        assert await table.get("k") == 7
        source.is_away = True
        with pytest.raises(DatabaseAway):
            await table.get("k")

    asyncio.run(scenario())


def test_many_keys_at_once_are_few_questions_and_no_queue():
    async def scenario():
        source, batches = Source(), []
        source.gate.clear()
        table = source.table()
        under_way = most = 0

        async def ask(keys):
            nonlocal under_way, most
            batches.append(len(keys))
            under_way += 1
            most = max(most, under_way)
            try:
                return await source(keys)
            finally:
                under_way -= 1

        table._ask = ask
        first = [asyncio.ensure_future(table.get(f"a{number}")) for number in range(2)]
        await source.was_asked.wait()
        rest = [asyncio.ensure_future(table.get(f"b{number}")) for number in range(BATCH + 200)]
        source.answers["known"] = 7
        known = asyncio.ensure_future(table.get("known"))
        # They run before those whom the gate lets go.
        source.gate.set()
        assert await known == 7
        await asyncio.gather(*first, *rest)
        assert sum(batches) == 2 + BATCH + 200 + 1
        assert len(batches) <= 4
        assert max(batches) <= BATCH
        assert most <= AT_ONCE

    asyncio.run(scenario())


def test_who_gives_up_leaves_the_answer_to_those_who_asked_along():
    async def scenario():
        source = Source()
        source.answers["b"] = 7
        source.gate.clear()
        table = source.table()
        given_up = asyncio.ensure_future(table.get("a"))
        other = asyncio.ensure_future(table.get("b"))
        await source.was_asked.wait()
        given_up.cancel()
        source.gate.set()
        assert await other == 7

    asyncio.run(scenario())
