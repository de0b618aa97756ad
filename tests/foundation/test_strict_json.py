from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework import serializers

from foundation.errors import Malformed, TooLarge
from foundation.http import parsers, problems
from foundation.http.serializers import StrictSerializer


@pytest.mark.parametrize(
    ("raw", "code", "field"),
    [
        (b"", "not_json", None),
        (b"{", "not_json", None),
        (b"{'a': 1}", "not_json", None),
        (b'\xff{"a": 1}', "not_utf8", None),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8", None),
        (b'{"a": 1, "a": 2}', "duplicate_key", "a"),
        (b'{"a": {"b": 1, "b": 1}}', "duplicate_key", "b"),
        (b'{"a": NaN}', "not_finite", "a"),
        (b'{"a": [1, -Infinity]}', "not_finite", "a.1"),
        (b'{"a": 1e999}', "not_finite", "a"),
        (b'{"env": [{"name": "x\\u0000"}]}', "null_character", "env.0.name"),
        (b'{"a\\u0000b": 1}', "null_character", "a\\x00b"),
        (b'{"a": "\\ud800"}', "surrogate", "a"),
        (b'{"\\udfff": 1}', "surrogate", "\\udfff"),
        (b'{"a": 9223372036854775808}', "number_too_large", "a"),
        (b'{"a": -9223372036854775809}', "number_too_large", "a"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_too_large", None),
        (b"[" * 33 + b"]" * 33, "too_deep", None),
        (b"[" * 200_000 + b"]" * 200_000, "too_deep", None),
    ],
)
def test_what_the_database_cannot_hold_is_refused_with_its_field(raw, code, field):
    with pytest.raises(Malformed) as caught:
        parsers.loads(raw)
    assert caught.value.code == code
    assert caught.value.status == 400
    if field is not None:
        assert [each.field for each in caught.value.errors] == [field]


def test_a_body_above_two_mebibytes_is_too_large():
    with pytest.raises(TooLarge):
        parsers.loads(b'"' + b"x" * parsers.BODY_BYTES_MAX + b'"')


@pytest.mark.parametrize(
    "raw", [b'{"a": "\\ud83d\\ude00"}', '{"a": "😀"}'.encode(), b'{"a": 9223372036854775807}']
)
def test_what_is_unusual_but_sound_is_accepted(raw):
    assert "a" in parsers.loads(raw)


words = st.text(
    st.characters(max_codepoint=0x2FFF, exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5
)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(values)
def test_sound_values_come_through_unchanged(value):
    assert parsers.loads(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_parsed_or_refused_and_nothing_else(raw):
    with suppress(Malformed, TooLarge):
        parsers.loads(raw)


class EnvSerializer(StrictSerializer):
    name = serializers.CharField()


class RunSerializer(StrictSerializer):
    unsupported_fields = {"elastic": "elastic training", "roles": "roles"}

    id = serializers.IntegerField(read_only=True)
    name = serializers.CharField()
    env = EnvSerializer(many=True, required=False)


def refusals(body) -> set[tuple[str, str]]:
    serializer = RunSerializer(data=body)
    assert not serializer.is_valid()
    return {(each.field, each.code) for each in problems.flatten(serializer.errors)}


def test_an_unknown_field_is_named():
    assert refusals({"name": "a", "gpu": 1}) == {("gpu", "unknown_field")}


def test_an_unknown_field_is_named_beside_the_other_problems():
    assert refusals({"gpu": 1}) == {("gpu", "unknown_field"), ("name", "required")}


def test_fields_inside_lists_are_named_by_their_path():
    assert refusals({"name": "a", "env": [{"name": "x"}, {"nam": "y"}]}) == {
        ("env.1.nam", "unknown_field"),
        ("env.1.name", "required"),
    }


def test_a_read_only_field_cannot_be_sent():
    assert refusals({"name": "a", "id": 1}) == {("id", "read_only")}


def test_a_field_of_the_contract_that_is_not_built_says_so():
    assert refusals({"name": "a", "elastic": {"min_replicas": 2}}) == {("elastic", "not_yet_supported")}


@pytest.mark.parametrize("empty", [None, "", False, [], {}])
def test_the_empty_default_of_an_unbuilt_field_is_accepted(empty):
    assert RunSerializer(data={"name": "a", "elastic": empty}).is_valid()


@pytest.mark.parametrize("body", [[], "text", 3, None])
def test_a_body_that_is_no_object_is_refused(body):
    serializer = RunSerializer(data=body)
    assert not serializer.is_valid()
