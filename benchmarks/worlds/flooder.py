"""`python -m benchmarks.worlds.flooder PORT TOKEN CONNECTIONS PATH`: asks as fast as it is answered until SIGTERM.

Says `flowing` once 3,000 requests were answered or any was refused, and at the end how many a second were answered.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from typing_extensions import override

FLOWING = 3_000


class Flood:
    def __init__(self) -> None:
        self.answered = 0
        self.flowing_at: float | None = None

    def count(self, answer: bytes) -> None:
        self.answered += 1
        if self.flowing_at is None and (self.answered > FLOWING or answer.startswith(b"HTTP/1.1 429")):
            sys.stdout.write("flowing\n")
            sys.stdout.flush()
            self.flowing_at, self.answered = time.monotonic(), 0


class Asking(asyncio.Protocol):
    """Sends the next request when the answer to the last is whole."""

    def __init__(self, request: bytes, flood: Flood) -> None:
        self._request, self._flood, self._got = request, flood, b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            ),
            0,
        )
        if len(body) >= length:
            self._flood.count(head)
            self._got = b""
            self._transport.write(self._request)


async def main(port: int, token: str, connections: int, path: str) -> None:
    loop, ended, flood = asyncio.get_running_loop(), asyncio.Event(), Flood()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    for _ in range(connections):
        await loop.create_connection(lambda: Asking(request, flood), "127.0.0.1", port)
    await ended.wait()
    seconds = time.monotonic() - (flood.flowing_at or time.monotonic())
    sys.stdout.write(f"{flood.answered / max(seconds, 0.001):.1f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
