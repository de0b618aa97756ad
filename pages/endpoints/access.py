"""Who may call an endpoint: its own tokens, on its page."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import F
from django.http import HttpRequest, HttpResponse

from console.pages.detail import see_other
from console.pages.reading import PageReading
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from gateway import queries
from gateway.credentials import LIVE_TOKENS_MAX, NAME_LENGTH_MAX, TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from gateway.services import create_endpoint_token, revoke_endpoint_token
from inference.pages.endpoints import EndpointDetailPage
from inference.pages.scaling_actions import EndpointPage
from teams.actors import actor_of
from teams.permissions import check_can_submit

SHOWN_MAX: Final = 2 * LIVE_TOKENS_MAX


class EndpointTokenForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=NAME_LENGTH_MAX,
        help_text="Who will call with it, such as the name of a service.",
    )
    expires_in_days = forms.IntegerField(
        label="Days", min_value=1, max_value=TOKEN_DAYS_MAX, initial=TOKEN_DAYS_DEFAULT
    )


def access_panel(asked: PageReading[Any]) -> dict[str, Any]:
    """The endpoint's tokens, all that live before those that have ended; their text is never among them."""
    live_first = (F("revoked_at").desc(nulls_first=True), "-expires_at", "-id")
    return {
        "endpoint_tokens": queries.judged(
            queries.tokens_of(asked.workload).order_by(*live_first)[:SHOWN_MAX], now=asked.now
        ),
        "token_form": EndpointTokenForm(),
    }


class EndpointTokensPage(EndpointDetailPage):
    """POST makes a token, whose text this one answer shows."""

    tab = "access"

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        check_can_submit(request.user, workload.team)
        form = EndpointTokenForm(request.POST)
        if form.is_valid():
            try:
                token, text = create_endpoint_token(
                    actor=actor_of(request), endpoint=workload, now=clock.now(), **form.cleaned_data
                )
            except (Invalid, Conflict) as error:
                form.add_error(None, error.message)
            else:
                answer = self.page(request, workload, new_token=token, new_secret=text)
                answer["Cache-Control"] = "no-store"
                return answer
        return self.page(request, workload, status=422, token_form=form)


class EndpointTokenRevokePage(EndpointPage):
    """POST ends a token at once."""

    def post(self, request: HttpRequest, public_id: UUID, token_id: UUID) -> HttpResponse:
        workload = self.find(request, public_id)
        token = queries.tokens_of(workload).filter(public_id=token_id).first()
        if token is None:
            raise NotFound("The endpoint has no such token.")
        revoke_endpoint_token(actor=actor_of(request), token=token, now=clock.now())
        messages.success(request, f"Token {token.name} opens nothing any more.")
        return see_other(f"{self.url('endpoint-detail', workload)}?tab=access")
