"""The ways from the pages to `live`, and trying an endpoint out."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.views import APIView
from typing_extensions import override

from foundation import clock
from foundation.errors import Malformed, NotSignedIn
from foundation.http.problems import problem_of, respond
from foundation.http.query import check_query_parameters, one
from gateway import tickets
from gateway.followed import VALUES_MAX, followed_of
from gateway.invocations import REQUEST_BYTES_MAX
from gateway.queries import endpoint_for, teams_followed
from teams.api.base import AnyAccept
from teams.api.scopes import ScopePermission
from teams.models import ApiToken, User
from teams.permissions import check_scope, visible_teams

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
    ticket = tickets.mint_events(request, now=clock.now())
    return JsonResponse({"url": tickets.events_url(), "ticket": ticket})


class _Unparsed(BaseParser):
    """The body is the endpoint's to understand."""

    media_type = "*/*"

    @override
    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> dict[str, Any]:
        return {}


_WORKLOADS = OpenApiParameter(
    "workload",
    {"type": "array", "items": {"type": "string", "format": "uuid"}, "maxItems": VALUES_MAX},
    explode=False,
    description="Only events of these runs and endpoints.",
)
_TEAMS = OpenApiParameter(
    "team",
    {"type": "array", "items": {"type": "string"}, "maxItems": VALUES_MAX},
    explode=False,
    description="Only events of these teams.",
)
_LAST_ID = OpenApiParameter(
    "last_event_id", str, description="As the header Last-Event-ID: begin with what came after this event."
)
_CHOICES = ("workload", "team", "last_event_id")


class StreamView(APIView):
    """Server-sent events of what the caller may see: leads to `live`, which serves them."""

    permission_classes = [ScopePermission]
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="stream_read",
        tags=["events"],
        parameters=[_WORKLOADS, _TEAMS, _LAST_ID],
        responses={
            307: OpenApiResponse(description="The event stream, with a ticket that is good for a minute.")
        },
    )
    def get(self, request: Any) -> HttpResponse:
        check_query_parameters(request, _CHOICES)
        followed = followed_of(teams=request.GET.getlist("team"), workloads=request.GET.getlist("workload"))
        asked_from = one(request, "last_event_id")
        last_id = request.headers.get("Last-Event-ID") or asked_from
        teams_followed(followed=followed, slugs=visible_teams(request.user).values_list("slug", flat=True))
        ticket = tickets.mint_events(request, now=clock.now())
        chosen = {
            "workload": ",".join(followed.workloads),
            "team": ",".join(followed.teams),
            "last_event_id": last_id,
        }
        query = urlencode({"ticket": ticket, **{name: value for name, value in chosen.items() if value}})
        url = f"{tickets.events_url()}?{query}"
        return HttpResponse(status=307, headers={"Location": url, "Cache-Control": "no-store"})


class InvokeView(APIView):
    """Leads to the live process (307, for a minute and for one request), which passes the request on to the endpoint.

    Follow it with the same method and body; the token is not needed there. Whoever may see the endpoint may call it: the
    scope `read` is enough for any method. A session's request needs its CSRF token. The call is held while the endpoint
    wakes, limited and counted as one at the endpoint's own address, but for the 1 MiB that a body may have here.
    """

    # OPTIONS too is the endpoint's to answer, so the scope is checked below for every method alike.
    permission_classes = []
    content_negotiation_class = AnyAccept
    parser_classes = [_Unparsed]
    http_method_names = list(METHODS)
    body_bytes_max = REQUEST_BYTES_MAX
    passes_its_body_on = True

    @override
    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        # Before the check of the CSRF token, which would parse a form and leave nothing to forward.
        _ = request._request.body  # noqa: SLF001
        super().initial(request, *args, **kwargs)

    def _invoke(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        check_scope(request, ApiToken.Scope.READ)
        if any(part in {".", ".."} for part in path.split("/")) or "\\" in path:
            # Who follows would leave the address that the ticket opens.
            raise Malformed("The path has a segment of dots or a backslash, which no endpoint is asked for.")
        endpoint = endpoint_for(user=request.user, public_id=public_id)
        url = tickets.invoke_url(request, endpoint, path=_as_written(request, path), now=clock.now())
        query = str(request._request.META.get("QUERY_STRING", ""))  # noqa: SLF001 - as it was sent
        location = f"{url}?{query}" if query else url
        return HttpResponse(status=307, headers={"Location": location, "Cache-Control": "no-store"})

    @extend_schema(
        operation_id="endpoints_invoke",
        tags=["endpoints"],
        request={"*/*": OpenApiTypes.BINARY},
        responses={
            307: OpenApiResponse(
                description="The same request there, with a ticket that is good for a minute."
            )
        },
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


def _as_written(request: Any, path: str) -> str:
    """The path with its escapes as they were sent: `a%2Fb` is one segment to an endpoint, and `a/b` two."""
    sent = str(request.META.get("RAW_URI", "")).partition("?")[0].partition("/invoke/")[2]
    return sent if unquote(sent) == path else quote(path, safe="/")


class InvokeRootView(InvokeView):
    """The same for the server's root; the contract describes it once."""

    @override
    @extend_schema(exclude=True)
    def post(self, request: Any, public_id: UUID, path: str) -> HttpResponse:
        return super().post(request, public_id, path)
