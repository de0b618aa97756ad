"""Alert rules are changed by quota managers alone, over what they have seen, by a form or by REST."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.test import Client

from foundation import clock
from foundation.errors import PreconditionFailed
from teams.models import AuditEvent
from telemetry.models import AlertRule
from telemetry.queries import rule_in_force, version_of_rule
from telemetry.services import change_rule
from tests.factories.teams import ACTOR, api_client

IDLE = "/api/v1/alert-rules/idle/"
PAGE = "/idle/rules/idle/"


def browser(user):
    client = Client()
    client.force_login(user)
    return client


def typed(**changes):
    """What the form of the rule sends."""
    rule = rule_in_force("idle")
    values = {
        "threshold": rule.threshold,
        "window_minutes": rule.window_minutes,
        "kinds": list(rule.kinds),
        "teams": ", ".join(rule.teams),
        "enabled": "on",
        "version": version_of_rule(rule),
    }
    return {name: value for name, value in (values | changes).items() if value is not None}


@pytest.mark.django_db
def test_a_manager_finds_it_on_the_page_and_others_do_not(world):
    assert f'href="{PAGE}"' in browser(world.manager).get("/idle/").content.decode()
    assert f'href="{PAGE}"' not in browser(world.ana).get("/idle/").content.decode()
    assert browser(world.ana).get(PAGE).status_code == 403
    assert browser(world.ana).post(PAGE, typed(threshold=20)).status_code == 403
    assert rule_in_force("idle").threshold == 10


@pytest.mark.django_db
def test_what_is_saved_holds_and_is_in_the_audit_trail(world):
    page = browser(world.manager).get(PAGE).content.decode()
    assert "highest GPU utilization below 10 % for 30 minutes" in page
    assert 'value="10"' in page
    values = typed(threshold=20, kinds=["training-run"], teams=" vision, other,vision ", enabled=None)
    answer = browser(world.manager).post(PAGE, values)
    assert (answer.status_code, answer["Location"]) == (303, "/idle/")
    rule = rule_in_force("idle")
    assert (rule.threshold, rule.window_minutes, rule.enabled) == (20, 30, False)
    assert (rule.kinds, rule.teams) == (("training-run",), ("other", "vision"))
    event = AuditEvent.objects.get(action="alert-rule.update")
    assert event.actor_label == "manager"
    assert event.after["threshold"] == 20


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"threshold": "lots"}, "threshold", "Enter a number."),
        ({"threshold": "151"}, "threshold", "less than or equal to 150"),
        ({"threshold": "nan"}, "threshold", "Enter a number."),
        ({"window_minutes": "4"}, "window_minutes", "greater than or equal to 5"),
        ({"teams": "vision, nobody"}, "teams", "There is no team nobody."),
        ({"kinds": ["dream"]}, "kinds", "Select a valid choice."),
    ],
)
@pytest.mark.django_db
def test_what_is_wrong_stands_at_its_field_with_what_was_typed(world, changes, field, message):
    answer = browser(world.manager).post(PAGE, typed(**changes))
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert list(errors) == [field]
    assert message in errors[field][0]
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert rule_in_force("idle").threshold == 10


@pytest.mark.django_db
def test_a_change_over_one_that_was_not_seen_is_shown_it_first(world):
    client, mine = browser(world.manager), typed(threshold=25)
    assert client.post(PAGE, typed(window_minutes=60)).status_code == 303
    answer = client.post(PAGE, mine)
    text = answer.content.decode()
    assert answer.status_code == 412
    assert "below 10 % for 60 minutes" in text
    assert 'value="25"' in text
    assert rule_in_force("idle").threshold == 10
    again = mine | {"version": answer.context["form"]["version"].value()}
    assert client.post(PAGE, again).status_code == 303
    rule = rule_in_force("idle")
    assert (rule.threshold, rule.window_minutes) == (25, 30)


@pytest.mark.django_db
def test_no_rule_has_no_form(world):
    assert browser(world.manager).get("/idle/rules/nothing/").status_code == 404


@pytest.mark.django_db
def test_if_match_refuses_what_was_not_seen(world):
    client = api_client(world.manager)
    seen = client.get(IDLE)
    assert seen.json()["threshold"] == 10
    first = client.patch(IDLE, {"threshold": 20}, format="json", headers={"If-Match": seen["ETag"]})
    assert first.status_code == 200
    stale = client.patch(IDLE, {"threshold": 30}, format="json", headers={"If-Match": seen["ETag"]})
    assert stale.status_code == 412
    after = client.patch(IDLE, {"threshold": 30}, format="json", headers={"If-Match": first["ETag"]})
    assert (after.status_code, after.json()["threshold"]) == (200, 30)


@pytest.mark.django_db
def test_a_rule_about_other_teams_alone_is_hidden_from_a_member(world):
    assert api_client(world.ana).get(IDLE).status_code == 200
    patched = api_client(world.manager).patch(IDLE, {"teams": ["other"]}, format="json")
    assert patched.status_code == 200
    assert api_client(world.ana).get(IDLE).status_code == 404
    assert api_client(world.oto).get(IDLE).json()["teams"] == ["other"]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_change_a_rule_at_once_that_nobody_had_changed_one_is_told():
    seen = frozenset({version_of_rule(rule_in_force("hot"))})
    together, ended = threading.Barrier(2), []

    def change(threshold):
        try:
            together.wait()
            change_rule(
                name="hot",
                changes={"threshold": threshold},
                actor=ACTOR,
                now=clock.now(),
                expected_versions=seen,
            )
            ended.append(threshold)
        except PreconditionFailed:
            ended.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=change, args=(threshold,)) for threshold in (70, 75)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (kept,) = set(ended) - {"refused"}
    assert AlertRule.objects.get().threshold == kept
