"""Which lines a reader of a log wants: by text, by level, with a count, over chunks and pods."""

from __future__ import annotations

import random

import pytest

from foundation import clock
from foundation.errors import Malformed
from logs import reading, store, workload_logs
from logs import search as log_search
from logs.lines import LINE_BYTES_MAX, LineSplitter
from logs.matching import LineFilter
from logs.store import ContainerLog, source_of
from tests.controller.logs_bed import make_pod, make_workload, stamp
from tests.effort import seeds
from tests.factories.teams import api_client
from tests.tables import each_row
from workloads.models import LogChunk


def wanted(*texts: str, **options) -> list[bool]:
    lines = [stamp(0) + b" " + text.encode() for text in texts]
    return list(LineFilter.of(**{"search": None, "level": None} | options).marks(lines))


@each_row(
    ("level", "text"),
    [
        ("error", "2026-10-03 12:00:00,123 - trainer - ERROR - no data"),
        ("error", "CRITICAL:root:out of disk"),
        ("error", '{"ts": 1, "level": "fatal", "msg": "x"}'),
        ("error", '{"level":50,"msg":"x"}'),
        ("error", "E1003 12:00:00.000001       1 main.go:10] x"),
        ("error", "time=2026-10-03T12:00:00Z level=error msg=x"),
        ("error", "Traceback (most recent call last):"),
        ("error", "[rank3]: Traceback (most recent call last):"),
        ("error", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("error", "KeyboardInterrupt"),
        ("error", "Segmentation fault (core dumped)"),
        ("error", "\x1b[31mERROR\x1b[0m in colour"),
        ("warning", "UserWarning: x WARNING"),
        ("warning", "[warn] disk is slow"),
        ("warning", '{"severity":"WARNING"}'),
        ("warning", "W1003 12:00:00.000001       1 main.go:10] x"),
        ("info", "INFO 0 errors in 3 files"),
        ("info", '{"level":30,"msg":"0 errors"}'),
        ("debug", "DEBUG:urllib3:x"),
        (None, "epoch 3/10 loss 0.3"),
        (None, "the error went down to 0.2"),
        (None, "Information is not a level, WARNINGS neither"),
        (None, "http://errors.example.test/?x=ERRORS"),
    ],
)
def test_a_line_says_its_level(level, text):
    levels = ("debug", "info", "warning", "error")
    reached = [each for each in levels if wanted(text, level=each) == [True]]
    assert reached == (list(levels[: levels.index(level) + 1]) if level else [])


def test_a_traceback_is_of_one_piece_and_what_follows_it_is_not():
    lines = [
        "step 1",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    model(batch)",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "step 2",
        "  of a run that goes on",
    ]
    assert wanted(*lines, level="error") == [False, *[True] * 7, False, False]


def test_the_pieces_of_a_long_line_have_its_level():
    splitter = LineSplitter()
    lines = splitter.feed(stamp(0) + b" ERROR " + b"x" * (3 * LINE_BYTES_MAX) + b"\n")
    lines += splitter.feed(stamp(1) + b" fine\n")
    assert list(LineFilter(level="error").marks(lines)) == [*[True] * (len(lines) - 1), False]


@pytest.mark.parametrize(
    ("search", "text", "found"),
    [
        ("cuda", "CUDA error", True),
        ("CUDA", "cuda error", True),
        ("straße", "Große STRAßE", True),
        ("ÜBER", "über", True),
        ("out of", "\x1b[31mout\x1b[0m of", True),
        ("[31m", "\x1b[31mout", False),
        ("a.c", "abc", False),
        ("2026", "the time before it is no text", False),
    ],
)
def test_a_search_is_for_a_text_in_whatever_case(search, text, found):
    assert wanted(text, search=search) == [found]


@pytest.mark.parametrize(
    ("name", "value"), [("search", ""), ("search", "x" * 201), ("level", "severe"), ("level", "")]
)
def test_what_cannot_be_searched_for_is_named(name, value):
    with pytest.raises(Malformed, match=name):
        LineFilter.of(**{"search": None, "level": None} | {name: value})


# -- stored logs


def write(pod, *texts: str, first: int = 0, step: int = 1) -> None:
    log = ContainerLog(source_of(pod, container="main"))
    log.load()
    log.append(
        [stamp(first + at * step) + b" " + text.encode() for at, text in enumerate(texts)], now=clock.now()
    )


def every_page(run, **options):
    page = workload_logs.read_lines(run, **options)
    found = list(page.lines)
    while page.more:
        page = workload_logs.read_lines(run, **options, cursor=page.cursor)
        found += page.lines
    return found


@pytest.fixture
def small_chunks(monkeypatch):
    """So that a few hundred lines are many chunks, and a page does not hold them all."""
    monkeypatch.setattr(store, "CHUNK_BYTES_MAX", 400)
    monkeypatch.setattr(store, "MERGE_BYTES_MAX", 100)
    monkeypatch.setattr(reading, "ROWS_MAX", 5)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", seeds(usual=1, matrix=5, soak=50))
def test_pages_of_a_search_have_what_a_search_of_all_lines_has(seed, small_chunks):
    chance, run = random.Random(seed), make_workload()
    for index in range(3):
        lines = [chance.choice(["ERROR bad", "fine", "INFO Needle", "needle"]) for _ in range(200)]
        for begin in range(0, 200, 40):
            write(make_pod(run, f"t-{index}") if not begin else run.pods.get(name=f"t-{index}"),
                  *lines[begin : begin + 40], first=index + begin * 3, step=3)  # fmt: skip
    everything = workload_logs.read_lines(run, tail=10_000).lines
    for options, keeps in (
        ({"search": "needle", "level": None}, lambda text: "needle" in text.lower()),
        ({"search": None, "level": "error"}, lambda text: "ERROR" in text),
        ({"search": "nee", "level": "info"}, lambda text: text == "INFO Needle"),
    ):
        by = LineFilter.of(**options)
        right = [line for line in everything if keeps(line.text)]
        found = every_page(run, wanted=by, limit=7)
        assert sorted(found, key=str) == sorted(right, key=str)
        assert workload_logs.read_lines(run, wanted=by, tail=9).lines == right[-9:]
        count = log_search.count_lines(run, by, attempt=None, pod=None, since=None)
        assert count == (len(right), True)


@pytest.mark.django_db
def test_a_line_has_the_same_number_for_ever(small_chunks, settings):
    run = make_workload()
    pod = make_pod(run, "train-0")
    for begin in range(0, 60, 20):
        write(pod, *(f"line {at}" for at in range(begin, begin + 20)), first=begin)
    found = every_page(run)
    assert [line.number for line in found] == list(range(1, 61))
    assert {line.text: line.number for line in found} == {f"line {at}": at + 1 for at in range(60)}
    half = workload_logs.read_lines(run, limit=13)
    after = workload_logs.read_lines(run, cursor=half.cursor, limit=2)
    assert [line.number for line in after.lines] == [14, 15]
    assert [line.number for line in workload_logs.read_lines(run, tail=2).lines] == [59, 60]
    assert [line.number for line in every_page(run, wanted=LineFilter("line 42"))] == [43]
    first = LogChunk.objects.order_by("sequence").first()
    first.delete()
    write(pod, "line 60", first=60)
    left = every_page(run)
    assert (left[0].number, left[-1].number) == (first.lines + 1, 61)


@pytest.mark.django_db
def test_of_a_log_too_long_to_count_the_newest_part_is(small_chunks, monkeypatch):
    run = make_workload()
    write(make_pod(run, "train-0"), *["needle"] * 100)
    monkeypatch.setattr(log_search, "COUNT_BYTES_MAX", 800)
    count, complete = log_search.count_lines(run, LineFilter("needle"), attempt=None, pod=None, since=None)
    assert 0 < count < 100
    assert not complete


@pytest.mark.django_db
def test_rest_finds_counts_and_hands_out_as_a_file():
    run = make_workload()
    write(make_pod(run, "train-0"), "epoch 1", "ERROR no data", "epoch 2", "Error: data!")
    client, url = api_client(run.owner), f"/api/v1/training-runs/{run.public_id}/logs/"
    found = client.get(url, {"format": "json", "search": "DATA", "limit": 1}).json()
    assert ([(line["number"], line["text"]) for line in found["lines"]], found["matches"], found["more"]) == (
        [(2, "ERROR no data")], {"count": 2, "complete": True}, True,
    )  # fmt: skip
    rest = client.get(url, {"format": "json", "search": "DATA", "cursor": found["cursor"]}).json()
    assert ([line["number"] for line in rest["lines"]], rest["matches"]) == ([4], None)
    assert client.get(url, {"format": "json"}).json()["matches"] is None
    file = client.get(url, {"level": "error", "times": "1", "download": "1"})
    assert file["Content-Disposition"] == f'attachment; filename="{run.name}-attempt-1.log"'
    assert b"".join(file.streaming_content).decode().splitlines() == [
        "2026-10-03T12:00:00.010000Z ERROR no data",
        "2026-10-03T12:00:00.030000Z Error: data!",
    ]
    for wrong in ({"search": ""}, {"level": "severe"}, {"times": "x"}, {"download": "yes"}):
        assert next(iter(wrong)) in str(client.get(url, wrong).json()["errors"])
