"""Trying an endpoint out from its page: a real server answers behind the API server's proxy path."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.db import transaction

from cluster import client as cluster_client
from pages.endpoints import try_forms
from pages.endpoints import try_it as tried
from pages.endpoints.protocols import model_of, protocol_of
from tests.cluster.cluster_faults import FaultServer
from tests.web.browsing import chromium, meanwhile, needs_chromium, open_page, session_of
from workloads.models import Workload

pytestmark = pytest.mark.django_db
ANSWER = {"digit": 7, "probabilities": {"1": 0.02, "7": 0.97}, "note": "<script>alert(1)</script>"}


@pytest.fixture
def upstream(tmp_path, settings):
    server = FaultServer(tmp_path / "kubeconfig", script=lambda exchange: exchange.reply(200, ANSWER))
    settings.CLUSTER_KUBECONFIG = str(server.kubeconfig)
    yield server
    shared = cluster_client._shared.pop(str(server.kubeconfig), None)
    if shared is not None:
        shared.close()
    server.close()


def try_it(client, made, **sent):
    sent = {"method": "POST", "path": "/v1/predict?top=2", "body": '{"pixels": [1]}', **sent}
    headers = {"HX-Request": "true", "HX-Target": "answer"}
    return client.post(f"/endpoints/{made['digits'].public_id}/try/", sent, headers=headers).content.decode()


def test_the_answer_is_shown_with_its_status_time_and_headers(ana, made, upstream):
    html = try_it(ana, made)
    assert "<html" not in html
    for fact in ("200", " ms", "&quot;digit&quot;: 7", "&lt;script&gt;alert(1)", "application/json"):
        assert fact in html
    (request,) = upstream.requests
    assert request.method == "POST"
    assert request.path.endswith("/proxy/v1/predict?top=2")
    assert request.body == b'{"pixels": [1]}'


@pytest.mark.parametrize(
    ("values", "method", "path", "held"),
    [
        ({}, "GET", "/", ""),
        ({"runtime": "triton"}, "POST", "/v2/models/tried/infer", '"datatype": "FP32"'),
        (
            {"runtime": "vllm", "runtime_options": {"models": ["org/llama"], "served_model_name": "llama"}},
            "POST",
            "/v1/chat/completions",
            "llama",
        ),
        ({"runtime": "torchserve"}, "POST", "/predictions/tried", "data"),
    ],
)
def test_it_begins_with_a_request_of_the_runtimes_protocol(ana, world, values, method, path, held):
    endpoint = world.endpoint("tried", **values)
    answer = ana.get(f"/endpoints/{endpoint.public_id}/")
    sent = answer.context["sent"]
    assert (sent.method, sent.path, held in sent.body) == (method, path, True)
    assert f"{endpoint.public_id}{path}" in answer.context["curl"] or path in answer.context["curl"]
    raw = unescape(ana.get(f"/endpoints/{endpoint.public_id}/?mode=raw").content.decode())
    assert f'name="path" value="{path}"' in raw
    assert (held or '"inputs": []') in raw


@pytest.mark.parametrize(
    ("spec", "protocol", "model"),
    [
        ({"runtime": "triton", "runtime_options": {"models": ["bert"]}}, "v2", "bert"),
        ({"runtime": "torchserve", "runtime_options": {"models": ["bert=classifier.mar"]}}, "predictions", "bert"),
        ({"runtime": "torchserve", "runtime_options": {"models": ["classifier.mar"]}}, "predictions", "classifier"),
        ({"runtime": "vllm", "model": {"path": "org/llama"}}, "chat", "org/llama"),
        ({"runtime": "vllm", "model": {"claim": "c", "path": "/models"}, "runtime_options": {"models": ["x"]}}, "chat", "/models/x"),
        ({"runtime": "vllm", "args": ["--served-model-name", "short"], "model": {"path": "org/llama"}}, "chat", "short"),
        ({"runtime": "custom", "image": "docker.io/vllm/vllm-openai:v0.21", "args": ["--model=org/m"]}, "chat", "org/m"),
        ({"runtime": "custom", "image": "x", "command": ["vllm", "serve"], "env": [{"name": "MODEL_ID", "value": "m"}]}, "chat", "m"),
        ({"runtime": "custom", "image": "nvcr.io/nvidia/tritonserver:24.12-py3"}, "v2", "named"),
        ({"runtime": "custom", "probes": {"readiness": {"path": "/v2/health/ready"}}}, "v2", "named"),
        ({"runtime": "custom", "env": [{"name": "MODEL_NAME", "secret": "s", "key": "k"}]}, "", "named"),
        ({}, "", "named"),
    ],
)  # fmt: skip
def test_the_protocol_and_the_models_name_are_read_off_the_request(spec, protocol, model):
    assert (protocol_of(spec), model_of(spec, otherwise="named")) == (protocol, model)


def test_the_overview_opens_with_the_form_of_the_protocol_filled_in(ana, world):
    options = {"models": ["org/llama"], "served_model_name": "llama"}
    endpoint = world.endpoint("tried", runtime="vllm", runtime_options=options)
    html = ana.get(f"/endpoints/{endpoint.public_id}/").content.decode()
    assert re.search(r'aria-current="true"[^>]*>Chat \(OpenAI\)</a>', html)
    assert re.search(r'name="model" value="llama"', html)
    assert "Say hello." in html


@pytest.mark.parametrize(
    ("answer", "said", "model"),
    [
        ({"data": [{"id": "org/a"}, {"id": "org/b"}]}, "It serves org/a, org/b.", "org/a"),
        ({"data": "none"}, "/v1/models names no models: the server answered 200", "typed"),
    ],
)
def test_the_server_is_asked_for_its_models(ana, made, upstream, answer, said, model):
    upstream.script = lambda exchange: exchange.reply(200, answer)
    html = send(ana, made, mode="chat", model="typed", action="models").content.decode()
    assert upstream.requests[0].path.endswith("/proxy/v1/models")
    assert said in html
    assert f'name="model" value="{model}"' in html


def test_a_protocol_without_such_a_list_is_not_asked(ana, made, upstream):
    assert send(ana, made, mode="v2", action="models").status_code == 422
    assert not upstream.requests


@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_its_links_say_nothing_in_the_console(live_server, world):
    session, endpoint = session_of(world.ana), world.endpoint("tried", runtime="triton")
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/endpoints/{endpoint.public_id}/?tab=try")
        page.get_by_role("link", name="Raw").click()
        page.get_by_label("Path").wait_for()
        assert complaints == []


def test_nothing_of_the_session_goes_out(ana, made, upstream):
    try_it(ana, made)
    sent = {name.lower() for name in upstream.requests[0].headers}
    assert not {"cookie", "x-csrftoken", "referer", "hx-request"} & sent


def test_a_viewer_may_try_it_too(viewer, made, upstream):
    assert "&quot;digit&quot;: 7" in try_it(viewer, made)


def test_an_error_of_the_endpoint_is_shown_as_one(ana, made, upstream):
    upstream.script = lambda exchange: exchange.reply(500, body=b"Traceback <b>", content_type="text/html")
    html = try_it(ana, made)
    assert "verdict-never" in html
    assert "Traceback &lt;b&gt;" in html


def test_an_answer_that_is_no_text_is_shown_by_its_length(ana, made, upstream):
    upstream.script = lambda exchange: exchange.reply(200, body=b"\xff\xfe\x00", content_type="image/png")
    assert "(3 bytes that are not text)" in try_it(ana, made, method="GET")
    assert upstream.requests[0].body == b""


def test_without_javascript_the_whole_page_comes_back_with_what_was_typed(ana, made, upstream):
    url = f"/endpoints/{made['digits'].public_id}/try/"
    html = ana.post(url, {"method": "POST", "path": "/v1/predict", "body": '{"a": 1}'}).content.decode()
    assert "<html" in html
    assert 'value="/v1/predict"' in html
    assert "&quot;digit&quot;: 7" in html


def send(client, made, **sent):
    return client.post(f"/endpoints/{made['digits'].public_id}/try/", sent)


def test_a_filled_form_is_sent_as_the_protocol_wants_it_and_can_be_copied(ana, made, upstream):
    values = {"mode": "v2", "model": "digits", "input-0-name": "x", "input-0-datatype": "FP32"}
    html = send(ana, made, **values, **{"input-0-data": "1 2"}).content.decode()
    (request,) = upstream.requests
    assert request.path.endswith("/proxy/v2/models/digits/infer")
    assert json.loads(request.body)["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
    ]
    assert "curl -sS -X POST" in html
    assert "/vision/digits/v2/models/digits/infer" in html
    assert "until the first byte" in html


def test_a_form_that_makes_no_request_sends_nothing_and_says_why(ana, made, upstream):
    answer = send(ana, made, mode="v2", model="digits")
    assert answer.status_code == 422
    assert "Name at least one input." in answer.content.decode()
    assert not upstream.requests


def test_the_server_is_asked_for_its_inputs(ana, made, upstream):
    described = {"inputs": [{"name": "pixels", "datatype": "FP64", "shape": [-1, 64]}]}
    upstream.script = lambda exchange: exchange.reply(200, described)
    html = send(ana, made, mode="v2", model="digits", action="describe").content.decode()
    assert upstream.requests[0].path.endswith("/proxy/v2/models/digits")
    assert 'value="pixels"' in html
    assert 'value="1, 64"' in html
    assert "<option selected>FP64</option>" in html


def test_a_server_that_describes_nothing_is_told_so(ana, made, upstream):
    upstream.script = lambda exchange: exchange.reply(404, {"error": "no"})
    html = send(ana, made, mode="v2", model="digits", action="describe").content.decode()
    assert "/v2/models/digits names no inputs: the server answered 404" in html


def test_a_form_can_be_gone_on_with_as_raw(ana, made, upstream):
    values = {"mode": "v2", "model": "digits", "input-0-name": "x", "input-0-datatype": "INT8"}
    html = send(ana, made, **values, **{"input-0-data": "7"}, action="raw").content.decode()
    assert not upstream.requests
    assert 'value="/v2/models/digits/infer"' in html
    assert "&quot;datatype&quot;: &quot;INT8&quot;" in html


@pytest.fixture
def sleepy(world, settings):
    """An endpoint at zero replicas, which a request wakes."""
    workload = world.sleeper(settings)
    with transaction.atomic():
        world.start(workload)
    Workload.objects.filter(pk=workload.pk).update(reason="ScaledToZero")
    return workload


def test_one_that_sleeps_is_asked_again_by_itself_with_what_was_sent(ana, sleepy, upstream):
    sent = {"method": "PUT", "path": "/v1/<b>", "body": '{"a": 1}', "mode": "raw"}
    url, headers = f"/endpoints/{sleepy.public_id}/try/", {"HX-Request": "true", "HX-Target": "answer"}
    html = ana.post(url, sent, headers=headers).content.decode()
    assert "sent again by itself every 5 seconds" in html
    for said in ('value="/v1/&lt;b&gt;"', 'value="{&quot;a&quot;: 1}"', 'name="tries" value="1"'):
        assert said in html, said
    sleepy.refresh_from_db()
    assert sleepy.called_at is not None
    assert "by itself" not in ana.post(url, sent | {"tries": "120"}, headers=headers).content.decode()
    assert "by itself" not in ana.post(url, sent).content.decode()
    assert upstream.requests == []


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_answer_comes_once_it_is_awake(live_server, world, sleepy, upstream):
    session = session_of(world.ana)
    asleep = Workload.objects.filter(pk=sleepy.pk)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/endpoints/{sleepy.public_id}/?tab=try")
        page.get_by_role("button", name="Send", exact=True).click()
        page.get_by_text("It is waking up.").wait_for()
        page.locator("#try-path").fill("/not-sent")
        meanwhile(lambda: asleep.update(reason="Ready"))
        page.get_by_text('"digit": 7').wait_for()
        assert page.get_by_text("It is waking up.").count() == 0
    assert complaints == []
    (request,) = upstream.requests
    assert request.path.endswith("/proxy/")


def test_an_answer_that_grows_by_its_indents_is_written_no_further_than_it_is_shown():
    deep = "[" * 300 + ",".join(["1"] * 20_000) + "]" * 300
    assert tried.SHOWN_CHARS_MAX < len(tried._shown(deep.encode())) < 2 * tried.SHOWN_CHARS_MAX


def test_values_that_stand_deep_are_moved_once():
    class Counted(list):
        taken = 0

        def __reversed__(self):
            Counted.taken += len(self)
            return super().__reversed__()

    value = Counted(range(100))
    for _ in range(400):
        value = Counted([value])
    assert try_forms._flat(value) == list(range(100))
    assert Counted.taken == 500
