"""Container logs: bounded files of time-stamped lines, read and followed as `pods/log` asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiohttp import web

from devcluster.errors import bad_request, invalid, wrong
from devcluster.kinds import Kind
from devcluster.objects import Obj, name_of, seconds

KEEP_BYTES = 10 << 20
_LONGEST_LINE = 16 << 10
_LAST_LINES = 80
_LAST_BYTES = 2048
LOG_OPTIONS = Kind("", "v1", "PodLogOptions", "podlogoptions")


def stamp() -> bytes:
    nanos = time.time_ns()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // 10**9))
    return f"{whole}.{nanos % 10**9:09d}Z".encode()


class LogFile:
    """Written by the kubelet, followed by any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._partial = b""
        self._grown = asyncio.Event()
        self.closed = False
        self.rotations = 0

    def write(self, data: bytes) -> None:
        """Raw output; every whole line gets the time at which it was seen."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_LINE:
            lines.append(self._partial)
            self._partial = b""
        if lines:
            now = stamp()
            self._file.write(b"".join(now + b" " + line + b"\n" for line in lines))
            self._announce()
        if self._file.tell() > KEEP_BYTES:
            self._rotate()

    def close(self) -> None:
        if self._partial:
            self.write(b"\n")
        self.closed = True
        self._file.close()
        self._announce()

    def last_words(self) -> str:
        """What a kubelet keeps of the end: at most so many lines and bytes, without their times."""
        lines = self.path.read_bytes().splitlines()[-_LAST_LINES:]
        text = b"\n".join(line.partition(b" ")[2] for line in lines)
        return text[-_LAST_BYTES:].decode(errors="replace").strip()

    async def wait(self) -> None:
        """Until the file has grown or is closed."""
        event = self._grown
        if not self.closed:
            await event.wait()

    def _announce(self) -> None:
        event, self._grown = self._grown, asyncio.Event()
        event.set()

    def _rotate(self) -> None:
        """Keep the newer half."""
        data = self.path.read_bytes()[-KEEP_BYTES // 2 :]
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(data.partition(b"\n")[2])
        fresh.replace(self.path)
        self._file.close()
        self._file = self.path.open("ab", buffering=0)
        self.rotations += 1


async def serve_log(
    request: web.Request, pod: Obj, files: Mapping[str, LogFile | Path]
) -> web.StreamResponse:
    """Answer `pods/log`; `files` holds the logs by container name."""
    query = request.query
    source = files.get(_container(query.get("container", ""), pod))
    if query.get("previous") == "true":
        raise bad_request(
            f'previous terminated container "{_container(query.get("container", ""), pod)}" in pod "{name_of(pod)}" not found'
        )
    reader = _Reader(query)
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    path = source.path if isinstance(source, LogFile) else source
    if path is not None and path.exists():
        with path.open("rb") as file:
            await response.write(reader.first(file.read()))
            while query.get("follow") == "true" and isinstance(source, LogFile) and not reader.full:
                turn = source.rotations
                more = file.read()
                if more:
                    await response.write(reader.render(more.splitlines(keepends=True)))
                elif source.closed or turn != source.rotations:
                    break
                else:
                    await source.wait()
    await response.write_eof()
    return response


def _container(wanted: str, pod: Obj) -> str:
    spec = pod["spec"]
    names = [c["name"] for c in [*(spec.get("initContainers") or ()), *spec["containers"]]]
    if wanted and wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {name_of(pod)}")
    if not wanted and len(spec["containers"]) > 1:
        listed = " ".join(c["name"] for c in spec["containers"])
        raise bad_request(
            f"a container name must be specified for pod {name_of(pod)}, choose one of: [{listed}]"
        )
    return wanted or str(spec["containers"][0]["name"])


class _Reader:
    """The options of one request."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._tail = int(query["tailLines"]) if query.get("tailLines") else None
        self._stamps = query.get("timestamps") == "true"
        self._left = int(query["limitBytes"]) if query.get("limitBytes") else None
        self._since = 0.0
        if query.get("sinceSeconds"):
            self._since = time.time() - int(query["sinceSeconds"])
        elif query.get("sinceTime"):
            self._since = seconds(query["sinceTime"])
        if (self._tail is not None and self._tail < 0) or (self._left is not None and self._left < 1):
            raise invalid(
                LOG_OPTIONS, "", [wrong("tailLines", self._tail, "must be greater than or equal to 0")]
            )

    @property
    def full(self) -> bool:
        return self._left == 0

    def first(self, data: bytes) -> bytes:
        lines = [line for line in data.splitlines(keepends=True) if not self._since or self._recent(line)]
        return self.render(
            lines[len(lines) - self._tail :] if self._tail is not None and self._tail < len(lines) else lines
        )

    def render(self, lines: list[bytes]) -> bytes:
        text = b"".join(self._shown(lines))
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text

    def _shown(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line if self._stamps else line.partition(b" ")[2]

    def _recent(self, line: bytes) -> bool:
        return seconds(line.partition(b" ")[0].decode()) >= self._since
