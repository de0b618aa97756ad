from __future__ import annotations

import re
from datetime import timedelta

import pytest

from foundation import clock
from quotas.models import Quota
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db


def page(client, workload, query="", **headers):
    kind = "endpoints" if workload.kind == "endpoint" else "runs"
    return client.get(f"/{kind}/{workload.public_id}/{query}", headers=headers).content.decode()


def test_a_run_shows_what_it_does_why_and_what_it_costs(ana, made):
    html = page(ana, made["resnet50"])
    for fact in (
        "Running",
        "Progressing",
        "8 \u00d7 a100-40gb",
        "$21.96 per hour now",
        "Timeline",
        "attempt 1",
    ):
        assert fact in html


def test_a_waiting_run_says_why_and_what_it_will_cost(ana, made):
    html = page(ana, made["bert-large"])
    for fact in ("Why it waits", "Team vision uses 10 of its 16", "nobody ahead", "$21.96", "$43.92"):
        assert fact in html


def test_a_failed_run_says_what_happened_and_what_to_do(ana, made):
    html = page(ana, made["unet-3d"])
    assert "reached its memory limit of 16Gi" in html
    assert "Ask for more memory" in html
    assert "exit code 137" in html


def test_a_live_page_polls_and_stops_when_it_is_final(ana, made, world):
    run = made["resnet50"]
    live = page(ana, run, **{"HX-Request": "true", "HX-Target": "live"})
    assert "<html" not in live
    assert 'hx-trigger="every 2s' in live
    world.move(run, Phase.FAILED, Reason.APPLICATION_ERROR, "Ended with exit code 1.", at=world.now)
    ended = page(ana, run, **{"HX-Request": "true", "HX-Target": "live"})
    # What happened is asked for once.
    assert re.findall(r'hx-trigger="([^"]+)"', ended) == ["load"]


def test_each_tab_is_an_address_and_a_fragment(ana, made):
    html = page(ana, made["resnet50"])
    for tab in ("logs", "events", "pods", "cost", "manifests", "spec"):
        link = re.search(rf'<a id="tab-{tab}" href="([^"]+)"', html)[1]
        assert "<html" in ana.get(link).content.decode()
        fragment = ana.get(link, headers={"HX-Request": "true", "HX-Target": "tabs"}).content.decode()
        assert fragment.strip().startswith('<section class="card card-flush" id="tabs"')


def test_an_unknown_tab_is_not_found(ana, made):
    assert ana.get(f"/runs/{made['resnet50'].public_id}/?tab=odd").status_code == 404


def test_logs_are_shown_in_colour_and_followed_from_where_they_ended(ana, made, world):
    run = made["resnet50"]
    html = page(ana, run)
    assert '<span class="ansi-green">0.641</span>' in html
    more = re.search(r'id="log-more"[^>]*hx-get="([^"]+)"', html)[1].replace("&amp;", "&")
    headers = {"HX-Request": "true", "HX-Target": "log-more"}
    assert "log-line" not in ana.get(more, headers=headers).content.decode()
    world.log(run.pods.get(), *(["-"] * 9), "epoch 5/10")
    fragment = ana.get(more, headers=headers).content.decode()
    assert "epoch 5/10" in fragment
    assert "epoch 4/10" not in fragment


def test_a_log_cursor_of_something_else_is_refused(ana, made):
    assert ana.get(f"/runs/{made['resnet50'].public_id}/?tab=logs&cursor=x").status_code == 400
    assert ana.get(f"/runs/{made['resnet50'].public_id}/?tab=logs&attempt=9").status_code == 404


@pytest.mark.parametrize(
    ("form", "part"),
    [("", "apiVersion: batch/v1"), ("&format=json", "&quot;apiVersion&quot;: &quot;batch/v1&quot;")],
)
def test_the_manifests_are_shown(ana, made, form, part):
    assert part in page(ana, made["resnet50"], f"?tab=manifests{form}")


def test_the_cost_lines_add_up_to_the_total(ana, made):
    html = page(ana, made["sweep-07"], "?tab=cost")
    amounts = re.findall(r'data-label="Amount" class="num"><span>\$([0-9.]+)', html)
    total = re.search(r'data-label="Total"><span>\$([0-9.]+)', html)[1]
    assert [total] == amounts


@pytest.mark.parametrize(("command", "desired"), [("cancel", "cancel"), ("suspend", "suspend")])
def test_a_command_is_a_post_that_leads_back_with_a_message(ana, made, command, desired):
    run = made["resnet50"]
    response = ana.post(f"/runs/{run.public_id}/{command}/", follow=True)
    assert response.redirect_chain == [(f"/runs/{run.public_id}/", 303)]
    assert (
        f"resnet50 is being {'cancelled' if command == 'cancel' else 'suspended'}."
        in response.content.decode()
    )
    assert Workload.objects.get(pk=run.pk).desired == desired


def test_a_command_that_is_too_late_says_so(ana, made):
    response = ana.post(f"/runs/{made['sweep-07'].public_id}/cancel/", follow=True)
    assert "sweep-07 is already Succeeded" in response.content.decode()


def test_a_button_that_cannot_be_pressed_says_why(ana, made):
    html = page(ana, made["sweep-07"])
    assert "It has ended: Succeeded." in re.search(r'id="why-cancel">([^<]+)', html)[1]
    assert 'popovertarget="confirm-retry"' in html


def test_what_calls_for_nothing_is_a_line_and_what_does_a_card(ana, made, world):
    quiet = page(ana, made["resnet50"])
    assert re.search(r'<section class="said-quiet[^>]*><p>Its pod is running.', quiet)
    world.move(made["resnet50"], Phase.RUNNING, Reason.DEGRADED, "1 of 2 pods is ready.", at=world.now)
    degraded = page(ana, made["resnet50"])
    assert "said-quiet" not in degraded
    assert re.search(r'<section class="card callout[^>]*aria-label="What it says"', degraded)


def test_the_timeline_is_a_bar_that_opens_and_the_further_facts_are_folded(ana, made):
    html = page(ana, made["resnet50"])
    for folded in ("timeline", "more-facts"):
        assert re.search(rf'<details class="[^"]+" id="{folded}">', html)
    assert html.index('id="more-facts"') < html.index("<dt>Priority</dt>")


def test_what_is_not_possible_now_is_no_button(ana, made, viewer):
    html = page(ana, made["resnet50"])
    menu = re.search(r'<details class="menu" id="refused">.*?</details>', html, re.DOTALL)[0]
    assert "Only when this one has ended." in menu
    assert "<button" not in menu
    assert "disabled" not in re.search(r'<div class="page-head">.*?</section>', html, re.DOTALL)[0]
    assert 'id="refused"' not in page(viewer, made["resnet50"])


def test_running_again_makes_a_new_run_of_the_same_request(ana, made):
    response = ana.post(f"/runs/{made['sweep-07'].public_id}/retry/")
    again = Workload.objects.filter(name="sweep-07").latest("id")
    assert response["Location"] == f"/runs/{again.public_id}/"
    assert again.training_run.spec == made["sweep-07"].training_run.spec


def test_work_is_lost_in_the_attempts_that_lost_some(ana, made):
    run = made["unet-3d"]
    run.attempts.update(lost_seconds=720)
    run.attempts.create(number=2, object_name="x", created_at=clock.now())
    lost = re.search(r'id="work-lost">(.*?)</dd>', page(ana, run))[1]
    assert (lost.startswith("12m"), "in 1 attempt<" in lost) == (True, True)


def test_a_clone_fills_the_form_in_and_the_run_made_of_it_says_of_what(ana, made):
    html = ana.get(f"/runs/new/?from={made['resnet50'].public_id}").content.decode()
    assert 'name="name" value="resnet50-2"' in html
    assert "project=imagenet" in html
    assert re.search(r'value="a100-40gb" checked', html)
    origin = re.search(r'name="origin" value="([^"]+)"', html)[1]
    sent = {"team": "vision", "name": "copy", "image": "b:1", "gpus": "0", "origin": origin}
    response = ana.post("/runs/new/", sent)
    assert re.search(
        rf'Copy of</dt><dd><a href="/runs/{origin}/">resnet50', ana.get(response["Location"]).content.decode()
    )
    stranger = ana.post("/runs/new/", {**sent, "name": "other", "origin": "no-id"})
    assert "Copy of" not in ana.get(stranger["Location"]).content.decode()


def test_what_has_saved_something_is_continued_by_a_button(ana, made):
    run = made["unet-3d"]
    assert "confirm-continue" not in page(ana, run)
    run.checkpoints.create(attempt=1, step=400, path="/checkpoints/step-400", at=clock.now())
    html = page(ana, run)
    action = re.search(r'action="([^"]+from_checkpoint=1)"', html)[1]
    assert "goes on from /checkpoints/step-400 (step 400)" in html
    response = ana.post(action)
    again = ana.get(response["Location"]).content.decode()
    assert "Continues" in again
    assert "from /checkpoints/step-400" in again


# --- a time limit that runs out


def near_its_end(run, *, limit: int, ran: int, used: int = 0):
    Workload.objects.filter(pk=run.pk).update(time_limit_seconds=limit, used_seconds=used)
    run.attempts.update(started_at=clock.now() - timedelta(seconds=ran))


def test_a_run_near_its_time_limit_says_so_and_is_extended_in_one_click(ana, made):
    run = made["resnet50"]
    near_its_end(run, limit=7200, ran=3000, used=3000)
    assert "running-out" in page(ana, run)
    html = page(ana, run)
    assert re.search(r"(19|20)m( [0-9]+s)? left of its time limit of 2h; then it is stopped", html)
    seconds = re.search(r'name="seconds" value="(\d+)"', html)[1]
    assert seconds == "10800"
    response = ana.post(f"/runs/{run.public_id}/time-limit/", {"seconds": seconds}, follow=True)
    assert "resnet50 has another time limit now." in response.content.decode()
    assert "running-out" not in page(ana, run)


@pytest.mark.parametrize(("ran", "phase"), [(5700, "Running"), (6000, "Queued")])
def test_who_has_time_left_or_does_not_run_is_not_warned(ana, made, ran, phase):
    run = made["resnet50"]
    near_its_end(run, limit=7200, ran=ran)
    Workload.objects.filter(pk=run.pk).update(phase=phase)
    assert "running-out" not in page(ana, run)


def test_nothing_longer_is_offered_than_the_quota_allows(ana, made, world):
    run = made["resnet50"]
    near_its_end(run, limit=7200, ran=7000)
    quota = Quota.objects.filter(team=run.team, flavor=run.flavor)
    quota.update(max_time_limit_seconds=9000)
    assert 'name="seconds" value="9000"' in page(ana, run)
    quota.update(max_time_limit_seconds=7200)
    html = page(ana, run)
    assert "The quota allows no longer one." in html
    assert 'id="extend"' not in html


def test_a_viewer_is_warned_and_cannot_extend(viewer, made):
    run = made["resnet50"]
    near_its_end(run, limit=7200, ran=7000)
    html = page(viewer, run)
    assert "running-out" in html
    assert 'id="extend"' not in html


def test_a_run_shows_the_labels_that_it_has_now(ana, world):
    run = world.run("tagged", labels={"project": "vision"})
    Workload.objects.filter(pk=run.pk).update(labels={"keep": "", "project": "speech"})
    html = ana.get(f"/runs/{run.public_id}/").content.decode()
    shown = re.search(r'<dd id="labels">(.*?)</dd>', html, re.DOTALL)[1]
    assert re.sub(r"<[^>]+>", "", shown).split(", ") == ["keep", "project=speech"]
