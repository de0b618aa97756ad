"""The tokens of all endpoints of a team, for its leads: also those that somebody made who left."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import NotFound
from gateway import queries
from gateway.services import revoke_endpoint_token
from teams.actors import actor_of
from teams.permissions import check_can_manage, team_for

SHOWN_MAX: Final = 200


class TeamTokensPage(LoginRequiredMixin, View):
    """GET shows them, those that may open something before those that are revoked."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_manage(request.user, team)
        live_first = (F("revoked_at").desc(nulls_first=True), "-expires_at", "-id")
        rows = queries.tokens_of_team(team).order_by(*live_first)[: SHOWN_MAX + 1]
        tokens = queries.judged(rows, now=clock.now())
        context = {"team": team, "tokens": tokens[:SHOWN_MAX], "are_more": len(tokens) > SHOWN_MAX}
        return render(request, "portal/team_tokens.html", context)


class TeamTokenRevokePage(LoginRequiredMixin, View):
    """POST ends one for good."""

    def post(self, request: HttpRequest, slug: str, token_id: UUID) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_manage(request.user, team)
        token = queries.tokens_of_team(team).filter(public_id=token_id).first()
        if token is None:
            raise NotFound("No endpoint of the team has such a token.")
        revoke_endpoint_token(actor=actor_of(request), token=token, now=clock.now())
        messages.success(request, f"Token {token.name} opens nothing any more.")
        return see_other(reverse("portal:team-endpoint-tokens", args=[team.slug]))
