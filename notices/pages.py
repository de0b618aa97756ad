"""Pages of notices: what I am told of, what a team is told of, and what was sent."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from notices import queries, services
from notices.events import TOPIC_LABELS
from notices.forms import SubscriptionForm
from notices.models import Channel, Delivery, DeliveryState, NoticeSubscription
from notices.texts import title_of
from teams.actors import actor_of
from teams.forms import add_errors
from teams.models import Team, User
from teams.permissions import check_can_manage, team_for

SHOWN_MAX: Final = 100


def _led_team(request: HttpRequest, slug: str | None) -> Team | None:
    """The team whose subscriptions are shown, of which the user is a lead; None: their own."""
    if slug is None:
        return None
    team = team_for(request.user, slug)
    check_can_manage(request.user, team)
    return team


def _list_url(team: Team | None) -> str:
    return reverse("notices:team-list", args=[team.slug]) if team else reverse("notices:list")


def _new_url(team: Team | None) -> str:
    return reverse("notices:team-new", args=[team.slug]) if team else reverse("notices:new")


def _page_url(row: NoticeSubscription) -> str:
    return reverse("notices:subscription", args=[row.public_id])


class NoticeListPage(LoginRequiredMixin, View):
    """The subscriptions of who is signed in, or of a team for its leads; and what was given up."""

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        if not isinstance(request.user, User):
            raise NotFound("There is nothing here.")
        team = _led_team(request, slug)
        rows = queries.team_subscriptions(team) if team else queries.own_subscriptions(request.user)
        subscriptions = list(rows)
        dead = queries.deliveries_for(request.user).filter(
            state=DeliveryState.DEAD, subscription__in=[each.pk for each in subscriptions]
        )
        context = {
            "team": team,
            "subscriptions": subscriptions,
            "dead": _shown(list(dead[:SHOWN_MAX])),
            "new_url": _new_url(team),
        }
        return render(request, "notices/list.html", context)


class SubscriptionNewPage(LoginRequiredMixin, View):
    """GET is the form, POST makes one; the secret of a webhook is in that one answer."""

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        """`?topic=` is what is ticked at first."""
        team = _led_team(request, slug)
        topic = request.GET.get("topic", "")
        mail = bool(settings.EMAIL_HOST)
        initial = (
            {"topics": [topic], "channel": Channel.MAIL if mail else None} if topic in TOPIC_LABELS else None
        )
        return self._page(request, team, SubscriptionForm(mail=mail, initial=initial))

    def post(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        team = _led_team(request, slug)
        form = SubscriptionForm(request.POST, mail=bool(settings.EMAIL_HOST))
        if not form.is_valid():
            return self._page(request, team, form, status=422)
        values = dict(form.cleaned_data)
        channel = values.pop("channel")
        try:
            made, secret = services.create_subscription(
                actor=actor_of(request), team=team, channel=channel, values=values, now=clock.now()
            )
        except (Invalid, Conflict) as error:
            add_errors(form, error)
            return self._page(request, team, form, status=422)
        if not secret:
            messages.success(request, f"{made.name} is switched on.")
            return see_other(_page_url(made))
        return _subscription_page(request, made, secret=secret)

    def _page(
        self, request: HttpRequest, team: Team | None, form: SubscriptionForm, *, status: int = 200
    ) -> HttpResponse:
        context = {"team": team, "form": form, "post_url": _new_url(team), "list_url": _list_url(team)}
        return render(request, "notices/form.html", context, status=status)


class SubscriptionPage(LoginRequiredMixin, View):
    """GET shows one with what it has sent and the form to change it, POST changes it."""

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return _subscription_page(request, queries.subscription_for(request.user, public_id))

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        row = queries.subscription_for(request.user, public_id)
        form = SubscriptionForm(request.POST, of=row, mail=True)
        if not form.is_valid():
            return _subscription_page(request, row, form=form, status=422)
        try:
            services.update_subscription(
                actor=actor_of(request), subscription=row, changes=form.cleaned_data, now=clock.now()
            )
        except (Invalid, Conflict) as error:
            add_errors(form, error)
            return _subscription_page(request, row, form=form, status=422)
        messages.success(request, f"{row.name} is changed.")
        return see_other(_page_url(row))


class SubscriptionSecretPage(LoginRequiredMixin, View):
    """POST makes another secret, which this one answer shows."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        row = queries.subscription_for(request.user, public_id)
        try:
            secret = services.renew_secret(actor=actor_of(request), subscription=row, now=clock.now())
        except Invalid as error:
            messages.error(request, error.message)
            return see_other(_page_url(row))
        return _subscription_page(request, row, secret=secret)


class SubscriptionTestPage(LoginRequiredMixin, View):
    """POST sends a test."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        row = queries.subscription_for(request.user, public_id)
        try:
            services.send_test(actor=actor_of(request), subscription=row, now=clock.now())
        except Conflict as error:
            messages.error(request, error.message)
        else:
            messages.success(request, "A test is on its way. Look again in a few seconds.")
        return see_other(_page_url(row))


class SubscriptionDeletePage(LoginRequiredMixin, View):
    """POST deletes one for good."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        row = queries.subscription_for(request.user, public_id)
        services.delete_subscription(actor=actor_of(request), subscription=row, now=clock.now())
        messages.success(request, f"{row.name} is deleted.")
        return see_other(_list_url(row.team))


class NoticeReplayPage(LoginRequiredMixin, View):
    """POST sends one again."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        row = queries.delivery_for(request.user, public_id)
        try:
            services.replay(actor=actor_of(request), delivery=row, now=clock.now())
        except Conflict as error:
            messages.error(request, error.message)
        else:
            messages.success(request, "It is on its way again, with the id that it had.")
        return see_other(_page_url(row.subscription))


def _subscription_page(
    request: HttpRequest,
    row: NoticeSubscription,
    *,
    secret: str = "",
    form: SubscriptionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    sent = queries.deliveries_for(request.user).filter(subscription=row).order_by("-pk")
    rows = list(sent[: SHOWN_MAX + 1])
    context: dict[str, Any] = {
        "subscription": row,
        "team": row.team,
        "form": form or SubscriptionForm(of=row, mail=True),
        "secret": secret,
        "deliveries": _shown(rows[:SHOWN_MAX]),
        "are_more": len(rows) > SHOWN_MAX,
        "list_url": _list_url(row.team),
        "is_webhook": row.channel == Channel.WEBHOOK,
    }
    answer = render(request, "notices/subscription.html", context, status=status)
    if secret:
        answer["Cache-Control"] = "no-store"
    return answer


def _shown(rows: list[Delivery]) -> list[dict[str, Any]]:
    again = {DeliveryState.DEAD, DeliveryState.DELIVERED}
    return [
        {
            "row": row,
            "title": title_of(row.payload),
            "may_replay": row.state in again and row.subscription.enabled,
        }
        for row in rows
    ]
