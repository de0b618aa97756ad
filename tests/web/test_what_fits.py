"""The page "What fits?": an address in, an answer out; buttons that open a filled-in form."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from quotas.models import Quota
from tests.web.browsing import chromium, either_way, needs_chromium, open_page, session_of

pytestmark = pytest.mark.django_db

PAGE = "/what-fits/"


def text_of(response) -> str:
    return html.unescape(response.content.decode())


def links(response, path: str) -> list[dict[str, list[str]]]:
    found = re.findall(r'href="([^"]+)"', response.content.decode())
    parts = [urlsplit(html.unescape(each)) for each in found]
    return [parse_qs(each.query) for each in parts if each.path == path and "flavor" in each.query]


def test_without_a_question_there_is_a_form_and_no_answer(ana, world):
    page = text_of(ana.get(PAGE))
    assert "Find what fits" in page
    assert "Together" not in page
    assert "7B fp16" in page


def test_the_sum_the_flavors_and_the_reasons_are_shown(ana, world):
    page = text_of(ana.get(PAGE, {"text": "llama 2 7B fp16"}))
    assert "6,738,415,616 × 2" in page  # noqa: RUF001
    assert "13,476,831,232" in page
    assert "https://arxiv.org/abs/1910.02054" in page
    assert "Does not hold it" in page


def test_a_button_opens_a_new_run_with_flavor_and_count(ana, world):
    answer = ana.get(PAGE, {"text": "3B bf16 training adam fsdp checkpointing"})
    query = links(answer, "/runs/new/")[0]
    assert query["team"] == ["vision"]
    assert query["flavor"] == ["a100-40gb"]
    form = text_of(ana.get("/runs/new/", {name: values[0] for name, values in query.items()}))
    assert re.search(r'value="a100-40gb" checked', form)
    assert re.search(rf'name="gpus" value="{query["gpus"][0]}"', form)
    assert re.search(rf'name="replicas" value="{query["replicas"][0]}"', form)


def test_what_is_served_opens_a_new_endpoint_with_flavor_and_count(ana, world):
    query = links(ana.get(PAGE, {"text": "llama 2 7B int4"}), "/endpoints/new/")[0]
    form = text_of(ana.get("/endpoints/new/", {name: values[0] for name, values in query.items()}))
    assert query["flavor"] == ["a100-mig-1g.10gb"]
    assert re.search(r'value="a100-mig-1g.10gb" checked', form)
    assert re.search(r'name="gpus" value="1"', form)


def test_a_viewer_is_told_and_has_no_button(viewer, world):
    answer = viewer.get(PAGE, {"text": "7B"})
    assert "Together" in text_of(answer)
    assert links(answer, "/endpoints/new/") == []


def test_a_stranger_sees_no_team_and_nothing_of_it(stranger, world):
    assert stranger.get(PAGE, {"team": "vision", "text": "7B"}).status_code == 404
    assert "vision" not in text_of(stranger.get(PAGE, {"text": "7B"}))


def test_the_form_of_a_run_leads_here(ana, world):
    assert f'href="{PAGE}?team=vision"' in ana.get("/runs/new/").content.decode()


def test_a_team_without_quota_sees_the_sum(ana, world):
    Quota.objects.filter(used=0).delete()
    assert "no quota for any flavor" in text_of(ana.get(PAGE, {"text": "7B"}))


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ({"text": "a lot"}, "Model"),
        ({"text": "7B", "layers": "32"}, "Hidden size"),
        ({"text": "7B", "layers": "many"}, "Layers"),
        ({"text": "7B", "precision": "fp4"}, "Precision"),
        ({"text": "7B", "pure_16_bits": "1", "optimizer": "adam", "precision": "fp32"}, ""),
        ({"text": "7B inference", "gradient_checkpointing": "on"}, "Gradient checkpointing"),
        ({"text": "<script>alert(1)</script>"}, "Model"),
        ({"purpose": "training"}, "Parameters"),
    ],
)
@pytest.mark.parametrize("fragment", [False, True])
def test_what_is_wrong_is_said_at_its_field(ana, world, query, label, fragment):
    answer = ana.get(PAGE, query, headers={"HX-Request": "true", "HX-Target": "answer"} if fragment else {})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "<script>alert" not in page
    if not label:  # a copy that is not asked for is no contradiction
        assert "Together" in page
        return
    assert "Together" not in page
    assert re.search(rf'<a href="#id_\w+">{label}</a>:', page)
    assert ("<html" in page) is not fragment


@pytest.mark.matrix
@needs_chromium
@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@either_way
def test_typing_is_answered_kept_in_the_address_and_leads_to_a_filled_in_form(live_server, world, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto(PAGE)
        page.get_by_label("Model").fill("125M training sgd")
        if not script:
            page.get_by_role("button", name="Find what fits").click()
        page.locator("#answer").get_by_text("Together").wait_for()
        page.wait_for_url("**/what-fits/?*text=125M*")
        page.reload()
        assert page.get_by_label("Model").input_value() == "125M training sgd"
        page.get_by_role("link", name="New run on a100-40gb on-demand").click()
        page.wait_for_url("**/runs/new/?*flavor=a100-40gb*")
        assert page.locator('input[name="flavor"][value="a100-40gb"]').is_checked()
        assert complaints == []
