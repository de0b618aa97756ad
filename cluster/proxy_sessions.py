"""The proxy's connections: sessions that end when no request uses them any more."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import aiohttp

from cluster.connection import Connection

# A connection stays with the pod it was made to, also when that pod is asked to stop and nothing new is sent there. It
# then serves for a few more seconds (inference.manifests.DRAIN_SECONDS); nothing is sent on a connection that is older.
DIRECT_SECONDS: Final = 2.0
# Shorter than servers wait, so that a server does not close a connection just when it is used.
_IDLE_SECONDS: Final = 2.0
# For how long an answer about the credentials holds, and how long it may take. A service decides how often it is asked for.
_VERDICT_SECONDS: Final = 1.0
_VERDICT_TIMEOUT: Final = 5.0


class Session:
    """One pool of connections; closed when it is retired and its last request has ended."""

    def __init__(self, connection: Connection | None) -> None:
        self._connection = connection
        context = connection.ssl_context() if connection else None
        self.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=context if context is not None else True, keepalive_timeout=_IDLE_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        # It would repeat PUT and DELETE by itself when the first answer breaks off; the caller decides that.
        self.client._retry_connection = False  # noqa: SLF001
        self._made_at = time.monotonic()
        self._users = 0
        self._retired = False
        self._asking = asyncio.Lock()
        self._asked: tuple[str | None, float] | None = None
        self._refused = False

    @property
    def is_old(self) -> bool:
        return _age(self._made_at) >= DIRECT_SECONDS

    def use(self) -> None:
        """A request begins; `leave` returns the session."""
        self._users += 1

    async def leave(self) -> None:
        self._users -= 1
        await self._close_if_done()

    async def retire(self) -> None:
        """No new request uses it."""
        self._retired = True
        await self._close_if_done()

    async def is_refused(self, token: str | None) -> bool:
        """Whether the API server no longer accepts these credentials; asked at most once a second for the same token.

        For a 401 through its proxy, which may be the answer of a service: a request of `/version` asks the server itself.
        """
        assert self._connection is not None  # noqa: S101 - for the type checker
        async with self._asking:
            if self._asked is None or self._asked[0] != token or _age(self._asked[1]) >= _VERDICT_SECONDS:
                self._refused = await self._ask(self._connection, token)
                self._asked = (token, time.monotonic())
            return self._refused

    async def _ask(self, connection: Connection, token: str | None) -> bool:
        loaded = connection.configuration
        async with self.client.get(
            f"{connection.host}/version",
            headers={"Authorization": token} if token else {},
            proxy=loaded.proxy,
            server_hostname=loaded.tls_server_name,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=_VERDICT_TIMEOUT),
        ) as response:
            return response.status == 401

    async def close(self) -> None:
        await self.client.close()

    async def _close_if_done(self) -> None:
        if self._retired and self._users == 0:
            await self.client.close()


def _age(moment: float) -> float:
    return time.monotonic() - moment
