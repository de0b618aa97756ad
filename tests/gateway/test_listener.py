"""The one connection that listens: what it says of itself when it breaks."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection

from foundation import outages
from gateway.live import listener
from gateway.live.listener import Listener


class Enough(Exception):
    """It has tried again, and was told to stop."""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("channel", "elsewhere", "told"),
    [("news", {"host": "/nowhere"}, ["database.away"]), ("", {}, ["listen.broken"])],
    ids=["the database is away", "the database refuses"],
)
def test_it_tells_of_what_broke_it_and_leaves_an_outage_to_the_process(
    channel, elsewhere, told, caplog, monkeypatch
):
    monkeypatch.setattr(listener, "RETRY_SECONDS_MIN", 0.001)
    connection.ensure_connection()
    once = iter([{**listener.connection_parameters(), **elsewhere}])

    async def parameters():
        for found in once:
            return found
        raise Enough

    outages.database.answered()
    caplog.clear()
    try:
        with pytest.raises(Enough):
            asyncio.run(Listener({channel: print}, on_gap=lambda: None).run(parameters))
        assert [record.message for record in caplog.records] == told
    finally:
        outages.database.answered()
