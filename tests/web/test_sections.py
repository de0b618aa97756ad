"""The folded parts of the forms: what they say, when they stand open, and what appears with a mode."""

from __future__ import annotations

import re

import pytest

from foundation import clock
from teams.secret_names import record_secret
from tests.factories.teams import ACTOR
from tests.web.browsing import chromium, either_way, faults, needs_chromium, open_page, session_of
from tests.web.test_browser import fill_in
from tests.web.test_forms import NEW, filled, text
from tests.web.test_runtime_on_the_form import filled as filled_endpoint
from tests.web.test_submit_preview import AS_TYPED
from workloads.models import Workload

pytestmark = pytest.mark.django_db
ENDPOINT = "/endpoints/new/"


def said(html: str) -> dict[str, str]:
    """The words of each part."""
    found = re.findall(r'id="says-([a-z]+)"[^>]*>(.*?)</span>(?=\s*<)', html, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", words).split()) for name, words in found}


def opened(html: str) -> set[str]:
    return set(re.findall(r'id="section-([a-z]+)" open', html))


def test_each_part_of_a_run_says_what_is_set_in_it(ana, world):
    empty = said(text(ana.get(NEW)))
    assert empty["environment"] == "nothing set"
    assert empty["size"] == "CPU and memory by the GPUs' share of a node"
    assert empty["kind"] == "Job, no retries, normal priority"
    assert empty["sweep"] == "one run"
    record_secret(team=world.team, name="hf", keys=["token"], written_here=True, actor=ACTOR, now=clock.now())
    secrets = "A=hf/token\n\nB=hf/token"
    full = said(text(ana.post(NEW, filled(action="check", shm="8Gi", env_secrets=secrets))))
    assert full["environment"] == "3 variables, 2 variables from secrets"
    assert full["size"] == "4 cores, 16Gi of memory, 8Gi shared"
    assert full["data"] == "2 volumes, checkpoints in /checkpoints"
    assert full["code"] == "train.py"
    assert full["kind"] == "Job, 3 retries, normal priority"
    assert full["further"] == "1 label"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "1 replica"),
        ({"replicas": "3"}, "3 replicas"),
        ({"max_replicas": "3", "trigger": "in-flight"}, "1 to 3 by requests in flight"),
        ({"max_replicas": "9", "trigger": "cpu", "replicas": "2"}, "2 to 9 by CPU"),
        (
            {"max_replicas": "3", "trigger": "in-flight", "to_zero": "on", "replicas": "2"},
            "0 to 3 by requests in flight, wakes to 2",
        ),
        ({"max_replicas": "3"}, "1 to 3, by nothing yet"),
        ({"replicas": "many"}, "many"),
    ],
)
def test_scaling_is_said_in_a_few_words(ana, world, values, words):
    html = text(ana.post(ENDPOINT, filled_endpoint(action="check", **values)))
    assert said(html)["scaling"].removeprefix("needs a look ") == words


def test_what_serves_is_said_with_its_model_and_its_port(ana, world):
    html = text(ana.post(ENDPOINT, filled_endpoint(action="check", model_uri="s3://models/bert", rate="5")))
    assert said(html)["serving"] == (
        "torchserve, model from s3://models/bert, port 8080, ready by /ping, 5 requests a second"
    )


def test_the_words_come_anew_with_the_preview(ana, world):
    html = text(ana.post(NEW, filled(action="check", labels=""), headers=AS_TYPED))
    assert said(html)["further"] == "nothing set"
    assert said(html)["data"] == "2 volumes, checkpoints in /checkpoints"


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({}, set()),
        ({"cpu": "lots"}, {"size"}),
        ({"env_secrets": "X", "labels": "="}, {"environment", "further"}),
        ({"retries": "many", "git_url": "nowhere"}, {"kind", "code"}),
        ({"parameters": "lr"}, {"sweep"}),
    ],
)
def test_a_part_stands_open_that_holds_an_error_and_keeps_what_was_typed(ana, world, values, parts):
    html = text(ana.post(NEW, filled(image="UPPER", **values)))
    assert opened(html) == parts
    for value in values.values():
        assert f'value="{value}"' in html or f"{value}</textarea>" in html
    for name in parts:
        assert said(html)[name].startswith("needs a look")


def test_an_address_opens_a_part(ana, world):
    assert opened(text(ana.get(f"{NEW}?open=sweep"))) == {"sweep"}
    assert opened(text(ana.get(f"{NEW}?open=<b>"))) == set()


def test_a_clone_is_folded_and_says_what_it_brings(ana, world):
    assert ana.post(NEW, filled()).status_code == 303
    html = text(ana.get(f"{NEW}?from={Workload.objects.get().public_id}"))
    assert opened(html) == set()
    assert said(html)["code"] == "train.py"


# --- registry secrets and storage


def test_storage_and_registry_secrets_reach_the_run_and_come_back(ana, world):
    body = filled(storage="20Gi", pull_secrets="")
    assert ana.post(NEW, body).status_code == 303
    run = Workload.objects.get()
    assert run.training_run.spec["ephemeral_storage"] == "20Gi"
    again = ana.get(f"{NEW}?from={run.public_id}").context["form"].initial
    assert (again["storage"], again["more"]) == ("20Gi", "")


def test_a_registry_secret_that_is_unknown_is_said_at_its_input(ana, world):
    html = text(ana.post(NEW, filled(pull_secrets="registry, other")))
    assert 'id="id_pull_secrets_error"' in html
    assert "registry" in html.split('id="id_pull_secrets_error">')[1][:200]
    assert 'value="registry, other"' in html
    assert opened(html) == {"further"}


def test_a_lever_and_an_address_may_bring_sizes(ana, world):
    html = text(ana.post(NEW, filled(set="cpu=2&memory=8Gi&storage=9Gi")))
    for name, value in (("cpu", "2"), ("memory", "8Gi"), ("storage", "9Gi")):
        assert f'value="{value}"' in re.search(rf'<input[^>]* name="{name}"[^>]*>', html)[0]
    assert 'value="9Gi"' in text(ana.get(f"{NEW}?storage=9Gi"))


# --- in a browser


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_a_run_is_asked_for_on_the_first_screen_and_folded_parts_open_where_they_are_wrong(
    live_server, world
):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(NEW)
        for label in ("Name", "Image", "Command", "GPUs", "Pods", "Time limit"):
            box = page.get_by_label(label, exact=True).bounding_box()
            assert box["y"] + box["height"] < 900, label
        button = page.get_by_role("button", name="Submit run")
        assert button.bounding_box()["y"] < 900
        assert not page.get_by_label("Retries").is_visible()
        fill_in(page)
        page.locator("#section-size > summary").click()
        page.get_by_label("Memory", exact=True).fill("16Gi")
        page.locator("#says-size").get_by_text("16Gi of memory").wait_for()
        page.get_by_label("Memory", exact=True).fill("much")
        page.locator("#says-size[data-wrong]").wait_for()
        page.locator("#section-size > summary").click()
        assert not page.get_by_label("Memory", exact=True).is_visible()
        page.locator("#preview .missing").get_by_role("link", name="Memory").click()
        assert page.evaluate("document.activeElement.id") == "id_memory"
        assert faults(page) == []
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.get_by_role("button", name="Submit run").count() == 1
        page.evaluate("scrollTo(0, 300)")
        box = page.get_by_role("button", name="Submit run").bounding_box()
        assert 0 < box["y"] < 740 - box["height"]
        assert page.locator("#bar-verdict").inner_text() == "Not complete yet"
        assert complaints == []


@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_what_scales_appears_with_what_it_scales_by(live_server, world, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto(ENDPOINT)
        page.locator("#section-scaling > summary").click()
        target, query = page.get_by_label("Target"), page.get_by_label("Query")
        assert not target.is_visible()
        page.get_by_label("Scales by").select_option("in-flight")
        assert target.is_visible()
        assert not query.is_visible()
        page.get_by_label("Scales by").select_option("prometheus")
        query.fill("sum(up)")
        page.get_by_label("Scales by").select_option("")
        assert query.is_visible(), "what was typed does not vanish"
        query.fill("")
        assert not query.is_visible()
        assert complaints == []
