"""The failure card on the page of a run and of an endpoint, the page step by step, and the comparison."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from foundation import clock
from tests.diagnosis.planted import Planted
from tests.factories.submitted import make_attempt, make_endpoint, make_run
from tests.factories.teams import make_member
from tests.factories.workloads import put_in
from tests.pod_samples import failed, pending, waiting
from tests.web.conftest import signed_in
from workloads.models import Attempt, Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db
CARD = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "why-card"}


def attempted(world, phase: Phase, **values):
    run = make_run(world.team, world.ana, name="resnet-7")
    make_attempt(run)
    return put_in(run, phase, **values)


@pytest.fixture
def broke(world):
    run = attempted(world, Phase.FAILED, reason="OOMKilled", message="Container main used more memory.")
    Planted(run).pods(failed(137, "OOMKilled"))
    return run


def why(workload: Workload) -> str:
    return reverse("console:why", args=[workload.public_id])


def test_the_page_of_a_run_that_failed_asks_for_the_card_and_works_without_it(ana, broke):
    page = ana.get(broke.page_url).content.decode()
    assert f'hx-get="{why(broke)}"' in page
    assert f'<a href="{why(broke)}">' in page
    assert 'id="why-Failed" hx-preserve="true"' in page


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.CANCELLED])
def test_the_page_of_what_ended_as_wished_asks_for_none(ana, world, phase):
    run = attempted(world, phase)
    assert why(run) not in ana.get(run.page_url).content.decode()


def test_the_card_says_what_happened_what_shows_it_and_one_next_step(ana, broke):
    card = ana.get(why(broke), **CARD).content.decode()
    assert "<html" not in card
    assert "It used more memory than its limit" in card
    assert (
        "used more memory (RAM, not that of the GPU) than its limit of 2Gi, of which /dev/shm is a part"
        in card
    )
    assert "status.containerStatuses[main].state.terminated" in card
    assert "OOMKilled, exit code 137" in card
    assert "Use Clone with more <code>memory</code>, such as <code>4Gi</code>" in card
    assert '<span class="strong">You can mend this.</span>' in card
    assert "Run again would submit the same request, and fail in the same way." in card
    assert '<span title="The cluster or the program says so in as many words.">certain</span>' in card
    assert f"{broke.page_url}?tab=logs&amp;attempt=1&amp;pod=a-1-x7k2p#tabs" in card
    assert "hx-trigger" not in card, "what has ended changes no more"


def test_a_programs_own_error_is_the_title_with_its_traceback_and_a_button_to_change_the_request(ana, world):
    run = attempted(world, Phase.FAILED, reason="ApplicationError", message="Ended with exit code 1.")
    traceback = (
        "Traceback (most recent call last):",
        "  import torchx",
        "ModuleNotFoundError: No module named 'torchx'",
    )
    Planted(run).pods(failed(1)).wrote("before", *traceback)
    card = ana.get(why(run), **CARD).content.decode()
    assert '<h2 id="why-title">ModuleNotFoundError: No module named &#x27;torchx&#x27;</h2>' in card
    block = re.search(r'<pre class="codeblock traceback"[^>]*>(.*?)</pre>', card, re.DOTALL)[1]
    assert unescape(block).split("\n") == list(traceback)
    button = re.search(r'<a class="button button-primary" href="([^"]+)">.*?Run again with a change', card)[1]
    assert 'value="example.org/train:1"' in ana.get(button).content.decode()
    viewer = signed_in(make_member("viewer", team=world.team).user)
    assert "Run again with a change" not in viewer.get(why(run), **CARD).content.decode()


def test_of_a_failure_that_nothing_explains_the_card_says_what_the_portal_knows(ana, world):
    run = attempted(world, Phase.FAILED, reason="OOMKilled", message="It reached its limit.")
    page = ana.get(run.page_url).content.decode()
    assert "It reached its limit." in page
    assert "Ask for more memory" in page


def test_while_it_may_change_the_card_asks_again(ana, world):
    run = attempted(world, Phase.STARTING)
    Planted(run).pods(pending(waiting("ErrImagePull", "manifest unknown"), name="a-2"))
    card = ana.get(why(run), **CARD).content.decode()
    assert "every 10s" in card
    assert f"live:workload:{run.public_id}" in card


def test_what_cannot_go_on_as_it_is_is_to_be_cancelled_once_another_is_in(ana, world):
    run = attempted(world, Phase.STARTING)
    Planted(run).pods(pending(waiting("InvalidImageName", "couldn't parse image name"), name="a-2"))
    card = ana.get(why(run), **CARD).content.decode()
    assert "This one does not go on as it is: cancel it once the new one is in." in card
    assert "Run again would" not in card


def test_step_by_step_is_a_page_of_its_own(ana, broke):
    page = ana.get(why(broke)).content.decode()
    assert "<h1>What happened to resnet-7</h1>" in page
    for words in ("It used more memory than its limit", "Submitted", "Admitted", "All that was said"):
        assert words in page


def test_the_endpoint_has_its_card_too(ana, world):
    endpoint = make_endpoint(world.team, world.ana, name="clip")
    make_attempt(endpoint)
    endpoint = put_in(endpoint, Phase.STARTING)
    Planted(endpoint).pods(pending(waiting("CreateContainerConfigError", 'secret "hf" not found')))
    assert why(endpoint) in ana.get(endpoint.page_url).content.decode()
    assert "secret &quot;hf&quot; not found" in ana.get(why(endpoint), **CARD).content.decode()


def test_of_a_pod_whose_program_did_not_start_there_is_no_log_to_look_at(ana, world):
    run = attempted(world, Phase.STARTING)
    Planted(run).pods(
        pending(waiting("CreateContainerConfigError", "couldn't find key token in Secret team-vision/hf"))
    )
    card = ana.get(why(run), **CARD).content.decode()
    assert "tab=logs" not in card
    assert "Run again" not in card
    assert f'<a href="/teams/{world.team.slug}/#secrets">Secrets of {world.team.name}</a>' in card
    panel = ana.get(f"{run.page_url}?tab=logs").content.decode()
    assert "No log: the program has not started." in panel
    assert "Following…" not in panel
    more = re.search(r'id="log-more"[^>]*hx-get="([^"]+)"', panel)[1].replace("&amp;", "&")
    asked_again = ana.get(more, HTTP_HX_REQUEST="true", HTTP_HX_TARGET="log-more").content.decode()
    assert "No log: the program has not started." in asked_again
    Attempt.objects.filter(workload=run).update(ended_at=clock.now())
    put_in(run, Phase.FAILED)
    panel = ana.get(f"{run.page_url}?tab=logs").content.decode()
    assert "No log: the program has not started" in panel


def test_who_only_looks_is_not_told_to_mend_it(world, broke):
    viewer = signed_in(make_member("viewer", team=world.team).user)
    card = viewer.get(why(broke), **CARD).content.decode()
    assert "A member of the team can mend this." in card


def test_what_the_cluster_says_stays_text_between_backticks(ana, world):
    run = attempted(world, Phase.STARTING)
    Planted(run).pods(pending(waiting("RunContainerError", 'exec: "<b>`x" : no such file or directory')))
    card = ana.get(why(run), **CARD).content.decode()
    assert "<b>" not in card


def test_a_run_without_retries_says_so_and_its_buttons_say_what_they_do(ana, broke):
    page = ana.get(broke.page_url).content.decode()
    assert "<dt>Retries</dt><dd>none allowed</dd>" in page
    assert 'title="Submits the same request as a new run. To change it first, use Clone."' in page
    assert 'title="Opens the form with this request, to be changed before it is submitted."' in page


def test_strangers_and_nobody_see_nothing(stranger, broke):
    assert stranger.get(why(broke)).status_code == 404
    assert Client().get(why(broke)).status_code == 302


def test_from_the_card_one_compares_with_the_last_that_worked(ana, world, broke):
    worked = put_in(
        make_run(world.team, world.ana, name="resnet-6", image="example.org/train:0"), Phase.SUCCEEDED
    )
    link = f"{reverse('console:compare')}?a={worked.public_id}&amp;b={broke.public_id}"
    assert link in ana.get(why(broke), **CARD).content.decode()
    page = ana.get(link.replace("&amp;", "&")).content.decode()
    assert "example.org/train:0" in page
    assert "example.org/train:1" in page


def test_what_cannot_be_compared_is_not_found(ana, broke, stranger):
    compare = reverse("console:compare")
    assert ana.get(f"{compare}?a={broke.public_id}").status_code == 404
    assert stranger.get(f"{compare}?a={broke.public_id}&b={broke.public_id}").status_code == 404


def test_pages_ask_a_bounded_number_of_queries(ana, broke, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        ana.get(why(broke), **CARD)
