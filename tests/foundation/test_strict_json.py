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
        (b"[" * 19_000 + b"]" * 19_000, "too_deep", None),
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
    "raw",
    [
        b"[" + b"1," * 900_000 + b"1]",
        b"{" + b",".join(b'"k%d":1' % number for number in range(130_000)) + b"}",
        b"[" + b",".join([b"{}"] * 600_000) + b"]",
        b'{"a":[' + b",".join([b"[[]]"] * 10_000) + b"]}",
    ],
    ids=["values", "keys", "objects", "lists in lists"],
)
def test_a_body_of_too_many_values_is_refused_before_any_is_looked_at(raw, monkeypatch):
    looked = []
    monkeypatch.setattr(parsers.json, "loads", lambda *what, **_: looked.append(what))
    with pytest.raises(TooLarge) as caught:
        parsers.loads(raw)
    assert (caught.value.code, looked) == ("too_many_values", [])


@pytest.mark.parametrize("text", [",[{:" * 100_000, '\\",\\\\' * 50_000, "[]" * 200_000])
def test_a_long_text_of_marks_is_one_value(text):
    assert parsers.loads(json.dumps({"a": text, "b,:[": [text]}).encode()) == {"a": text, "b,:[": [text]}


def test_as_many_empty_lists_as_values_may_be_are_taken():
    most = parsers.VALUES_MAX - 1
    assert len(parsers.loads(b"[" + b",".join([b"[ \n]"] * most) + b"]")) == most
    with pytest.raises(TooLarge):
        parsers.loads(b"[" + b",".join([b"[]"] * (most + 1)) + b"]")


def counted(value) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + counted(each) for each in value.values())
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 1


marks = st.text(st.sampled_from(',:[]{}"\\ a\u20ac'), max_size=8)


@given(
    st.recursive(
        st.none() | st.integers() | marks,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(marks, inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_what_is_counted_in_the_text_is_what_the_value_holds(value, indent, ascii_only):
    raw, most = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(), counted(value)
    assert not parsers.holds_more(raw, most)
    assert parsers.holds_more(raw, most - 1)


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


class ListedSerializer(StrictSerializer):
    words = serializers.ListField(child=serializers.CharField(), max_length=3)


def test_of_many_unknown_fields_twenty_are_named_and_the_rest_counted():
    body = ListedSerializer(data={"words": [], **{f"k{number}": 1 for number in range(4332)}})
    assert not body.is_valid()
    found = list(problems.flatten(body.errors))
    assert len(found) == 21
    assert (found[-1].field, found[-1].code) == ("", "unknown_field")
    assert found[-1].message == "And 4,312 more fields that there are not."


def test_of_a_list_that_is_too_long_no_item_is_looked_at():
    body = ListedSerializer(data={"words": [7] * 5000})
    assert not body.is_valid()
    assert [(each.field, each.code) for each in problems.flatten(body.errors)] == [("words", "max_length")]


def test_a_problem_document_lists_a_hundred_and_says_how_many_there_are():
    wrong = serializers.ValidationError({f"k{number}": ["no"] for number in range(2500)})
    problem = problems.problem_of(wrong)
    assert len(problem.errors) == problems.ERRORS_MAX
    assert "(2,500 problems in all, of which 100 are listed)" in problem.detail
