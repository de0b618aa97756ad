"""The ways from the pages to `live`, and trying an endpoint out."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.views import APIView
from typing_extensions import override

from foundation import clock
from foundation.errors import NotSignedIn
from foundation.http.problems import problem_of, respond
from foundation.http.query import check_query_parameters
from gateway import tickets
from gateway.errors import LengthRequired
from gateway.invocations import REQUEST_BYTES_MAX, Call, harmless_headers, try_endpoint
from teams.api.base import AnyAccept
from teams.api.scopes import ScopePermission
from teams.models import ApiToken, User
from teams.permissions import check_scope

METHODS = ("get", "post", "put", "patch", "delete", "head", "options")


@require_safe
@never_cache
def live_ticket(request: HttpRequest) -> HttpResponse:
    """For the session's user: where the events are, and a ticket that opens them within a minute."""
    user = request.user
    if not isinstance(user, User):
        # For a script, which a page to sign in would not help.
        problem = problem_of(NotSignedIn("Sign in first."))
        assert problem is not None  # noqa: S101 - for the type checker
        return respond(problem, request)
    ticket = tickets.make_events_ticket(user=user, token=None, now=clock.now())
    return JsonResponse({"url": tickets.events_url(), "ticket": ticket})


class _Unparsed(BaseParser):
    """The body is the endpoint's to understand."""

    media_type = "*/*"

    @override
    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> dict[str, Any]:
        return {}


class StreamView(APIView):
    """Server-sent events of what the caller may see: leads to `live`, which serves them."""

    permission_classes = [ScopePermission]
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="stream_read",
        tags=["events"],
        responses={
            307: OpenApiResponse(description="The event stream, with a ticket that is good for a minute.")
        },
    )
    def get(self, request: Any) -> HttpResponse:
        check_query_parameters(request, ())
        token = request.auth if isinstance(request.auth, ApiToken) else None
        ticket = tickets.make_events_ticket(user=request.user, token=token, now=clock.now())
        url = f"{tickets.events_url()}?ticket={quote(ticket, safe='')}"
        return HttpResponse(status=307, headers={"Location": url, "Cache-Control": "no-store"})


class InvokeView(APIView):
    """Sends one request to the endpoint as it is, and shows its answer where it can do no harm.

    Whoever may see the endpoint may try it: the scope `read` is enough for any method. A session's request needs its
    CSRF token. Limits: 1 MiB there, 4 MiB back, 30 seconds; the gateway has none of these.
    """

    # OPTIONS too is the endpoint's to answer, so the scope is checked below for every method alike.
    permission_classes = []
    content_negotiation_class = AnyAccept
    parser_classes = [_Unparsed]
    http_method_names = list(METHODS)
    body_bytes_max = REQUEST_BYTES_MAX

    @override
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        # Before the check of the CSRF token, which would parse a form and leave nothing to forward.
        _ = request._request.body  # noqa: SLF001
        super().initial(request, *args, **kwargs)

    def _invoke(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        check_scope(request, ApiToken.Scope.READ)
        plain: HttpRequest = request._request  # noqa: SLF001 - the raw body; DRF would parse it
        if "HTTP_TRANSFER_ENCODING" in plain.META:
            raise LengthRequired("Send the body with a Content-Length; the gateway takes chunked bodies.")
        call = Call(
            method=str(request.method),
            path=f"/{path}",
            query=str(plain.META.get("QUERY_STRING", "")),
            headers=tuple(plain.headers.items()),
            body=plain.body,
        )
        answer = try_endpoint(user=request.user, public_id=public_id, call=call)
        response = HttpResponse(answer.body, status=answer.status, headers=harmless_headers(answer.headers))
        response["X-Portal-Upstream-Status"] = str(answer.status)
        response["X-Portal-Duration-Ms"] = str(round(answer.duration_seconds * 1000))
        return response

    @extend_schema(
        operation_id="endpoints_invoke",
        tags=["endpoints"],
        request={"*/*": OpenApiTypes.BINARY},
        responses={(200, "*/*"): OpenApiTypes.BINARY},
    )
    def post(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        return self._invoke(request, public_id, path)

    @extend_schema(exclude=True)
    def get(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        return self._invoke(request, public_id, path)

    put = patch = delete = head = get

    @override
    @extend_schema(exclude=True)
    def options(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return self._invoke(request, kwargs["public_id"], kwargs["path"])


class InvokeRootView(InvokeView):
    """The same for the server's root; the contract describes it once."""

    @override
    @extend_schema(exclude=True)
    def post(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        return super().post(request, public_id, path)
