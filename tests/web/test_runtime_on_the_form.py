"""The form of an endpoint and its runtime: what it shows, what it fills in, what it sends."""

from __future__ import annotations

import pytest

from inference.models import Endpoint
from tests.web.browsing import chromium, needs_chromium, open_page, session_of
from tests.web.test_forms import as_yaml, text

pytestmark = pytest.mark.django_db(transaction=True)
NEW = "/endpoints/new/"


def filled(**changes):
    return {
        "team": "vision",
        "name": "bert",
        "image": "pytorch/torchserve:0.12.0-gpu",
        "flavor": "a100-mig-1g.10gb",
        "capacity": "on-demand",
        "gpus": "1",
        "cpu": "2",
        "memory": "8Gi",
        "priority": "normal",
        "replicas": "1",
        "strategy": "surge",
        "runtime": "torchserve",
        **changes,
    }


def body_of(page):
    return as_yaml(text(page))


def test_a_runtime_and_its_options_become_the_body(ana, world):
    page = ana.post(
        NEW,
        filled(
            action="check",
            model_uri="s3://models/bert",
            opt_models="bert=classifier.mar\n\ndigits.mar",
            opt_batch_size="32",
            opt_max_batch_delay_ms="100",
            args="--ncs",
        ),
    )
    body = body_of(page)
    assert body["runtime_options"] == {
        "models": ["bert=classifier.mar", "digits.mar"],
        "batch_size": 32,
        "max_batch_delay_ms": 100,
    }
    assert body["model"] == {"uri": "s3://models/bert"}
    assert body["args"] == ["--ncs"]
    assert "ports" not in body
    assert ana.post("/api/v1/endpoints/", body, content_type="application/json").status_code == 201


def test_options_of_another_runtime_are_neither_shown_nor_sent(ana, world):
    page = ana.post(NEW, filled(action="check", runtime="triton", opt_batch_size="32", opt_models="resnet50"))
    assert body_of(page)["runtime_options"] == {"models": ["resnet50"]}
    assert "opt_batch_size" not in text(page)


def test_what_is_wrong_with_an_option_stands_at_its_input(ana, world):
    page = ana.post(NEW, filled(opt_batch_size="32"))
    assert page.status_code == 422
    assert 'id="id_opt_batch_size_error"' in text(page)
    assert "for each model by name" in text(page)


def test_a_changed_endpoint_keeps_what_its_runtime_was_told(ana, world):
    told = {"opt_models": "bert=classifier.mar", "opt_batch_size": "32", "model_uri": "s3://models/bert"}
    assert ana.post(NEW, filled(model_size_limit="7Gi", args="--ncs", **told)).status_code == 303
    endpoint = Endpoint.objects.get()
    before = endpoint.parsed
    url = f"/endpoints/{endpoint.workload.public_id}/update/"
    shown = text(ana.get(url))
    for words in ("bert=classifier.mar", "s3://models/bert", "7Gi", 'value="32"'):
        assert words in shown, words
    changed = filled(
        image="pytorch/torchserve:0.12.1-gpu", model_size_limit="7Gi", args="--ncs", made_from="1", **told
    )
    assert ana.post(url, changed).status_code == 303
    endpoint.refresh_from_db()
    after = endpoint.parsed
    assert (after.image, after.runtime_options) == ("pytorch/torchserve:0.12.1-gpu", before.runtime_options)
    assert (after.model, after.ports, after.probes) == (before.model, before.ports, before.probes)


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("width", [360, 1440])
def test_choosing_a_runtime_shows_what_it_takes(live_server, world, width):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, width=width, theme="light")
        page.goto(NEW)
        assert page.locator("#id_opt_models").count() == 0
        page.locator("#section-serving > summary").click()
        page.locator("#id_model_claim").fill("llms")
        page.locator("#id_runtime").select_option("vllm")
        page.locator("#id_opt_max_model_len").wait_for()
        assert page.locator("#id_port").get_attribute("placeholder") == "8000"
        assert page.locator("#id_model_claim").input_value() == "llms"
        assert "/health" in page.locator("#serving").inner_text()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        page.locator("#id_runtime").select_option("triton")
        page.locator("#id_opt_max_model_len").wait_for(state="detached")
        assert page.locator("#id_readiness_path").get_attribute("placeholder") == "/v2/health/ready"
        assert complaints == []
