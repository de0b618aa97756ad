"""Requests that are filled in instead of typed, and how they are written down for other programs."""

from __future__ import annotations

import json
import shlex

import pytest

from foundation.errors import Invalid
from pages.endpoints.snippets import content_type, curl_of, python_of
from pages.endpoints.try_forms import build, metadata_path, modes_of, tensors_of

PIXELS = {"model": "digits", "input-0-name": "pixels", "input-0-datatype": "FP64"}


def tensor(**values):
    request = build("v2", {**PIXELS, **{f"input-0-{key}": value for key, value in values.items()}})
    assert (request.method, request.path) == ("POST", "/v2/models/digits/infer")
    (sent,) = json.loads(request.body)["inputs"]
    return sent


@pytest.mark.parametrize(
    ("values", "shape", "data"),
    [
        ({"data": "0.1, 0.2 0.3\n4"}, [4], [0.1, 0.2, 0.3, 4.0]),
        ({"data": "1 2 3 4", "shape": "2, 2"}, [2, 2], [1.0, 2.0, 3.0, 4.0]),
        ({"data": "1 2 3 4 5 6", "shape": "-1x3"}, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ({"data": "[[1, 2], [3, 4]]", "shape": "2,2"}, [2, 2], [1, 2, 3, 4]),
        ({"data": "1 -2", "datatype": "INT8"}, [2], [1, -2]),
        ({"data": "true, 0", "datatype": "BOOL"}, [2], [True, False]),
        ({"data": "a, b\nc", "datatype": "BYTES"}, [2], ["a, b", "c"]),
    ],
)
def test_a_tensor_is_made_of_what_was_typed(values, shape, data):
    sent = tensor(**values)
    assert sent["name"] == "pixels"
    assert sent["shape"] == shape
    assert sent["data"] == data


@pytest.mark.parametrize(
    ("mode", "values", "field"),
    [
        ("v2", {**PIXELS, "input-0-data": ""}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "one"}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "nan"}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "[1, 2"}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "1.5", "input-0-datatype": "INT32"}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "maybe", "input-0-datatype": "BOOL"}, "input-0-data"),
        ("v2", {**PIXELS, "input-0-data": "1", "input-0-datatype": "FLOAT"}, "input-0-datatype"),
        ("v2", {**PIXELS, "input-0-data": "1 2 3", "input-0-shape": "2, 2"}, "input-0-shape"),
        ("v2", {**PIXELS, "input-0-data": "1 2 3", "input-0-shape": "-1, 2"}, "input-0-shape"),
        ("v2", {**PIXELS, "input-0-data": "1", "input-0-shape": "0"}, "input-0-shape"),
        ("v2", {**PIXELS, "input-0-data": "1", "input-0-shape": "big"}, "input-0-shape"),
        ("v2", {"model": "digits"}, "input-0-name"),
        ("v2", {**PIXELS, "input-0-data": "1", "model": " "}, "model"),
        ("chat", {"model": "llama"}, "message"),
        ("chat", {"message": "hello"}, "model"),
        ("chat", {"model": "m", "message": "x", "max_tokens": "0"}, "max_tokens"),
        ("chat", {"model": "m", "message": "x", "temperature": "3"}, "temperature"),
        ("predictions", {"model": "m"}, "data"),
        ("soap", {}, "mode"),
    ],
)
def test_what_makes_no_request_is_refused_at_its_field(mode, values, field):
    with pytest.raises(Invalid) as refused:
        build(mode, values)
    assert refused.value.errors[0].field == field


def test_a_chat_is_what_openai_clients_send():
    request = build("chat", {"model": "llama", "system": "Be brief.", "message": "Hello"})
    assert request.path == "/v1/chat/completions"
    assert json.loads(request.body) == {
        "model": "llama",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "max_tokens": 256,
        "temperature": 0.7,
    }


def test_a_model_name_stays_one_segment_of_the_path():
    assert metadata_path("a/../../b?c") == "/v2/models/a%2F..%2F..%2Fb%3Fc"


def test_a_servers_description_fills_the_form_and_nonsense_does_not():
    found = tensors_of({"inputs": [{"name": "x", "datatype": "INT64", "shape": [-1, 3]}, {"shape": []}, 7]})
    assert [(each.name, each.datatype, each.shape) for each in found] == [("x", "INT64", "1, 3")]
    for nonsense in (None, [], {"inputs": {}}, {"inputs": "x"}, 5):
        assert tensors_of(nonsense) == []


def test_the_form_of_the_server_comes_first_and_of_an_unknown_one_all_are_offered():
    assert modes_of("v2") == ["v2", "raw"]
    assert modes_of("chat") == ["chat", "raw"]
    assert modes_of("") == ["raw", "v2", "chat"]


@pytest.mark.parametrize("body", ['{"text": "it\'s $(rm -rf /)"}', "it's `text`; exit", "@/etc/passwd", ""])
def test_a_command_line_keeps_what_was_typed_as_one_argument(body):
    words = shlex.split(curl_of(url="http://live/vision/a/", method="POST", path="/v1/x?a=b&c=d", body=body))
    assert words[:5] == ["curl", "-sS", "-X", "POST", "http://live/vision/a/v1/x?a=b&c=d"]
    assert words[-2:] == ["--data-raw", body] if body else "--data-raw" not in words


@pytest.mark.parametrize(
    "body", ['{"a": [1, true, null, "\'"]}', "no json: \"'", "null", "NaN", "[" * 700 + "]" * 700, ""]
)
def test_the_program_is_python_and_sends_the_same(body):
    source = python_of(url="http://live/vision/a/", method="PUT", path="/x", body=body)
    calls = []
    fake = type("Answer", (), {"text": "", "raise_for_status": lambda self: None})()

    class Requests:
        @staticmethod
        def request(*args, **kwargs):
            calls.append((args, kwargs))
            return fake

    source = source.replace("import requests\n", "").replace("import os\n", "")
    exec(source, {"requests": Requests, "os": type("Os", (), {"environ": {"PORTAL_TOKEN": "t"}})})  # noqa: S102
    ((args, kwargs),) = calls
    assert args == ("PUT", "http://live/vision/a/x")
    kind = {"Content-Type": content_type(body)} if "data" in kwargs else {}
    assert kwargs["headers"] == {"Authorization": "Bearer t", **kind}
    if body.startswith("{"):
        assert kwargs["json"] == json.loads(body)
    else:
        assert kwargs.get("data", b"") == body.encode()


def test_a_body_that_only_python_takes_for_json_is_text():
    assert [content_type(body) for body in ("[1]", "null", "NaN", "[-Infinity]", "x")] == [
        *["application/json"] * 2,
        *["text/plain; charset=utf-8"] * 3,
    ]


@pytest.mark.parametrize("tokens", ["²", "9" * 5000, "1.5", "-1"])
def test_a_number_that_is_none_is_refused_at_its_field(tokens):
    with pytest.raises(Invalid) as refused:
        build("chat", {"model": "m", "message": "hello", "max_tokens": tokens})
    assert refused.value.errors[0].field == "max_tokens"
