"""Preflight as a page: what the cluster has and lacks, each with what to do, for those who run the platform."""

from __future__ import annotations

from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from cluster.client import get_client
from console.findings import last_look, look
from console.pages.detail import see_other
from foundation import clock
from foundation.http.query import check_query_parameters
from teams.permissions import has_global_role


class PreflightPage(LoginRequiredMixin, View):
    """GET shows what was found lately, and looks where that is not known; with `HX-Target: preflight-line` the worst of it, for
    other pages. POST looks anew.
    """

    def get(self, request: HttpRequest) -> HttpResponse:
        _check_role(request)
        check_query_parameters(request, ())
        client, now = get_client(), clock.now()
        findings = last_look(client.cluster)
        if findings is None or findings.is_old(now):
            findings = look(client, now=now)
        line = request.headers.get("HX-Target") == "preflight-line"
        template = "console/preflight_line.html" if line else "console/preflight.html"
        return render(request, template, {"findings": findings})

    def post(self, request: HttpRequest) -> HttpResponse:
        _check_role(request)
        look(get_client(), now=clock.now())
        return see_other(reverse("console:preflight"))


def _check_role(request: HttpRequest) -> None:
    if not has_global_role(request.user):
        raise PermissionDenied
