"""An answer that is kept for an Idempotency-Key is shown again only to who might ask for it now."""

from __future__ import annotations

import pytest
from django.urls import reverse

from foundation import clock
from foundation.models import IdempotencyKey
from teams import services as people
from teams.models import Membership, User
from tests.effort import spread
from tests.factories.submitted import run_body
from tests.factories.teams import ACTOR, make_member, make_token
from tests.security.routes import ROUTES, all_routes
from tests.security.world import TEAM, Principal, different, snapshot

pytestmark = pytest.mark.django_db

RUNS = "/api/v1/training-runs/"


def takes_keys(pattern) -> bool:
    actions = getattr(pattern.callback, "actions", None) or {"post": "post"}
    view = getattr(pattern.callback, "cls", None)
    method = getattr(view, actions.get("post", ""), None)
    return bool(getattr(method, "honours_idempotency_key", False))


TAKING_KEYS = sorted(
    name
    for name, pattern in all_routes().items()
    if name in ROUTES and "POST" in ROUTES[name].methods and takes_keys(pattern)
)
# What cannot be done in this world, so that no answer is kept: of a run or a request in another state, by the cluster, or of
# what is another's own.
NOT_HERE = {
    "console-api:team-reopen",
    "console-api:volume-list",
    "inference-api:endpoint-pause-scaler",
    "jobs-api:training-run-retry",
    "notices-api:notice-replay",
    "notices-api:subscription-test",
    "quotas-api:queue-start",
    "quotas-api:quota-request-withdraw",
    "workloads-api:flavor-list",
}
# Of what one may always ask for oneself, and of numbers alone: whoever asks may know them.
OF_ONESELF = {"teams-api:token-list", "jobs-api:training-run-bulk"}


@pytest.fixture
def somebody(world):
    """A lead of the team with every role that there is."""
    user = make_member("lead", team=world.team).user
    people.set_global_roles(actor=ACTOR, user=user, quota_manager=True, platform_admin=True, now=clock.now())
    user.refresh_from_db()
    return user


def strip(user) -> None:
    """Neither a role nor a team is left."""
    people.set_global_roles(
        actor=ACTOR, user=user, quota_manager=False, platform_admin=False, now=clock.now()
    )
    for membership in Membership.objects.filter(user=user):
        people.remove_member(actor=ACTOR, membership=membership, now=clock.now())


def test_most_routes_that_make_something_take_keys():
    assert len(TAKING_KEYS) >= 30


@pytest.mark.parametrize("name", spread(TAKING_KEYS, usual=10))
def test_who_lost_every_right_is_answered_as_who_asks_for_the_first_time(world, somebody, name):
    row = ROUTES[name]
    url, body = reverse(name, kwargs=world.kwargs(row.what)), world.body(row.methods["POST"].body)
    asks = Principal("somebody", bearer=make_token(somebody))
    first = asks.ask("POST", url, body, Idempotency_Key="one")
    if not IdempotencyKey.objects.filter(key="one").exists():
        assert name in NOT_HERE, first.content
        return
    again = asks.ask("POST", url, body, Idempotency_Key="one")
    if again.status_code == first.status_code:
        assert again["Idempotency-Replayed"] == "true"
    else:
        assert again.json()["code"] == "answer_not_kept"
    strip(somebody)
    fresh = asks.ask("POST", url, body, Idempotency_Key="two")
    refused = asks.ask("POST", url, body, Idempotency_Key="one")
    if name not in OF_ONESELF:
        assert fresh.status_code in {403, 404}
        assert refused.status_code == fresh.status_code, refused.content
        assert "Idempotency-Replayed" not in refused
        assert (refused.json()["code"], refused.json()["detail"]) == (
            fresh.json()["code"],
            fresh.json()["detail"],
        )


@pytest.fixture
def kept(world):
    """A run that the member made with a key."""
    asks = Principal("member", bearer=make_token(world.member, name="first"))
    body = run_body(TEAM, name="kept-run")
    assert asks.ask("POST", RUNS, body, Idempotency_Key="k").status_code == 201
    return body


def test_a_token_of_lesser_scope_gets_no_answer_of_another(world, kept):
    reads = Principal("reads", bearer=make_token(world.member, name="reads", scopes=("read",)))
    assert reads.ask("POST", RUNS, kept, Idempotency_Key="k").status_code == 403


def test_a_viewer_gets_no_answer_of_their_time_as_a_member(world, kept):
    membership = Membership.objects.get(user=world.member, team=world.team)
    people.change_role(actor=ACTOR, membership=membership, role="viewer", now=clock.now())
    asks = Principal("member", bearer=make_token(world.member, name="second"))
    answer = asks.ask("POST", RUNS, kept, Idempotency_Key="k")
    assert (answer.status_code, answer.json()["code"]) == (403, "viewer_only")


def test_a_deactivated_user_gets_no_answer(world, kept):
    asks = Principal("member", bearer=make_token(world.member, name="second"))
    User.objects.filter(pk=world.member.pk).update(is_active=False)
    assert asks.ask("POST", RUNS, kept, Idempotency_Key="k").status_code == 401


def test_judging_changes_nothing(world, kept):
    asks = Principal("member", bearer=make_token(world.member, name="second"))
    asks.ask("GET", "/api/v1/me/")
    before = snapshot()
    answer = asks.ask("POST", RUNS, kept, Idempotency_Key="k")
    assert answer["Idempotency-Replayed"] == "true"
    assert not different(before, snapshot())
