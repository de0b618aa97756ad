"""The head and the first tab of an endpoint: how many replicas there are, and which revision answers."""

from __future__ import annotations

import re

import pytest

from foundation import clock
from inference.models import Endpoint
from inference.services import update_endpoint
from inference.specs import EndpointSpec
from teams.actors import Actor

pytestmark = pytest.mark.django_db


def facts(client, workload, *, below: str = "") -> dict[str, str]:
    """What the page says first under each of its words, or what its section says that has this title."""
    html = client.get(f"/endpoints/{workload.public_id}/").content.decode()
    part = html.partition(f'id="{below}"')[2].partition("</section>")[0] if below else html
    pairs = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", part, re.DOTALL)
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, " ".join(re.sub(r"<[^>]+>", " ", value).split()))
    return found


@pytest.fixture
def scaled(world, settings):
    """One that sleeps, and at its most has three replicas."""
    return world.sleeper(settings)


def test_the_head_says_how_many_are_ready_and_between_what_they_are(ana, world, scaled):
    assert facts(ana, scaled)["Replicas"] == "0 ready, 0 to 3"
    world.start(scaled)
    assert facts(ana, scaled)["Replicas"] == "1 ready, 0 to 3"


def test_one_that_does_not_scale_has_so_many_of_so_many(ana, made):
    assert facts(ana, made["digits"])["Replicas"] == "1 of 1 ready"


@pytest.fixture
def digits(made):
    endpoint = Endpoint.objects.get(workload=made["digits"])
    endpoint.revisions.update(state="live", live_at=clock.now(), ready=1, updated=1, total=1)
    Endpoint.objects.filter(pk=endpoint.pk).update(stable_revision=1)
    endpoint.refresh_from_db()
    body = {**endpoint.current.spec, "image": "registry.example.org/serve:9", "ports": {"http": 9000}}
    actor = Actor.of_user(made["digits"].owner)
    return update_endpoint(endpoint=endpoint, spec=EndpointSpec.from_json(body), actor=actor, now=clock.now())


@pytest.mark.parametrize(
    ("state", "target", "said"),
    [
        ("pending", 1, "revision 2 waits"),
        ("rolling-out", 2, "revision 2 is being rolled out, 0 of 1 ready"),
        ("failed", 2, "revision 2 failed"),
    ],
)
def test_what_serves_is_what_answers_and_not_what_is_to_come(ana, digits, state, target, said):
    digits.revisions.filter(number=2).update(state=state, total=1)
    Endpoint.objects.filter(pk=digits.pk).update(target=target)
    old = digits.revisions.get(number=1).spec
    found = facts(ana, digits.workload, below="serves-title")
    assert found["Revision"].startswith("1 ")
    assert said in found["Revision"]
    assert (found["Image"], found["Ports"]) == (old["image"], f"http {old['ports']['http']}")
    assert facts(ana, digits.workload)["Revision"].startswith("1 ")


def test_once_it_is_live_it_serves(ana, digits):
    digits.revisions.filter(number=2).update(state="live", live_at=clock.now())
    Endpoint.objects.filter(pk=digits.pk).update(target=2, stable_revision=2)
    found = facts(ana, digits.workload, below="serves-title")
    assert (found["Image"], found["Ports"]) == ("registry.example.org/serve:9", "http 9000")
    assert "waits" not in found["Revision"]


@pytest.mark.parametrize(
    ("command", "typed"),
    [("scale", {"min_replicas": "3", "max_replicas": "99999"}), ("pause-scaler", {"replicas": "many"})],
)
def test_a_dialog_that_is_refused_stands_open_with_what_was_typed(ana, world, command, typed):
    endpoint = world.endpoint("grows", max_replicas=4, scaling={"trigger": "cpu", "threshold": 70})
    response = ana.post(f"/endpoints/{endpoint.public_id}/{command}/", typed, follow=True)
    html = response.content.decode()
    assert "Write a whole number from 1 to" in html
    dialog = re.search(rf'<div ([^>]*)id="confirm-{command}".*?</form>', html, re.DOTALL)
    assert "popover" not in dialog[1]
    assert "Write a whole number from 1 to" in dialog[0]
    assert "Write a whole number from 1 to" not in html.replace(dialog[0], "")
    for name, value in typed.items():
        assert f'name="{name}" value="{value}"' in dialog[0]
    again = ana.get(f"/endpoints/{endpoint.public_id}/?again={command}").content.decode()
    assert "Write a whole number from 1 to" not in again, "it is said once"
    assert (
        f'<div popover id="confirm-{command}"'
        in ana.get(f"/endpoints/{endpoint.public_id}/").content.decode()
    )
