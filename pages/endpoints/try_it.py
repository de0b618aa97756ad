"""Trying an endpoint out from its page, by the code that serves `invoke/` of REST."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from console.pages.reading import PageReading
from controller.routes import gateway_url
from foundation.digits import whole_number
from foundation.errors import Invalid, NotFound, PortalError
from gateway.invocations import BUSY, RETRY_SECONDS, WAKING, Call, try_endpoint
from inference.now import EndpointNow, wanted_of
from inference.pages.endpoints import TRY_METHODS, EndpointDetailPage
from pages.endpoints import try_forms
from pages.endpoints.protocols import model_of, protocol_of
from pages.endpoints.snippets import content_type, curl_of, python_of
from pages.endpoints.try_forms import RAW, Request, Tensor
from teams.models import User
from workloads.models import Workload

SHOWN_CHARS_MAX: Final = 100_000
PATH_LENGTH_MAX: Final = 2_000
TRIES_MAX: Final = 120
EXAMPLE: Final = Request(method="GET", path="/", body="")
"""The first request to a server whose protocol is not known: it asks whether it answers at all, and changes nothing."""
METHOD_REFUSED: Final = frozenset({405, 501})


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedAnswer:
    """What came back, as text to be escaped; or why nothing did, in `problem`.

    `waited` milliseconds passed until the status line was there, `received` until the last byte; `inside` is what the
    server itself says of its work (the Server-Timing header).
    """

    status: int
    waited: int = 0
    received: int = 0
    inside: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    cut: bool = False
    problem: str = ""
    waking: bool = False
    """Whether it is only being woken, so that the same may be asked again."""
    busy: bool = False
    """Whether as many requests as may are waiting for endpoints, so that the same may be asked again."""

    @property
    def good(self) -> bool:
        return not self.problem and self.status < 400

    @property
    def refuses_method(self) -> bool:
        """Whether the server answers, though not this method."""
        return self.status in METHOD_REFUSED

    @property
    def milliseconds(self) -> int:
        return self.waited + self.received


class TryItPage(EndpointDetailPage):
    """POST sends what was typed and shows the answer under the form; the form keeps what was typed.

    `action=describe` asks the server for its inputs instead, `action=models` for its models, `action=raw` shows the request
    as it would be sent.
    """

    tab = "overview"
    fragments = EndpointDetailPage.fragments | {"answer"}

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        user = cast("User", request.user)
        typed = {key: str(value).replace("\r\n", "\n") for key, value in request.POST.items()}
        typed.setdefault("mode", RAW)
        wanted = wanted_of(workload).spec
        sent, status = _example(workload, wanted), 200
        outcome: dict[str, Any] = {}
        try:
            if typed.get("action") == "describe":
                outcome["described"] = _describe(user, public_id, typed)
            elif typed.get("action") == "models":
                outcome |= _models(user, public_id, typed)
            else:
                sent = _request(typed)
                if typed.get("action") == "raw":
                    typed = {"mode": RAW, "method": sent.method, "path": sent.path, "body": sent.body}
                else:
                    outcome["answer"] = _ask(user, public_id, sent)
                    tries = _tries(typed)
                    answer = outcome["answer"]
                    if (
                        (answer.waking or answer.busy)
                        and tries < TRIES_MAX
                        and "HX-Request" in request.headers
                    ):
                        outcome["again"] = {
                            "seconds": RETRY_SECONDS,
                            "tries": tries + 1,
                            "sent": _resent(typed),
                        }
        except Invalid as error:
            status, outcome["answer"] = 422, TriedAnswer(status=422, problem=_said(error))
        facts = try_facts(workload, wanted, typed, sent)
        return self.page(request, workload, status=status, **outcome, **facts)


def try_panel(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    """The console before anything was sent."""
    workload, spec = asked.workload, asked.own.wanted.spec
    example = _example(workload, spec)
    raw = {"method": example.method, "path": example.path, "body": example.body}
    given = asked.request.GET.dict()
    begun = try_forms.example_values(given.get("mode") or protocol_of(spec))
    typed = {"model": _model(workload, spec), **begun, **raw, **given}
    return try_facts(workload, spec, typed, example)


def _example(workload: Workload, spec: Mapping[str, Any]) -> Request:
    """What the forms and the snippets begin with."""
    return try_forms.example_of(protocol_of(spec), _model(workload, spec)) or EXAMPLE


def _model(workload: Workload, spec: Mapping[str, Any]) -> str:
    """What its server calls the model, as far as the request says."""
    return model_of(spec, otherwise=workload.name)


def try_facts(
    workload: Workload, spec: Mapping[str, Any], typed: Mapping[str, str], sent: Request
) -> dict[str, Any]:
    """What the console shows: its forms, what stands in them, and the same request for other programs."""
    modes = try_forms.modes_of(protocol_of(spec))
    chosen = typed.get("mode", "")
    url = gateway_url(workload)
    return {
        "typed": typed,
        "mode": chosen if chosen in modes else modes[0],
        "modes": [(mode, try_forms.LABELS[mode]) for mode in modes],
        "tensors": [*try_forms.tensors_in(typed), Tensor(name="")][: try_forms.INPUTS_MAX],
        "datatypes": try_forms.DATATYPES,
        "sent": sent,
        "curl": curl_of(url=url, method=sent.method, path=sent.path, body=sent.body),
        "python": python_of(url=url, method=sent.method, path=sent.path, body=sent.body),
    }


def _tries(typed: Mapping[str, str]) -> int:
    """How often it was sent again by itself."""
    return whole_number(typed.get("tries", ""), digits=5) or 0


def _resent(typed: Mapping[str, str]) -> list[tuple[str, str]]:
    """The same once more, whatever is typed into the form meanwhile."""
    return [(name, value) for name, value in typed.items() if name not in {"csrfmiddlewaretoken", "tries"}]


def _said(error: Invalid) -> str:
    return error.errors[0].message if error.errors else error.message


def _request(typed: Mapping[str, str]) -> Request:
    """What is to be sent. Raises Invalid, naming the field."""
    mode = typed.get("mode", RAW)
    if mode != RAW:
        return try_forms.build(mode, typed)
    method, path = typed.get("method", "POST").upper(), typed.get("path", "/").strip() or "/"
    if method not in TRY_METHODS:
        raise Invalid.of_field("method", f"The method is one of {', '.join(TRY_METHODS)}.")
    if not path.startswith("/") or len(path) > PATH_LENGTH_MAX or "\x00" in path:
        message = "The path begins with a slash and has at most 2,000 characters."
        raise Invalid.of_field("path", message)
    body = typed.get("body", "") if method not in {"GET", "DELETE"} else ""
    return Request(method=method, path=path, body=body)


def _describe(user: User, public_id: UUID, typed: dict[str, str]) -> str:
    """Puts the inputs that the server itself names into the form; why there are none, or nothing.

    Raises Invalid for the name of a model that cannot be one.
    """
    path = try_forms.metadata_path(typed.get("model", ""))
    answer = _ask(user, public_id, Request(method="GET", path=path, body=""))
    tensors = try_forms.tensors_of(_json(answer.body)) if answer.good else []
    for index, tensor in enumerate(tensors):
        typed[f"input-{index}-name"] = tensor.name
        typed[f"input-{index}-datatype"] = tensor.datatype
        typed[f"input-{index}-shape"] = tensor.shape
    if tensors:
        return ""
    return f"{path} names no inputs: {answer.problem or f'the server answered {answer.status}'}"


def _models(user: User, public_id: UUID, typed: dict[str, str]) -> dict[str, Any]:
    """Puts the first model that the server itself names into the form, and tells all of them, or why there is none.

    Raises Invalid for a protocol without such a list.
    """
    path = try_forms.models_path(typed["mode"])
    answer = _ask(user, public_id, Request(method="GET", path=path, body=""))
    names = try_forms.models_in(_json(answer.body)) if answer.good else []
    if not names:
        return {
            "described": f"{path} names no models: {answer.problem or f'the server answered {answer.status}'}"
        }
    if typed.get("model") not in names:
        typed["model"] = names[0]
    return {"model_names": names}


def _ask(user: User, public_id: UUID, sent: Request) -> TriedAnswer:
    path, _, query = sent.path.partition("?")
    body = sent.body.encode()
    call = Call(
        method=sent.method,
        path=unquote(path),
        query=query.encode("ascii", "ignore").decode(),
        headers=(("Accept", "*/*"), *([("Content-Type", content_type(sent.body))] if body else [])),
        body=body,
    )
    try:
        response = try_endpoint(user=user, public_id=public_id, call=call)
    except NotFound:
        raise
    except PortalError as error:
        return TriedAnswer(
            status=error.status, problem=error.message, waking=error.code == WAKING, busy=error.code == BUSY
        )
    text = _shown(response.body)
    whole, first = response.duration_seconds, response.first_byte_seconds
    return TriedAnswer(
        status=response.status,
        waited=round(first * 1000),
        received=round(whole * 1000) - round(first * 1000),
        inside=next((value for name, value in response.headers if name.lower() == "server-timing"), ""),
        headers=tuple((str(name), str(value)) for name, value in response.headers),
        body=text[:SHOWN_CHARS_MAX],
        cut=len(text) > SHOWN_CHARS_MAX,
    )


def _shown(body: bytes) -> str:
    """JSON indented, other text as it is, anything else as its length."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"({len(body)} bytes that are not text)"
    value = _json(text)
    return text if value is None else _indented(value) or text


def _indented(value: Any) -> str:
    """As much of it as is shown: what is nested deeply grows a thousandfold by its indents. Empty where it is too deep."""
    parts, length = [], 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
            parts.append(part)
            length += len(part)
            if length > SHOWN_CHARS_MAX:
                break
    except RecursionError:
        return ""
    return "".join(parts)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
