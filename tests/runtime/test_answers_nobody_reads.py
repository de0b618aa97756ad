"""What nobody reads takes a bounded part of the disk, and of that one client only its share."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack

import pytest

from foundation.http.clients import HttpClient
from portal.runtime import answers
from portal.runtime.answers import FILE_BYTES, MEMORY_BYTES, Answer, ReaderGoneError, Spool
from portal.settings.http_limits import HttpLimits
from tests.runtime.raw_http import Raw, served
from tests.waiting import until

CALM = HttpLimits(header_seconds=60, body_seconds=60, reader_seconds=60, idle_seconds=60)
ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PIECE = b"x" * 64 * 1024
PIECES = 128
ANNE = HttpClient("user:1", is_known=True)


def large(_environ, start_response):
    """Of 8 MiB, more than the system and the connection keep for a reader."""
    start_response("200 OK", [("Content-Length", str(PIECES * len(PIECE)))])
    for _ in range(PIECES):
        yield PIECE


def test_answers_that_nobody_reads_take_a_share_of_the_disk_and_others_are_answered():
    with ExitStack() as stack:
        port, server = stack.enter_context(served(large, CALM, threads=8))
        front = server.config.app
        front.spool = spool = Spool(16 * 2**20, of_client=4 * 2**20)
        for _ in range(12):
            raw = Raw(port, ASKED, window=4096)
            stack.callback(raw.close)
        until(lambda: spool.held > 3 * 2**20, said="they have what they may")
        other = Raw(port, ASKED, source="127.0.0.2")
        stack.callback(other.close)
        assert len(other.answer().body) == PIECES * len(PIECE)
        assert spool.held <= 4 * 2**20 + len(PIECE)
    assert spool.held == 0


def test_what_is_read_is_given_back_while_the_answer_goes_on():
    """An answer of any length passes through a share that is far smaller, in order."""
    numbers = random.Random(5)
    written = [numbers.randbytes(numbers.choice([1, 1000, 70_000, 3_000_000])) for _ in range(60)]

    async def read():
        spool = Spool(4 * FILE_BYTES, of_client=3 * FILE_BYTES)
        answer = Answer(asyncio.get_running_loop(), spool, ANNE)

        def write():
            for piece in written:
                answer.write(piece)
            answer.end()

        writing = asyncio.get_running_loop().run_in_executor(None, write)
        got, most, more = [], 0, True
        while more:
            piece, more = await answer.next()
            most = max(most, spool.held)
            got.append(piece)
        await writing
        assert b"".join(got) == b"".join(written)
        assert 0 < most <= 3 * FILE_BYTES
        answer.close()
        assert spool.held == 0

    asyncio.run(read())


def test_a_thread_that_waits_for_room_is_read_to_the_last_byte():
    """Pieces of no round size: what is left of them is less than is sent at a time otherwise."""
    written = [b"%07d" % number * 1000 for number in range(1500)]

    async def read():
        spool = Spool(FILE_BYTES, of_client=FILE_BYTES)
        answer = Answer(asyncio.get_running_loop(), spool, ANNE)

        def write():
            for piece in written:
                answer.write(piece)
            answer.end()

        writing = asyncio.get_running_loop().run_in_executor(None, write)
        await asyncio.to_thread(until, lambda: answer._waits, said="it waits for room")
        got, more = [], True
        while more:
            piece, more = await answer.next()
            got.append(piece)
        await writing
        assert b"".join(got) == b"".join(written)
        answer.close()

    asyncio.run(read())


def test_who_does_not_read_in_time_is_gone_and_all_of_it_is_given_back(monkeypatch):
    monkeypatch.setattr(answers, "CATCH_UP_SECONDS", 0.0)

    async def unread():
        spool = Spool(FILE_BYTES, of_client=MEMORY_BYTES)
        answer = Answer(asyncio.get_running_loop(), spool, ANNE)
        for _ in range(2 * MEMORY_BYTES // len(PIECE)):
            answer.write(PIECE)
        with pytest.raises(ReaderGoneError):
            answer.write(PIECE)
        assert spool.held == MEMORY_BYTES
        answer.close()
        assert spool.held == 0

    asyncio.run(unread())


def test_a_reader_that_hangs_up_frees_the_thread_that_waits_for_it():
    async def hung_up():
        spool = Spool(FILE_BYTES, of_client=MEMORY_BYTES)
        answer = Answer(asyncio.get_running_loop(), spool, ANNE)

        def write():
            for _ in range(100):
                answer.write(PIECE)

        writing = asyncio.get_running_loop().run_in_executor(None, write)
        await asyncio.to_thread(until, lambda: spool.held == MEMORY_BYTES, said="it waits for room")
        answer.give_up()
        with pytest.raises(ReaderGoneError):
            await writing
        answer.close()
        assert spool.held == 0

    asyncio.run(hung_up())
