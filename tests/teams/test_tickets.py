"""Tickets to the live process: what each opens, for how long, how often, and with whose rights."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from foundation.errors import NotSignedIn
from teams import tickets
from teams.models import ApiToken, LiveTicket
from teams.tickets import Principal
from tests.factories.teams import make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return make_user()


def code_of(ask, *args, **named):
    with pytest.raises(NotSignedIn) as refused:
        ask(*args, **named)
    return refused.value.code


def test_a_ticket_opens_one_thing_for_a_minute_and_once(user):
    now = clock.now()
    text = tickets.mint_for(user=user, purpose="logs", resource="r", now=now)
    late = now + timedelta(seconds=59)
    found = tickets.read(text, purpose="logs", resource="r", now=late)
    assert found.principal == Principal(user.pk)
    for other, code in (
        ({"purpose": "events", "now": now}, "ticket_invalid"),
        ({"purpose": "logs", "now": now + timedelta(seconds=60)}, "ticket_expired"),
        ({"purpose": "logs", "resource": "other", "now": now}, "ticket_invalid"),
    ):
        assert code_of(tickets.read, text, **other) == code
    for forged in (text + "x", "", "x" * 100_000):
        assert code_of(tickets.read, forged, purpose="logs", now=now) == "ticket_invalid"
    tickets.spend(found, now=late)
    assert code_of(tickets.spend, found, now=late) == "ticket_used"
    assert code_of(tickets.read, text, purpose="logs", now=late) == "ticket_used"


def test_what_has_ended_is_forgotten_after_a_while(user):
    now = clock.now()
    for ago in (timedelta(0), timedelta(minutes=5), timedelta(hours=1)):
        tickets.mint_for(user=user, purpose="logs", now=now - ago)
    assert tickets.purge(now=now) == 1
    assert LiveTicket.objects.count() == 2


def test_who_stands_is_bound_as_the_token_is(user):
    make_token(user)
    token = ApiToken.objects.get(user=user)
    now = clock.now()
    by_token, by_user = Principal(user.pk, token.pk), Principal(user.pk)
    of_nobody = Principal(user.pk, None, "no-such-session")
    stands = tickets.standing([by_token, by_user, of_nobody], now=now)
    assert set(stands) == {by_token, by_user}
    ApiToken.objects.update(scopes=["submit"])
    assert set(tickets.standing([by_token, by_user], now=now)) == {by_user}


def test_the_session_of_another_user_is_not_ones_own(user, client):
    client.force_login(make_user())
    key = client.session.session_key
    assert tickets.standing([Principal(user.pk, None, key)], now=clock.now()) == {}
