"""Trying an endpoint out from its page: a real server answers behind the API server's proxy path."""

from __future__ import annotations

import json

import pytest

from cluster import client as cluster_client
from tests.cluster.cluster_faults import FaultServer

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
