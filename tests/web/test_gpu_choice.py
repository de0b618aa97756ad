"""The table of GPUs on the forms: its order, what fits a model that is named, and what a lever would lose."""

from __future__ import annotations

import re

import pytest

from advisor.fitting import Isolation, isolation_of
from console.pages.gpu_choice import GpuTraits, loss_words, model_bytes
from foundation.number_words import gib
from quotas.models import Quota
from tests.factories.catalogue import make_quota
from tests.factories.teams import make_member
from tests.web.browsing import chromium, either_way, faults, needs_chromium, open_page, session_of
from tests.web.conftest import signed_in
from tests.web.test_browser import fill_in
from tests.web.test_forms import NEW, filled, text
from tests.web.test_submit_preview import AS_TYPED
from workloads.models import ResourceFlavor, Workload
from workloads.placement import Sharing

CHOSEN = {"HX-Request": "true", "HX-Target": "flavors"}


def rows(html: str) -> list[str]:
    return re.findall(r'<input type="radio" name="flavor" value="([^"]*)"', html)


def row(html: str, name: str) -> str:
    found = re.search(rf'<label class="[^"]*">\s*<input [^>]*value="{name}".*?</label>', html, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


# --- order


@pytest.mark.django_db
def test_what_can_start_now_comes_first_and_then_the_cheaper(ana, world):
    assert rows(text(ana.get(NEW)))[:2] == ["a100-mig-1g.10gb", "a100-40gb"]
    html = text(ana.post(NEW, filled(action="check", gpus="5"), headers=CHOSEN))
    assert rows(html)[:2] == ["a100-40gb", "a100-mig-1g.10gb"]
    assert "room now" in row(html, "a100-40gb")
    assert "waits" in row(html, "a100-mig-1g.10gb")


@pytest.mark.django_db
def test_what_the_team_has_no_quota_for_is_folded_unless_it_is_chosen(ana, world):
    html = text(ana.get(NEW))
    assert re.search(
        r'<details class="more" id="gpu-folded">\s*<summary>1 more without quota for Vision', html
    )
    assert rows(html).index("t4-shared") > rows(html).index("")
    assert '<details class="more" id="gpu-folded" open>' in text(ana.get(f"{NEW}?flavor=t4-shared"))


# --- what fits


@pytest.mark.django_db
def test_a_model_that_is_named_marks_what_holds_it_and_offers_it(ana, world):
    html = text(ana.post("/endpoints/new/", filled(action="check", fits="7B fp16"), headers=CHOSEN))
    assert "For inference, fp16." in html
    assert "holds it" in row(html, "a100-40gb")
    assert "too small" in row(html, "a100-mig-1g.10gb")
    assert 'name="set" value="flavor=a100-40gb&capacity=on-demand&gpus=1"' in html
    assert rows(html)[0] == "a100-40gb", "what is too small comes last"


@pytest.mark.django_db
def test_on_the_form_of_a_run_a_model_is_trained_unless_the_words_say_otherwise(ana, world):
    for said, words in (
        ("1B bf16", "For training, bf16, adamw."),
        ("1B bf16 inference", "For inference, bf16."),
        ("1B int4", "For inference, int4."),
    ):
        assert words in text(ana.post(NEW, filled(action="check", fits=said), headers=CHOSEN))


@pytest.mark.django_db
@pytest.mark.parametrize("asked", ["seven", "<b>7B</b>", "7B 8B", "x" * 300])
def test_words_that_are_not_understood_are_said_and_refuse_nothing(ana, world, asked):
    html = ana.post(NEW, filled(action="check", fits=asked), headers=CHOSEN).content.decode()
    assert "<b>7B" not in html
    assert 'class="gpu-fits"' in html
    assert ana.post(NEW, filled(fits=asked)).status_code == 303


@pytest.mark.django_db
def test_what_was_asked_stays_when_the_form_is_refused(ana, world):
    assert 'value="7B fp16"' in text(ana.post(NEW, filled(fits="7B fp16", image="UPPER")))


# --- what a lever loses

BIG, SLICE = GpuTraits(40, Sharing.NONE), GpuTraits(10, Sharing.MIG)
QUARTER, SERVED = GpuTraits(4, Sharing.TIME_SLICING), GpuTraits(20, Sharing.MPS)


def test_less_memory_is_said_with_what_the_model_needs():
    needs = 9_985_798_963
    assert gib(needs) == "9.3"
    assert loss_words(SLICE, QUARTER, model_bytes=needs) == [
        "4 GiB instead of 10: your model needs 9.3, which is too much",
        "nothing isolates it from neighbours on the card",
    ]
    assert loss_words(BIG, SLICE) == ["10 GiB instead of 40"]
    assert loss_words(BIG, GpuTraits(16, Sharing.NONE), model_bytes=needs) == [
        "16 GiB instead of 40: your model needs 9.3"
    ]


def test_nothing_is_said_of_more_or_of_what_is_not_known():
    assert loss_words(SLICE, BIG) == []
    assert loss_words(BIG, GpuTraits(0, Sharing.NONE)) == []
    assert loss_words(GpuTraits(4, Sharing.TIME_SLICING), SERVED) == []


def test_a_share_whose_memory_is_its_own_is_told_from_one_where_nothing_is():
    assert isolation_of(Sharing.MPS) is Isolation.MEMORY
    assert loss_words(GpuTraits(20, Sharing.MIG), SERVED) == [
        "its memory is its own, its time is shared with neighbours on the card"
    ]


def test_what_a_model_needs_is_divided_among_the_gpus_that_serve_it():
    one, four = (model_bytes("7B fp16", trains=False, cards=cards) for cards in (1, 4))
    assert four < one / 2
    assert model_bytes("", trains=True, cards=1) is None
    assert model_bytes("what", trains=True, cards=1) is None


@pytest.mark.django_db
def test_a_lever_of_the_preview_says_what_is_lost_with_it(ana, queue):
    ResourceFlavor.objects.filter(name="a100-40gb").update(memory_gib=80)
    sent = filled(name="new", gpus="8", action="check", fits="1B bf16 inference")
    html = text(ana.post(NEW, sent, headers=AS_TYPED))
    assert "40 GiB instead of 80: your model needs" in html


@pytest.mark.django_db
def test_a_lever_of_a_waiting_run_says_so_too(ana, queue):
    ResourceFlavor.objects.filter(name="a100-40gb").update(memory_gib=80)
    html = text(ana.get(f"/runs/{queue['bert-large'].public_id}/"))
    assert "40 GiB instead of 80" in html


# --- in a browser


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_what_fits_is_asked_and_taken_on_the_form(live_server, world, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto(NEW)
        fill_in(page)
        page.get_by_label("What fits?").fill("7B fp16 inference")
        if not script:
            page.get_by_role("button", name="Check").click()
        page.locator(".gpu-fits").get_by_role("button", name="a100-40gb").click()
        page.locator("#preview .verdict").get_by_text("Starts now").wait_for()
        assert page.locator('input[name="flavor"]:checked').input_value() == "a100-40gb"
        assert page.get_by_label("GPUs", exact=True).input_value() == "1"
        assert page.get_by_label("Command").input_value().split() == ["python", "train.py"]
        if script:
            assert faults(page) == []
            page.locator("#flavor-a100-40gb").focus()
            page.keyboard.press("ArrowDown")
            assert page.locator('input[name="flavor"]:checked').input_value() != "a100-40gb"
        assert complaints == []


# --- the team is changed


@pytest.fixture
def both(world):
    """Ana is in Speech too, which has quota for shares of a T4 alone."""
    Quota.objects.filter(team=world.other).delete()
    make_member("member", team=world.other, user=world.ana)
    make_quota(world.other, ResourceFlavor.objects.get(name="t4-shared"), 4)
    return world


@pytest.mark.django_db
def test_with_another_team_the_gpu_is_one_that_it_has_quota_for(both):
    client = signed_in(both.ana)
    typed = {"action": "check", "team": "speech", "flavor": "a100-40gb", "gpus": "1"}
    answer = client.post(NEW, filled(**typed, gpus_of="vision"), headers=CHOSEN)
    assert 'value="t4-shared" checked' in text(answer)
    assert answer["HX-Trigger-After-Swap"] == "gpu-chosen"
    # What somebody chose for this team stays, quota or not; so does what both have quota for.
    assert 'value="a100-40gb" checked' in text(
        client.post(NEW, filled(**typed, gpus_of="speech"), headers=CHOSEN)
    )
    make_quota(both.other, ResourceFlavor.objects.get(name="a100-40gb"), 4)
    answer = client.post(NEW, filled(**typed, gpus_of="vision"), headers=CHOSEN)
    assert 'value="a100-40gb" checked' in text(answer)
    assert "HX-Trigger-After-Swap" not in answer


@pytest.mark.django_db
def test_what_is_submitted_is_what_was_chosen_whatever_the_table_was_of(both):
    sent = filled(name="mine", team="speech", flavor="a100-40gb", gpus="1", gpus_of="vision")
    answer = signed_in(both.ana).post(NEW, sent)
    assert answer.status_code == 422
    assert 'value="a100-40gb" checked' in text(answer)
    assert not Workload.objects.exists()


@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_the_preview_follows_the_team_and_its_gpu(live_server, both, script):
    session = session_of(both.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto(f"{NEW}?team=vision&gpus=1")
        fill_in(page)
        page.get_by_label("GPUs", exact=True).fill("1")
        page.get_by_label("Team", exact=True).select_option("speech")
        if not script:
            page.get_by_role("button", name="Check").click()
        page.locator("#flavor-t4-shared:checked").wait_for()
        page.locator("#preview").get_by_text("t4-shared").first.wait_for()
        assert page.locator("#preview").get_by_text("Can never start").count() == 0
        assert complaints == []
