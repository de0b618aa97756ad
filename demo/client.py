"""What the steps of the demo share: a client of the REST API, patience, and words.

Every number that is printed comes from an answer; a step that does not happen raises DemoError.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portal.settings import env

TEAM, FLAVOR = "vision", "t4"
SHARED_FLAVOR = "t4-shared"
SOURCES = env.BASE_DIR / "demo" / "digits"
DEADLINE_SECONDS = 180.0
POLL_SECONDS = 0.3


class DemoError(Exception):
    """A step did not happen."""


class Portal:
    """A client of the REST API with one member's token."""

    def __init__(self, *, url: str, live_url: str, token: str) -> None:
        self.url = url
        self.live_url = live_url
        self.token = token
        # What was last printed of each path.
        self._shown: dict[str, str] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """JSON of `/api/v1/…`; DemoError with the problem's own words."""
        return json.loads(self.read(f"{self.url}/api/v1/{path}", method, body) or b"null")

    def read(self, url: str, method: str = "GET", body: Any = None, *, timeout: float = 60) -> bytes:
        """The body of an answer, following redirects as curl -L would."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the portal's own address)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")
            raise DemoError(f"{method} {url} answered {error.code}: {words}") from error
        except OSError as error:
            raise DemoError(f"{method} {url}: {error}") from error

    def wait(self, path: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until `done`; prints each new phase and reason. DemoError where it ends before."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            workload: dict[str, Any] = self.call("GET", path)
            state = f"{workload['phase']} ({workload['reason']})"
            if state != self._shown.get(path):
                say(f"    {state}: {workload['message']}")
                self._shown[path] = state
            if done(workload):
                return workload
            if workload["phase"] in {"Succeeded", "Failed", "Cancelled"} or time.monotonic() > deadline:
                raise DemoError(f"it is {state}: {workload['message']}")
            time.sleep(POLL_SECONDS)


def until(ask: Callable[[], list[Any]], what: str) -> list[Any]:
    """The first answer that is not empty; DemoError with `what` where there is none in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        rows = ask()
        if rows:
            return rows
        if time.monotonic() > deadline:
            raise DemoError(f"it never happened that {what}")
        time.sleep(POLL_SECONDS)


@contextmanager
def step(title: str) -> Iterator[None]:
    """A step with its time."""
    started = time.monotonic()
    say(title)
    yield
    say(f"    done in {time.monotonic() - started:.1f} s")


def say(line: str) -> None:
    """One line of the demo."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
