"""YAML of somebody else ends where it is too much; how much was read is counted, not timed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from foundation import bounded_yaml
from foundation.bounded_yaml import Limits, TooMuchError, UnreadableError, read

FEW = Limits(values=200, depth=16, documents=3, aliases=20)


@pytest.fixture
def events(monkeypatch):
    """How many events were taken from the parser."""
    taken = [0]
    parse = yaml.parse

    def counted(*args, **kwargs):
        for event in parse(*args, **kwargs):
            taken[0] += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    return taken


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * 60_000 + "]",
        "[" * 250 + "1," * 60_000,
        "[" * 60_000,
        "- " * 60_000,
        "".join(f"k{number}: 1\n" for number in range(12_000)),
        "?\n" * 40_000,
        "---\na\n" * 18_000,
        "a: &a x\n" + "".join(f"b{number}: *a\n" for number in range(9_000)),
    ],
    ids=[
        "values",
        "values inside of many levels",
        "levels",
        "dashes",
        "keys",
        "questions",
        "documents",
        "aliases",
    ],
)
def test_a_text_of_much_is_left_at_its_first_too_many(events, text):
    with pytest.raises(TooMuchError):
        read(text, FEW)
    assert events[0] <= 2 * FEW.values


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
        "a: &a {x: 1, y: 2, z: 3, u: 4}\nb: &b {<<: [*a,*a,*a,*a]}\nc: &c {<<: [*b,*b,*b,*b]}\nd: {<<: [*c,*c,*c]}",
    ],
)
def test_what_stands_behind_an_alias_counts_each_time(text):
    with pytest.raises(TooMuchError, match="at most 200 values"):
        read(text, FEW)


@pytest.mark.parametrize(
    "number",
    [
        "1:30",
        ":".join(["59"] * 40_000),
        "1" + ":1" * 60_000 + ".5",
        "9" * 100_000,
        "0x" + "f" * 100_000,
        "0b" + "1" * 100_000,
    ],
    ids=["time", "base 60", "base 60 with a fraction", "digits", "hexadecimal", "binary"],
)
def test_no_number_is_made_of_what_costs_the_square_of_its_length(number):
    assert read(f"a: {number}", FEW) == [{"a": number}]
    assert read(f"a: !!int '{number}'", FEW) == [{"a": number}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0644", 420),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-7", -7),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        ("yes", True),
        ("~", None),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("'1'", "1"),
        ("!!str 1", "1"),
    ],
)
def test_all_else_is_what_the_cluster_reads(text, value):
    assert read(f"a: {text}", FEW) == [{"a": value}]


def test_times_are_read_where_they_are_asked_for():
    [found] = read("a: 2026-01-01T00:00:00Z", Limits(values=9, times=True))
    assert isinstance(found["a"], datetime)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line"),
        ("a: 1\na: 2", "the key a is given twice"),
        ("? [a]\n: 1", "a key is no text"),
        ("a: &a [*a]", "holds it"),
        ("a: !!python/object/apply:os.system [ls]", "is not read"),
        ("a: !!timestamp soon", "is not read"),
        ("a: !!binary aGVsbG8=", "is not read"),
        ("a: !!int ''", "index"),
        ("a: !!bool perhaps", "perhaps"),
        ("\x00", "character"),
    ],
)
def test_what_is_no_such_yaml_is_refused_with_the_reason(text, said):
    with pytest.raises(UnreadableError, match=said):
        read(text, FEW)


@given(st.text("abc:-[]{},&*!?|>'\"%@`# \n\t019._~<", max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text):
    with suppress(UnreadableError):
        read(text, FEW)


def test_a_key_that_is_given_twice_is_looked_for_in_one_pass():
    class Counted(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    keys = [yaml.ScalarNode("tag:yaml.org,2002:str", Counted(number)) for number in range(2_000)]
    value = yaml.ScalarNode("tag:yaml.org,2002:null", "")
    node = yaml.MappingNode("tag:yaml.org,2002:map", [(key, value) for key in keys])
    bounded_yaml._check_node(node, 20_000, {}, set())
    assert Counted.compared < 10 * len(keys)
