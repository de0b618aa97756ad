"""How often pages may be asked for: by user, and by address of who is not signed in. REST has rates of its own."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foundation.errors import RateLimited
from foundation.http import clients, rates
from foundation.http.context import is_api
from foundation.http.middleware import GetResponse
from foundation.http.rates import Kind, RateBucket
from pages.error_pages import error_page


class PageRateMiddleware:
    """Counts pages, their parts and forms. What it refuses, the process refuses again without a look at the session."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_api(request):
            return self.get_response(request)
        cost = rates.cost_of(request, each=rates.FORM_BYTES)
        wait = rates.count([RateBucket(Kind.PAGES, _subject(request), cost=cost)])
        if not wait:
            return self.get_response(request)
        rates.remember(request, wait)
        seconds = math.ceil(wait)
        return error_page(request, RateLimited(f"Try again in {seconds} s.", retry_after_seconds=seconds))


def _subject(request: Any) -> str:
    if request.user.is_authenticated:
        subject = f"user:{request.user.pk}"
        clients.know(request, subject)
        return subject
    clients.unknow(request)
    return clients.address_of(request)
