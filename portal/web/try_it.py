"""Trying an endpoint out from its page, by the code that serves `invoke/` of REST."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from typing_extensions import override

from foundation.errors import NotFound, PortalError
from gateway.invocations import Call, try_endpoint
from inference.views import TRY_METHODS, EndpointDetailPage
from teams.models import User

SHOWN_CHARS_MAX: Final = 100_000
PATH_LENGTH_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, as text to be escaped; or why nothing did, in `problem`."""

    status: int
    milliseconds: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    cut: bool = False
    problem: str = ""

    @property
    def good(self) -> bool:
        return not self.problem and self.status < 400


class TryItPage(EndpointDetailPage):
    """POST sends what was typed and shows the answer under the form; the form keeps what was typed."""

    fragments = EndpointDetailPage.fragments | {"answer"}

    @override
    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return self.page(request, self.find(request, public_id), tab="try")

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        typed = {
            "method": request.POST.get("method", "POST").upper(),
            "path": request.POST.get("path", "/").strip() or "/",
            "body": request.POST.get("body", "").replace("\r\n", "\n"),
        }
        problem = _problem(typed)
        if problem:
            answer, status = Answer(status=422, problem=problem), 422
        else:
            answer, status = _ask(cast("User", request.user), public_id, typed), 200
        return self.page(request, workload, status=status, tab="try", typed=typed, answer=answer)


def _problem(typed: dict[str, str]) -> str:
    if typed["method"] not in TRY_METHODS:
        return f"The method is one of {', '.join(TRY_METHODS)}."
    if not typed["path"].startswith("/") or len(typed["path"]) > PATH_LENGTH_MAX or "\x00" in typed["path"]:
        return "The path begins with a slash and has at most 2,000 characters."
    return ""


def _ask(user: User, public_id: UUID, typed: dict[str, str]) -> Answer:
    path, _, query = typed["path"].partition("?")
    body = typed["body"].encode() if typed["method"] not in {"GET", "DELETE"} else b""
    call = Call(
        method=typed["method"],
        path=unquote(path),
        query=query.encode("ascii", "ignore").decode(),
        headers=(("Content-Type", _content_type(typed["body"])), ("Accept", "*/*"))
        if body
        else (("Accept", "*/*"),),
        body=body,
    )
    try:
        found = try_endpoint(user=user, public_id=public_id, call=call)
    except NotFound:
        raise
    except PortalError as error:
        return Answer(status=error.status, problem=error.message)
    text = _shown(found.body)
    return Answer(
        status=found.status,
        milliseconds=round(found.duration_seconds * 1000),
        headers=tuple((str(name), str(value)) for name, value in found.headers),
        body=text[:SHOWN_CHARS_MAX],
        cut=len(text) > SHOWN_CHARS_MAX,
    )


def _content_type(body: str) -> str:
    return "application/json" if _json(body) is not None else "text/plain; charset=utf-8"


def _shown(body: bytes) -> str:
    """JSON indented, other text as it is, anything else as its length."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"({len(body)} bytes that are not text)"
    value = _json(text)
    return text if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
