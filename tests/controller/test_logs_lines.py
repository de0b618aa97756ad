from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import Malformed
from logs import lines as log_lines
from logs.ansi import ansi_to_html
from logs.cursor import LogCursor, stream_key
from logs.lines import LINE_BYTES_MAX, LineSplitter

AT = b"2026-10-03T12:00:00.000000001Z"


def split(*pieces: bytes, finish: bool = False) -> list[bytes]:
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + (splitter.finish() if finish else [])


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (b"2026-10-03T12:00:00Z", b"2026-10-03T12:00:00.000000000Z"),
        (b"2026-10-03T12:00:00.1Z", b"2026-10-03T12:00:00.100000000Z"),
        (b"2026-10-03T14:00:00.123456789+02:00", b"2026-10-03T12:00:00.123456789Z"),
        (b"2026-13-03T12:00:00Z", None),
        (b"rpc", None),
    ],
)
def test_times_are_stored_in_utc_with_nine_digits(written, stored):
    assert log_lines.utc_stamp(written) == stored


def test_text_is_kept_byte_for_byte_and_shown_with_replacements():
    (line,) = split(AT + b" a\x00\xff\r \x1b[1mb\n")
    assert line == AT + b" a\x00\xff\r \x1b[1mb"
    assert log_lines.text_of(line) == "a\x00�\r \x1b[1mb"


def test_an_unfinished_line_is_stored_only_when_the_log_has_ended():
    assert split(AT + b" a\n" + AT + b" b") == [AT + b" a"]
    assert split(AT + b" a\n" + AT + b" b", finish=True) == [AT + b" a", AT + b" b"]


def test_messages_of_the_kubelet_without_a_time_are_left_out():
    assert split(b"unable to retrieve container logs\n" + AT + b" a\n" + b"rpc error\n") == [AT + b" a"]
    assert split(b"x" * 300_000, b"\n" + AT + b" a\n") == [AT + b" a"]


def test_an_empty_line_is_a_line():
    assert split(AT + b" \n") == [AT + b" "]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")),
            st.integers(min_value=LINE_BYTES_MAX // 2 - 2, max_value=2 * LINE_BYTES_MAX),
        ),
        max_size=5,
    ),
    st.lists(st.integers(min_value=1, max_value=100_000), min_size=1, max_size=20),
)
def test_how_the_bytes_are_cut_makes_no_difference_and_long_lines_can_be_joined(drawn, sizes):
    texts = ["é".encode() * each if isinstance(each, int) else each for each in drawn]
    whole = b"".join(AT + b" " + text + b"\n" for text in texts)
    pieces, at = [], 0
    while at < len(whole):
        size = max(sizes[len(pieces) % len(sizes)], len(whole) // 200)
        pieces.append(whole[at : at + size])
        at += size
    lines = split(*pieces)
    assert lines == split(whole)
    assert all(len(line) <= LINE_BYTES_MAX + log_lines.PREFIX_BYTES for line in lines)
    joined: list[bytes] = []
    for line in lines:
        text = line[log_lines.PREFIX_BYTES :]
        if log_lines.is_continued(line):
            joined[-1] += text
        else:
            joined.append(text)
    assert joined == texts


def test_long_lines_are_not_cut_inside_a_character():
    lines = split(AT + b" " + b"a" + "é".encode() * LINE_BYTES_MAX + b"\n")
    assert len(lines) == 3
    assert "�" not in "".join(log_lines.text_of(line) for line in lines)


def test_a_cursor_reads_back_and_anything_else_is_refused():
    since = datetime(2026, 1, 1, microsecond=5, tzinfo=UTC)
    cursor = LogCursor(attempt=3, since=since, positions={stream_key("u", "main"): (7, 9)})
    assert LogCursor.decode(cursor.encode()) == cursor
    for text in ("", "x", "é", "AAAA", cursor.encode()[:-3], "A" * 40):
        with pytest.raises(Malformed):
            LogCursor.decode(text)


@pytest.mark.parametrize(
    ("line", "html"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m.", '<span class="ansi-red">red</span>.'),
        ("\x1b[1;92;44mx", '<span class="ansi-bold ansi-bright-green ansi-bg-blue">x</span>'),
        ("\x1b[38;5;196mx\x1b[48;2;1;2;3;4my", 'x<span class="ansi-underline">y</span>'),
        ("\x1b[2J\x1b[1Aup\x1b]0;title\x07!", "up!"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb\x00\x07\x08\tc", "ab\tc"),
        ("\x1b[31m", ""),
        ("\x1b", ""),
        ("\x1b[?25lhid", "hid"),
        ("\x1b[" + "1;" * 5000 + "mx", "x"),
    ],
)
def test_colours_become_spans_and_other_sequences_go(line, html):
    assert ansi_to_html(line) == html


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "\x1b[31m<img src=x onerror=alert(1)>\x1b[0m",
        "<scr\x1b[0mipt>alert(1)</script>",
        '\x1b[31"onmouseover="alert(1)mx',
        '\x1b[31;"><script>m</script>',
        "&lt;script&gt;",
        "\x1b]8;;javascript:alert(1)\x07<a>\x1b]8;;\x07",
        "\x9b31m<b>",
        "</span><svg/onload=alert(1)>",
        "'\"`=<>&",
    ],
)
def test_no_log_line_becomes_markup(attack):
    import re

    html = ansi_to_html(attack)
    rest = re.sub(r'<span class="(ansi-[a-z-]+ ?)+">|</span>', "", html)
    assert not set("<>\"'") & set(rest)


@given(st.text())
def test_no_text_at_all_becomes_markup(text):
    import re

    rest = re.sub(r'<span class="(ansi-[a-z-]+ ?)+">|</span>', "", ansi_to_html("\x1b[3" + text))
    assert not set("<>\"'") & set(rest)
