"""What is known of a request by its head alone, before a thread, a statement or its body: who asks, and whether it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http.response import HttpResponseBase

from foundation.http.clients import HttpClient, client_of
from foundation.http.middleware import MetricsMiddleware, RequestContextMiddleware, refusal_of


@dataclass(frozen=True, slots=True)
class RequestArrival:
    client: HttpClient
    refusal: HttpResponseBase | None
    """The answer to one that this process refuses by now, with its id and counted in the metrics; else None."""


def arrival(environ: Mapping[str, Any]) -> RequestArrival:
    """Of a WSGI environment, which stays as it is. No store is asked."""
    # Django decodes the path in place.
    request = WSGIRequest(dict(environ))
    refusal = refusal_of(request)
    if refusal is not None:
        answered = RequestContextMiddleware(MetricsMiddleware(lambda _: refusal))
        return RequestArrival(client_of(request), answered(request))
    return RequestArrival(client_of(request), None)
