"""Answers the probes before any other middleware: no host name, redirect or session may be in their way."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foundation.http import health
from portal import readiness

readiness.register()
_PROBES = {"/healthz": health.healthz, "/readyz": health.readyz}


class ProbesMiddleware:
    """A kubelet asks by the pod's address, which is not among the allowed hosts, and over plain HTTP."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        probe = _PROBES.get(request.path_info.removesuffix("/"))
        return probe(request) if probe else self.get_response(request)
